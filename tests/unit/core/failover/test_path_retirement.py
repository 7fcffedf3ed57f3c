"""Off a path that is gone: only onto one that answers, with the kernel's consent, and with words if there is none."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.core.failover.pair_controller import BETWEEN_PATHS
from meshwatchd.core.failover.path_retirement import LINGER_NS, PATIENCE_NS, RETRY_NS
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.failover_facts import FailoverHeld, OverrideRetired, PlanRefused
from meshwatchd.model.ids import Layer, LocationName, NodeName
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.settings import MS, SECOND, Mode
from meshwatchd.model.topology import Location
from tests.support.bench import Bench, primary_is_silent, ready
from tests.support.lab_mesh import declared_mesh, settings_for, snapshot_of

LEGACY = Rule(priority=5460, table=7701)


def _on_standby(name: str) -> Bench:
    """Traffic of the node is on path 1, a1-b2."""
    bench = ready(name)
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    return bench


def _b3_stands_by_for_b2(bench: Bench) -> list[object]:
    """b2 relays no more; a1-b3 has the number, the table and the device that a1-b2 had."""
    mesh = declared_mesh()
    cloud = Location(name=LocationName("cloud"), leader=NodeName("b1"), standbys=(NodeName("b3"),))
    nodes = tuple(
        msgspec.structs.replace(each, standby_public_key="key-of-b3", standby_endpoint="198.51.100.23")
        if each.name == "b3"
        else each
        for each in mesh.node
    )
    changed = msgspec.structs.replace(mesh, location=(mesh.location[0], cloud), node=nodes)
    snapshot = msgspec.structs.replace(snapshot_of(bench.engine.state.node, rules=(LEGACY,)), mesh=changed)
    return bench.feed(ev.SnapshotReceived(snapshot=snapshot))


def _not_over_a1(plan: out.SessionPlan) -> bool:
    """Loses what crosses the mesh's own path, and what would cross the standby link that takes the place of a1-b2."""
    return primary_is_silent(plan) or plan.path == 1


def test_the_override_goes_when_the_mesh_s_own_path_answers():
    """Until then table and link stay as they are; afterwards the link lingers for those who still send over it."""
    bench = _on_standby("a1")
    began = bench.now
    _b3_stands_by_for_b2(bench)
    (held,) = bench.said(out.EnsureProvision, since=began)
    assert (("mw0",), (7701,)) == (held.provision.kept_devices, held.provision.kept_tables)
    assert "mw0" not in {link.device for link in held.provision.links}
    assert BETWEEN_PATHS == bench.controller.active.rank
    bench.run(2 * SECOND)

    (switch,) = bench.said(out.ApplySwitch, since=began)
    assert ((), (LEGACY,)) == (switch.switch.add, switch.switch.delete)
    assert [0] == [fact.to_rank for fact in bench.said(OverrideRetired)]
    assert 0 == bench.controller.active.rank
    bench.run(LINGER_NS)
    last = bench.said(out.EnsureProvision, since=began)[-1].provision
    assert ((), ()) == (last.kept_devices, last.kept_tables)
    assert {"mw0"} == {link.device for link in last.links if link.peer == "b3"}


def test_traffic_stays_while_nothing_answers():
    """Neither the new path nor a standby: the old override is the best there is, and that is said once."""
    bench = _on_standby("a1")
    began = bench.now
    bench.silent = lambda plan: plan.layer is Layer.RELAY
    _b3_stands_by_for_b2(bench)
    bench.run(PATIENCE_NS + 5 * SECOND)

    assert [] == bench.said(out.ApplySwitch, since=began)
    assert 1 == sum("no part of the mesh" in fact.reason for fact in bench.said(FailoverHeld, since=began))


def test_another_standby_is_good_enough_after_a_while():
    """Neither the mesh's own path nor a1-b3 comes up, a2-b1 over its link does: make before break, in one change."""
    bench = _on_standby("a3")
    began = bench.now
    bench.silent = _not_over_a1
    _b3_stands_by_for_b2(bench)
    bench.run(PATIENCE_NS - 500 * MS)
    assert [] == bench.said(out.ApplySwitch, since=began)
    bench.run(SECOND)

    assert [2] == [fact.to_rank for fact in bench.said(OverrideRetired)]
    assert 2 == bench.controller.active.rank
    (command,) = bench.said(out.ApplySwitch, since=began)
    assert ((Rule(priority=5460, table=7702),), (LEGACY,)) == (command.switch.add, command.switch.delete)


def test_a_kernel_that_refuses_is_asked_again():
    """Traffic is where it was meanwhile."""
    bench = _on_standby("a1")
    began = bench.now
    bench.kernel = "no"
    _b3_stands_by_for_b2(bench)
    bench.run(SECOND)
    refused = len(bench.said(PlanRefused, since=began))
    assert refused >= 1
    bench.kernel = ""
    bench.run(2 * RETRY_NS)

    assert 0 == bench.controller.active.rank
    assert bench.controller.parting is None


def test_peers_are_not_followed_on_the_way():
    """A relay that names a rank of the old mesh, or of the new one, moves nobody who is between paths."""
    bench = _on_standby("a3")
    bench.silent = lambda plan: plan.layer is Layer.RELAY
    _b3_stands_by_for_b2(bench)
    relays = bench.controller.watch.relays_print
    began = bench.now
    bench.hear("a1", None, ev.Banner(active=(ev.ActivePath(pair=0, rank=2, generation=9, relays=relays),)))
    bench.run(100 * MS)

    assert [] == bench.said(out.ApplySwitch, since=began)


