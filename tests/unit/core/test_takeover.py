"""A snapshot that shows another mesh, at every moment at which one may come."""

from __future__ import annotations

import msgspec

from meshwatchd.core.mover import MoveState
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import FlowClass, Layer, LocationName, NodeName
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.model.topology import Location
from tests.support.bench import Bench, message, ready
from tests.support.lab_mesh import declared_mesh, settings_for, snapshot_of, with_ipip


def _snapshot(name, **changes):
    mesh = msgspec.structs.replace(declared_mesh(), **changes)
    return ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of(name), mesh=mesh))


def _without_standby(name):
    onprem, _ = declared_mesh().location
    return _snapshot(name, location=(onprem, Location(name=LocationName("cloud"), leader=NodeName("b1"))))


def test_a_flag_that_changes_words_only_changes_nothing_else():
    """kilo0 goes down: that is for whoever finds out who leads."""
    bench = ready("a1")
    links = tuple(msgspec.structs.replace(link, is_up=False) for link in snapshot_of("a1").links)
    changed = msgspec.structs.replace(snapshot_of("a1"), links=links)

    assert [] == bench.feed(ev.SnapshotReceived(snapshot=changed))


def test_fewer_standbys_end_their_sessions_and_nothing_else():
    """The sessions of path 0 go on, with what is outstanding; kernel and adapters hear of the rest."""
    bench = ready("a3")
    kept = {s.plan.session: s for s in bench.engine.schedule.sessions if s.plan.path == 0}
    outputs = bench.feed(_without_standby("a3"))
    changed = outputs[0]

    assert isinstance(changed, out.TopologyChanged)
    assert {out.ConfigureSessions, out.EnsureProvision} <= {type(output) for output in outputs}
    assert changed.ended > changed.begun > 0, "a2-b1 has another rank, and with it another port"
    assert all(bench.engine.schedule.session(number) is session for number, session in kept.items())
    began = bench.now
    bench.run(2 * SECOND)
    changes = bench.said(out.SessionChanged, since=began)
    assert [] == [change for change in changes if change.session in kept]


def test_a_change_waits_for_the_kernel_s_answer():
    """While an override is being applied paths keep their numbers; the change follows at once."""
    bench = ready("a3")
    paths = bench.conductor.watch.paths
    bench.engine.handle(
        ev.RequestReceived(
            peer=NodeName("a2"),
            layer=Layer.RELAY,
            path=0,
            flow=FlowClass.FRESH,
            is_fresh_epoch=True,
            banner=ev.Banner(),
            coordination=message(ev.CoordinationKind.NOTICE, rank=2, target="a3"),
        ),
        bench.now,
    )
    assert MoveState.APPLYING is bench.conductor.mover.state
    assert [] == bench.feed(_without_standby("a3"))
    assert paths == bench.conductor.watch.paths
    outputs = bench.feed(ev.SwitchApplied(pair=0, generation=1))

    assert out.TopologyChanged in [type(output) for output in outputs]
    assert 2 == len(bench.conductor.watch.paths)


def test_an_answer_of_the_kernel_for_a_pair_that_is_gone_is_survived():
    """It may come when the location is no part of the mesh any more."""
    bench = ready("a3")
    assert [] == bench.feed(ev.SwitchApplied(pair=-1, generation=0))
    assert [] == bench.feed(ev.SwitchFailed(pair=9, generation=0, error="no"))


def test_overrides_towards_a_location_that_is_gone_are_removed():
    """Nobody would look after them."""
    bench = ready("a3")
    bench.conductor.adopt(bench.conductor.watch.paths[2], bench.now)
    onprem, _ = declared_mesh().location
    nodes = tuple(node for node in declared_mesh().node if node.location == "onprem")
    outputs = bench.feed(_snapshot("a3", location=(onprem,), node=nodes))

    (switch,) = [output for output in outputs if isinstance(output, out.ApplySwitch)]
    assert [7702] == [rule.table for rule in switch.switch.delete]
    assert {} == bench.engine.conductors


def test_sessions_bound_to_a_device_follow_it_when_it_is_made_anew():
    """tunl0 comes back with another index: the adapter hears of it, and no session begins anew."""
    bench = ready("a3", settings=with_ipip(settings_for("a3")))
    links = tuple(
        msgspec.structs.replace(link, index=77 if link.name == "tunl0" else link.index)
        for link in snapshot_of("a3").links
    )
    before = dict(bench.plans)
    bench.feed(ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a3"), links=links)))

    assert [77] == [plan.device_index for plan in bench.plans.values() if plan.layer is Layer.IPIP]
    assert before.keys() == bench.plans.keys()
    began = bench.now
    bench.run(SECOND)
    assert [] == bench.said(out.SessionChanged, since=began)
    assert [] == bench.said(out.TopologyChanged)


def test_a_proposal_under_way_is_given_up_when_its_path_is_gone():
    """And the pair is free to decide anew."""
    bench = Bench("a1")
    bench.run(2 * SECOND)
    bench.silent = lambda plan: plan.layer is Layer.RELAY and plan.path == 0
    bench.run_until_suspected()
    bench.run(300 * MS)
    assert bench.conductor.mover.state == MoveState.PROPOSING
    bench.feed(_without_standby("a1"))

    assert (MoveState.IDLE, None) == (bench.conductor.mover.state, bench.conductor.mover.intent)
