"""A node that may put nothing into the kernel while its traffic is on a standby: it comes home all the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from meshwatchd.core.failover.path_retirement import PATIENCE_NS
from meshwatchd.model.events import CoordinationKind, Reason, SnapshotReceived
from meshwatchd.model.failover_facts import (
    FailoverApplied,
    FailoverHeld,
    FailoverRolledBack,
    OverrideAdopted,
    OverrideRetired,
)
from meshwatchd.model.ids import Layer
from meshwatchd.model.outputs import ApplySwitch, EnsureProvision
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.settings import MS, SECOND, Mode
from meshwatchd.model.snapshot import ForeignObject
from tests.support.bench import Bench, message, ready
from tests.support.lab_mesh import settings_for, snapshot_of

PROPOSE, GRANT, REFUSE, NOTICE = CoordinationKind
OVERRIDE = Rule(priority=5460, table=7701)
STRANGER = ForeignObject(what="route 10.9.0.0/16 table 7750", owner_protocol=4)
IN_VAIN = ForeignObject(what="the kernel does not take rule 5411", owner_protocol=0, is_ahead=True)
HOME = Switch(delete=(OVERRIDE,))


def _restarted(name: str, *, mode: Mode = Mode.ENFORCE, override: Rule = OVERRIDE) -> Bench:
    """Somebody's route is in a table of ours, traffic is on path 1, a1-b2, and the daemon starts."""
    snapshot = msgspec.structs.replace(snapshot_of(name, rules=(override,)), collisions=(STRANGER,))
    bench = Bench(name, settings=settings_for(name, mode=mode), snapshot=snapshot)
    bench.run(SECOND)
    return bench


def _shadowed(name: str) -> Bench:
    """Traffic is on path 1, and the kernel is found to take another rule before our selectors."""
    bench = ready(name, rules=(OVERRIDE,))
    bench.run(SECOND)
    shown = msgspec.structs.replace(snapshot_of(name, rules=(OVERRIDE,)), collisions=(IN_VAIN,))
    bench.feed(SnapshotReceived(snapshot=shown))
    return bench


AWAY = pytest.mark.parametrize("away", [_restarted, _shadowed])


def _switches(bench: Bench, since: int = 0) -> list[Switch]:
    return [each.switch for each in bench.said(ApplySwitch, since=since)]


def _home(target: str, **words: Any):
    given: dict[str, Any] = {"rank": 0, "target": target, "generation": 2, "reason": Reason.RESTORED, **words}
    return message(PROPOSE, **given)


@AWAY
def test_who_may_put_nothing_follows_the_relay_home(away):
    """The relay has left: its standby may be gone by the next minute, and the way home removes a rule."""
    bench = away("b3")
    assert not bench.controller.context.is_enforcing
    since = bench.now
    bench.hear("b2", message(NOTICE, rank=0, target="b3", generation=2, reason=Reason.RESTORED))
    bench.run(SECOND)

    assert [HOME] == _switches(bench, since)
    assert 0 == bench.controller.active.rank


@AWAY
def test_who_may_put_nothing_grants_the_way_home(away):
    """Else one such relay would keep the whole pair on the standby."""
    bench = away("b2")
    bench.vouch()
    bench.run(3 * SECOND)
    since = bench.now
    bench.hear("a1", _home("b2"))
    bench.run(SECOND)

    assert [Reason.RESTORED] == [each.reason for each in bench.spoken(GRANT, since=since)]
    assert [HOME] == _switches(bench, since)


@AWAY
def test_a_relay_that_may_put_nothing_asks_for_the_way_home(away):
    """The other one may have been started anew as well, and know of no failover."""
    bench = away("b2")
    bench.vouch()
    bench.run(20 * SECOND)

    assert {(0, "a1", Reason.RESTORED)} == {(m.rank, m.target, m.reason) for m in bench.spoken(PROPOSE)}


def test_a_relay_that_may_put_nothing_leaves_a_standby_whose_other_relay_dies():
    """a2 carries traffic of b1 no more, which has no sessions there and sees no fault: the way home is good."""
    bench = _restarted("b1", override=Rule(priority=5460, table=7702))
    bench.vouch()
    bench.silent = lambda plan: plan.peer == "a2"
    bench.run(20 * SECOND)
    asked = bench.spoken(PROPOSE)
    assert {("a1", 0)} == {(each.target, each.rank) for each in asked}
    bench.hear("a1", message(GRANT, rank=0, target="b1", generation=asked[-1].generation, nonce=asked[-1].nonce))
    bench.run(SECOND)

    assert 0 == bench.controller.active.rank


@AWAY
def test_who_may_put_nothing_goes_nowhere_else(away):
    """Another standby would need a rule."""
    bench = away("b2")
    bench.run(3 * SECOND)
    since = bench.now
    bench.hear("a2", message(PROPOSE, rank=3, target="b2", generation=2))
    bench.hear("a2", message(NOTICE, rank=3, target="b2", generation=2))
    bench.run(SECOND)

    assert [Reason.MODE] == [each.reason for each in bench.spoken(REFUSE, since=since)]
    assert [] == _switches(bench, since)


def test_who_may_put_nothing_any_more_takes_no_standby_that_it_has_asked_for():
    """Something came into the place of its rules while the other relay answered."""
    bench = ready("b2")
    bench.silent = lambda plan: plan.path == 0
    bench.run_until_suspected()
    bench.run(200 * MS)
    asked = bench.spoken(PROPOSE)[0]
    bench.feed(SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("b2"), collisions=(IN_VAIN,))))
    bench.hear("a1", message(GRANT, rank=asked.rank, target="b2", nonce=asked.nonce, generation=asked.generation))
    bench.run(SECOND)

    assert [] == _switches(bench)
    assert "granted, and this node may put no rule any more" in [each.reason for each in bench.said(FailoverHeld)]


@AWAY
def test_a_way_home_that_proves_bad_is_not_undone_by_who_may_put_nothing(away):
    """Back on the standby would be a rule again."""
    bench = away("b2")
    bench.vouch()
    bench.run(3 * SECOND)
    since = bench.now
    bench.hear("a1", _home("b2"))
    bench.silent = lambda plan: plan.layer is Layer.EFFECTIVE
    bench.run(3 * SECOND)

    assert [0] == [each.to_rank for each in bench.said(FailoverApplied)]
    assert [] == bench.said(FailoverRolledBack)
    assert [HOME] == _switches(bench, since)


def test_who_may_put_nothing_leaves_a_path_that_the_mesh_does_not_have():
    """An earlier process went there; only the primary path is to be had without a rule."""
    stale = Rule(priority=5460, table=7719)
    bench = _restarted("b2", override=stale)
    bench.run(PATIENCE_NS + SECOND)

    assert [Switch(delete=(stale,))] == _switches(bench)
    assert [0] == [each.to_rank for each in bench.said(OverrideRetired)]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_who_observes_or_advises_does_not_even_come_home(mode):
    """Those modes change nothing, whatever it is."""
    bench = _restarted("b2", mode=mode)
    assert [1] == [each.rank for each in bench.said(OverrideAdopted)]
    bench.vouch()
    bench.run(20 * SECOND)
    bench.hear("a1", _home("b2"))
    bench.hear("a1", message(NOTICE, rank=0, target="b2", generation=2, reason=Reason.RESTORED))
    bench.run(SECOND)

    assert [] == bench.spoken(PROPOSE)
    assert [Reason.MODE] == [each.reason for each in bench.spoken(REFUSE)]
    assert [] == _switches(bench)
    assert [] == bench.said(EnsureProvision)
