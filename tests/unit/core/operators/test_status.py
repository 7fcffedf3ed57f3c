"""The status an operator sees."""

from __future__ import annotations

import random

import msgspec
import pytest

from meshwatchd.core.engine import Engine
from meshwatchd.model.events import SnapshotReceived
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.settings import MS, SECOND, Mode, ProbeSettings, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.profiles import PROFILES
from tests.support.bench import Bench, primary_is_silent, ready
from tests.support.lab_mesh import settings_for, snapshot_of


def _status(bench):
    return bench.engine.status(bench.now, {"sent": 7})


def _states(bench):
    return [path.state for path in _status(bench).pairs[0].paths]


@pytest.mark.parametrize(("name", "role"), [("a1", "leader"), ("a2", "standby"), ("a3", "member")])
def test_a_node_knows_its_role(name, role):
    """As declared."""
    status = _status(ready(name))

    assert (name, role, "onprem", "enforce", True) == (
        status.node,
        status.role,
        status.location,
        status.mode,
        status.is_ready,
    )
    assert ({"sent": 7}, Severity.OK) == (status.counters, status.severity)


def test_in_health_every_path_is_good():
    """Full redundancy, rank 0 in use."""
    (pair,) = _status(ready("a2")).pairs

    assert ("cloud", "onprem", 0, "full") == (pair.remote_location, pair.location, pair.active_rank, pair.redundancy)
    assert [True, False, False, False, False] == [path.is_active for path in pair.paths]
    assert [False, False, True, True, False] == [path.is_local_relay for path in pair.paths]
    assert ["good"] * 5 == [path.state for path in pair.paths]


def test_paths_have_the_state_their_groups_have():
    """Unwatched before they stand, unknown at first, suspect at the first misses, down in the end."""
    bench = Bench("a2")
    assert ["unknown", *["unwatched"] * 4] == _states(bench)
    bench.run(0)
    assert ["unknown"] * 5 == _states(bench)
    bench = ready("a2")
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    assert "suspect" == _states(bench)[0]
    bench.run(SECOND)
    assert "down" == _states(bench)[0]
    assert ["good", "good", "unwatched", "unwatched", "good"] == _states(ready("a1"))


def test_missing_standbys_reduce_redundancy():
    """Some, or all."""
    bench = ready("a2")
    bench.silent = lambda plan: plan.path == 1
    bench.run(3 * SECOND)
    assert "reduced" == _status(bench).pairs[0].redundancy
    bench.silent = lambda plan: plan.path in (1, 2, 3)
    bench.run(40 * SECOND)

    assert "good" == _states(bench)[4], "and it is no standby: it shares both relays with the primary path"
    assert "none" == _status(bench).pairs[0].redundancy


def test_a_link_between_the_two_leaders_is_no_redundancy():
    """Its loss reduces nothing: whatever breaks a leader breaks it as well."""
    bench = ready("a2")
    bench.silent = lambda plan: plan.path == 4
    bench.run(60 * SECOND)

    assert "down" == _states(bench)[4]
    assert "full" == _status(bench).pairs[0].redundancy


def test_the_worst_verdict_is_the_nodes():
    """A broken path without a way out is critical."""
    bench = ready("a3")
    bench.silent = lambda plan: plan.layer is Layer.RELAY
    bench.run(SECOND)
    status = _status(bench)

    assert (Severity.CRITICAL, FaultCode.ALL_PATHS_DOWN) == (status.severity, status.pairs[0].verdict.fault)


def test_sessions_are_shown_as_they_are():
    """One line each, with what was lost."""
    bench = ready("a3")
    bench.run(4 * SECOND)
    sessions = _status(bench).sessions

    assert len(bench.plans) == len(sessions)
    assert {"up"} == {session.state for session in sessions}
    assert all(s.sent > 0 and s.lost == 0 and s.rtt_ns > 0 and s.last_heard_ns > 0 for s in sessions)


@pytest.mark.parametrize("settings", [settings_for("x"), Settings()], ids=["mesh", "none"])
def test_before_the_first_snapshot_nothing_is_known(settings):
    """A node that watches nothing is never OK, whether or not a mesh is declared."""
    engine = Engine(settings=settings, node=NodeName("x"), rng=random.Random(1), epoch=1, profiles=PROFILES)
    status = engine.status(5, {})

    assert ("unknown", "", False, Severity.WARNING) == (status.role, status.location, status.is_ready, status.severity)
    assert ((), (), False) == (status.pairs, status.sessions, status.is_watching)


def test_why_no_mesh_is_taken_over_is_part_of_the_status():
    """The event that said so may be long past; a mesh in force makes it void."""
    engine = Engine(settings=Settings(), node=NodeName("x"), rng=random.Random(1), epoch=1, profiles=PROFILES)
    assert "" == engine.status(5, {}).rejected
    engine.handle(SnapshotReceived(snapshot=Snapshot()), 5)

    assert "no mesh is known yet" in engine.status(5, {}).rejected
    assert "" == _status(ready("a3")).rejected


@pytest.mark.parametrize("mode", list(Mode))
def test_status_survives_the_wire(mode):
    """What the agent shows is what the engine said."""
    status = _status(ready("b1", settings=settings_for("b1", mode=mode)))

    assert status == msgspec.msgpack.decode(msgspec.msgpack.encode(status), type=type(status))


def test_the_rates_of_probing_are_stated():
    """Each kind of sessions once; a small mesh is not stretched, and all sessions are accounted for."""
    status = _status(ready("a3"))

    assert len(status.sessions) == sum(rate.sessions for rate in status.rates)
    assert {1.0} == {rate.stretch for rate in status.rates}
    assert {3_200 * MS, 30 * SECOND} == {
        rate.interval_ns
        for rate in status.rates
        if (rate.layer, rate.path, rate.flow) == (Layer.RELAY, 0, FlowClass.PINNED)
    }


def test_what_is_sent_at_rest_follows_the_limits():
    """The schedule has them as well: what explains a fault is asked ten times less often, scouts as before."""
    rests, paces = [], []
    for limit in (0, 60):
        probe = ProbeSettings(wan_kbit=limit)
        engine = Engine(
            settings=msgspec.structs.replace(settings_for("a2"), probe=probe),
            node=NodeName("a2"),
            rng=random.Random(1),
            epoch=1,
            profiles=PROFILES,
        )
        list(engine.handle(SnapshotReceived(snapshot=snapshot_of("a2")), SECOND))
        status = engine.status(SECOND, {})
        assert status.rest is not None
        rests.append(status.rest)
        paces.append({(each.layer, each.path, each.flow): each.interval_ns for each in status.rates})
    effective, scouts = (Layer.EFFECTIVE, 0, FlowClass.FRESH), (Layer.RELAY, 0, FlowClass.FRESH)

    assert [0, 60] == [rest.wan_limit_kbit for rest in rests]
    assert rests[0].wan_kbit > 100
    assert 59 < rests[1].wan_kbit <= 60
    assert 9 < paces[1][effective] / paces[0][effective] <= 10.001
    assert paces[0][scouts] == paces[1][scouts]