def test_an_override_of_an_earlier_process_that_fits_no_path_goes_once_the_path_answers():
    """Its table holds what nobody plans; the link its routes lead into is left alone until then."""
    stale = Rule(priority=5460, table=7719)
    bench = Bench("a1")
    snapshot = snapshot_of("a1", rules=(stale,))
    routes = (Route(dst="10.2.0.13/32", table=7719, dev="mw5"),)
    bench = Bench("a1", snapshot=msgspec.structs.replace(snapshot, routes=routes))
    (held,) = bench.said(out.EnsureProvision)
    assert (("mw5",), (7719,)) == (held.provision.kept_devices, held.provision.kept_tables)
    bench.run(2 * SECOND)

    (switch,) = bench.said(out.ApplySwitch)
    assert ((), (stale,)) == (switch.switch.add, switch.switch.delete)


def test_ranks_of_another_mesh_are_not_followed():
    """A banner and a message that mean other relays by their ranks say nothing here."""
    bench = ready("a3")
    other = bench.controller.watch.relays_print % 255 + 1
    bench.hear("a1", None, ev.Banner(active=(ev.ActivePath(pair=0, rank=1, generation=5, relays=other),)))
    notice = ev.Coordination(
        kind=ev.CoordinationKind.NOTICE,
        pair=0,
        rank=1,
        generation=5,
        nonce=0,
        target=bench.engine.state.node,
        relays=other,
    )
    bench.hear("a1", notice)
    bench.run(100 * MS)
    assert [] == bench.said(out.ApplySwitch)
    bench.hear("a1", msgspec.structs.replace(notice, relays=bench.controller.watch.relays_print))
    bench.run(100 * MS)

    assert 1 == bench.controller.mover.active.rank


def test_the_same_words_mean_more_once_the_mesh_has_changed():
    """Who hears of a new relay late takes no word about it; the next packet says the same, and counts."""
    bench, later = ready("a3"), ready("a3")
    _b3_stands_by_for_b2(later)
    up, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
    shared = ev.ActivePath(pair=0, rank=0, generation=0, relays=later.controller.watch.relays_print)
    said = ev.Banner(
        view_up=up, view_known=known, active=(shared, ev.ActivePath(pair=5, rank=0, generation=0, relays=1))
    )
    understood = []
    for _ in range(2):
        bench.hear("b3", None, said)
        bench.hear("b3", None, said)
        understood.append(bench.engine.state.views.read("b3", 0, View.RELAY_PATH, since=0))
        _b3_stands_by_for_b2(bench)

    assert [Leg.UNKNOWN, Leg.DEAD] == understood


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_who_may_change_nothing_leaves_what_an_earlier_process_left(mode):
    """An override of a mesh that was: it is told, and the kernel stays as it is."""
    stale = Rule(priority=5460, table=7719)
    bench = Bench("a1", settings=settings_for("a1", mode=mode), rules=(stale,))
    bench.run(PATIENCE_NS + 5 * SECOND)

    assert [] == bench.said(out.ApplySwitch)
    (held,) = [fact.reason for fact in bench.said(FailoverHeld) if "no part of the mesh" in fact.reason]
    assert "this daemon may change nothing" in held


def test_what_an_operator_chose_is_not_what_comes_in_its_place():
    """He chose a1-b2, and b2 relays no more: where traffic goes instead is no choice."""
    bench = _on_standby("a3")
    bench.controller.mover.is_pinned = True
    bench.silent = _not_over_a1
    _b3_stands_by_for_b2(bench)
    bench.run(PATIENCE_NS + SECOND)

    assert 2 == bench.controller.active.rank
    assert not bench.controller.mover.is_pinned
    states = bench.said(out.SaveState)
    assert [False] == [record.is_pinned for record in states[-1].state.pairs]


def _last_kept(bench: Bench, since: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    provision = bench.said(out.EnsureProvision, since=since)[-1].provision
    return provision.kept_devices, provision.kept_tables


@pytest.mark.parametrize("deaf_or_carrying", ["carries traffic", "this node is deaf"])
def test_what_the_old_path_stands_on_is_kept_while_it_may_carry_anything(deaf_or_carrying):
    """Probes that go where real traffic goes are answered, or say nothing as loopback probes fail as well."""
    bench = _on_standby("a1")
    began = bench.now
    is_deaf = deaf_or_carrying == "this node is deaf"
    bench.silent = lambda plan: is_deaf or plan.layer is Layer.RELAY
    _b3_stands_by_for_b2(bench)
    bench.run(PATIENCE_NS + 8 * SECOND)

    assert (("mw0",), (7701,)) == _last_kept(bench, began)


def test_a_path_that_carries_nothing_gives_up_its_place_for_good():
    """Nothing is answered where real traffic goes: a1-b3 may be the way out, and needs the link and table of a1-b2."""
    bench = _on_standby("a1")
    began = bench.now
    bench.silent = lambda plan: plan.layer in (Layer.RELAY, Layer.EFFECTIVE)
    _b3_stands_by_for_b2(bench)
    bench.run(PATIENCE_NS - 500 * MS)
    assert (("mw0",), (7701,)) == _last_kept(bench, began)
    bench.run(8 * SECOND)
    assert ((), ()) == _last_kept(bench, began)

    bench.silent = lambda plan: plan.layer is Layer.RELAY
    bench.run(8 * SECOND)
    assert ((), ()) == _last_kept(bench, began), "the answers are those of what stands there instead"
    bench.silent = lambda plan: False
    bench.run(2 * SECOND)
    assert bench.controller.parting is None
    assert ((), ()) == bench.controller.holds(bench.now), "nor does it linger, with the routes of another path into it"
