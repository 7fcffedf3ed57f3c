"""A snapshot that shows another mesh, at every moment at which one may come."""

from __future__ import annotations

import random

import msgspec
import pytest

from meshwatchd.adapters.storage.journal.checkpoint import dump
from meshwatchd.core.diagnosis.arrivals import HEARD_HISTORY
from meshwatchd.core.engine import Engine
from meshwatchd.core.failover.state_machine import MoveState
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.audit_facts import FaultRaised
from meshwatchd.model.failover_facts import OverrideAdopted, PlanRefused
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import FlowClass, Layer, LocationName, NodeName
from meshwatchd.model.plan import Rule, Switch
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import MS, SECOND, Mode
from meshwatchd.model.snapshot import DeviceRoute, ForeignObject
from meshwatchd.model.topology import Location
from meshwatchd.profiles import PROFILES
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
    kept = {s.plan.session: s for s in bench.engine.state.schedule.sessions if s.plan.path == 0}
    outputs = bench.feed(_without_standby("a3"))
    changed = outputs[0]

    assert isinstance(changed, out.TopologyChanged)
    assert {out.ConfigureSessions, out.EnsureProvision} <= {type(output) for output in outputs}
    assert changed.ended > changed.begun == 0, "there is one link less over each relay, and a2-b1 another rank"
    assert all(bench.engine.state.schedule.session(number) is session for number, session in kept.items())
    began = bench.now
    bench.run(2 * SECOND)
    anew = bench.controller.watch.group(bench.controller.watch.paths[2])
    assert anew.sessions, "a2-b1 is probed again as soon as its link stands"
    assert all(session.is_proven for session in anew.sessions)
    changes = bench.said(out.SessionChanged, since=began)
    assert [] == [change for change in changes if change.session in kept]


def test_a_change_waits_for_the_kernel_s_answer():
    """While an override is being applied paths keep their numbers; the change follows at once."""
    bench = ready("a3")
    paths = bench.controller.watch.paths
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
    assert MoveState.APPLYING is bench.controller.mover.state
    assert [] == bench.feed(_without_standby("a3"))
    assert paths == bench.controller.watch.paths
    outputs = bench.feed(ev.SwitchApplied(pair=0, generation=1))

    assert out.TopologyChanged in [type(output) for output in outputs]
    assert [0, 1, 2] == [path.rank for path in bench.controller.watch.paths]


def test_an_answer_of_the_kernel_for_a_pair_that_is_gone_is_survived():
    """It may come when the location is no part of the mesh any more."""
    bench = ready("a3")
    assert [] == bench.feed(ev.SwitchApplied(pair=-1, generation=0))
    assert [] == bench.feed(ev.SwitchFailed(pair=9, generation=0, error="no"))


def test_overrides_towards_a_location_that_is_gone_are_removed():
    """Nobody would look after them."""
    bench = ready("a3")
    bench.controller.adopt(bench.controller.watch.paths[2], bench.now)
    onprem, _ = declared_mesh().location
    nodes = tuple(node for node in declared_mesh().node if node.location == "onprem")
    outputs = bench.feed(_snapshot("a3", location=(onprem,), node=nodes))

    (switch,) = [output for output in outputs if isinstance(output, out.ApplySwitch)]
    assert [7702] == [rule.table for rule in switch.switch.delete]
    assert {} == bench.engine.state.controllers


def test_what_is_wrong_with_a_location_that_goes_ends_before_it_goes():
    """Nobody watches it after that, and an incident that nothing ends would grow for ever."""
    bench = ready("a3")
    bench.silent = lambda plan: plan.path != NO_PATH
    bench.run(2 * SECOND)
    (before,) = {fact.verdict.fault for fact in bench.said(out.VerdictChanged)[-1:]}
    began = bench.now
    onprem, _ = declared_mesh().location
    nodes = tuple(node for node in declared_mesh().node if node.location == "onprem")
    outputs = bench.feed(_snapshot("a3", location=(onprem,), node=nodes))

    assert FaultCode.NONE is not before
    (last,) = bench.said(out.VerdictChanged, since=began)
    assert (FaultCode.NONE, Severity.OK, 0) == (last.verdict.fault, last.verdict.severity, last.verdict.pair)
    assert (before, "cloud") == (last.previous, last.location)
    kinds = [type(output) for output in outputs]
    assert kinds.index(out.VerdictChanged) < kinds.index(out.TopologyChanged)


def test_a_location_that_goes_while_all_is_well_says_nothing():
    """There is nothing to end."""
    bench = ready("a3")
    began = bench.now
    onprem, _ = declared_mesh().location
    nodes = tuple(node for node in declared_mesh().node if node.location == "onprem")
    bench.feed(_snapshot("a3", location=(onprem,), node=nodes))

    assert [] == bench.said(out.VerdictChanged, since=began)


def test_what_was_found_before_there_was_a_mesh_is_told_again_with_the_start():
    """The start ends all incidents, for it cannot tell those of this engine from those of the one before it."""
    engine = _made("a3")
    finding = AuditFinding(code=FaultCode.CONNTRACK_FULL, device="", subject="conntrack", culprit="a3")
    engine.handle(ev.FindingsReported(findings=(finding,)), NOON)
    outputs = engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a3")), NOON + SECOND)

    told = [each for each in outputs if isinstance(each, out.DaemonStarted | FaultRaised)]
    assert [out.DaemonStarted, FaultRaised] == _kinds(told)
    assert [] == list(engine.handle(ev.FindingsReported(findings=(finding,)), NOON + 2 * SECOND))


def test_a_device_that_is_made_anew_is_no_other_mesh():
    """tunl0 comes back with another index: the adapter finds it by its name, and no session begins anew."""
    bench = ready("a3", settings=with_ipip(settings_for("a3")))
    links = tuple(
        msgspec.structs.replace(link, index=77 if link.name == "tunl0" else link.index)
        for link in snapshot_of("a3").links
    )
    bench.run(6 * SECOND)
    before = dict(bench.plans)
    bench.feed(ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a3"), links=links)))

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
    assert bench.controller.mover.state == MoveState.PROPOSING
    bench.feed(_without_standby("a1"))

    assert (MoveState.IDLE, None) == (bench.controller.mover.state, bench.controller.mover.intent)


FORMER, LATTER = Rule(priority=5460, table=7702), Rule(priority=5460, table=7703)


def test_the_one_override_that_traffic_follows_is_adopted():
    """The last process was killed between the two messages of a change: both are there, and the first is in effect."""
    bench = Bench("a3", snapshot=msgspec.structs.replace(snapshot_of("a3"), rules=(LATTER, FORMER)))
    bench.run(SECOND)

    assert [3] == [fact.rank for fact in bench.said(OverrideAdopted)]
    assert [Switch(delete=(FORMER,))] == [command.switch for command in bench.said(out.ApplySwitch)]
    assert (LATTER,) == bench.controller.overrides()


def test_an_unknown_override_before_a_known_one_is_left_together_with_it():
    """Traffic is on the first; the pair's own stays if it is the path that is gone to, and goes if it is not."""
    stale = Rule(priority=5460, table=7719)
    bench = Bench("a3", snapshot=msgspec.structs.replace(snapshot_of("a3"), rules=(stale, FORMER)))
    bench.run(2 * SECOND)

    assert [Switch(delete=(stale, FORMER))] == [command.switch for command in bench.said(out.ApplySwitch)]
    assert 0 == bench.controller.active.rank


def test_who_only_observes_removes_no_override():
    """Not even one of two."""
    settings = settings_for("a3", mode=Mode.OBSERVE)
    bench = Bench("a3", settings=settings, rules=(FORMER, LATTER))
    bench.run(SECOND)

    assert [] == bench.said(out.ApplySwitch)


def _seen(name, *rules):
    return ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of(name), rules=rules))


def test_an_override_that_went_while_the_agent_was_away_is_put_back():
    """Nobody has told of it: the new agent's first look at the kernel does, if it is later than the last change."""
    bench = ready("a3", rules=(FORMER,))
    bench.run(5 * SECOND)
    began = bench.now
    bench.feed(_seen("a3", FORMER))
    assert [] == bench.said(out.ApplySwitch, since=began)
    bench.feed(ev.AgentLost(exit_status=-9))
    bench.feed(_seen("a3"))

    assert [Switch(add=(FORMER,))] == [command.switch for command in bench.said(out.ApplySwitch, since=began)]
    assert 1 == len(bench.said(out.ObjectReasserted, since=began))


def test_an_override_that_is_nobody_s_is_removed():
    """As a change that the kernel carried out without saying so leaves behind."""
    bench = ready("a3")
    bench.run(5 * SECOND)
    bench.feed(_seen("a3", FORMER))

    assert [Switch(delete=(FORMER,))] == [command.switch for command in bench.said(out.ApplySwitch)]


def test_a_snapshot_from_before_a_change_undoes_nothing():
    """It may have been under way while the kernel was changed."""
    bench = ready("a3")
    bench.feed(_seen("a3"))
    bench.hear("a2", message(ev.CoordinationKind.NOTICE, rank=2, target="a3"))
    bench.run(SECOND)
    assert 2 == bench.controller.active.rank
    began = bench.now
    bench.feed(ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a3"), is_bounded=True)))

    assert [] == bench.said(out.ApplySwitch, since=began)


def _speak(bench, name):
    """A node's fresh probes arrive for a while, over all layers."""
    for layer, path in ((Layer.RELAY, 0), (Layer.UNDERLAY, NO_PATH), (Layer.OVERLAY, NO_PATH)):
        for _ in range(HEARD_HISTORY):
            request = ev.RequestReceived(
                peer=name, layer=layer, path=path, flow=FlowClass.FRESH, is_fresh_epoch=True, banner=ev.Banner(window=1)
            )
            bench.feed(request)
    bench.feed(ev.OtherKeySeen(peer=name, key_id=7))


def test_nodes_that_come_and_go_leave_nothing_behind():
    """Machines of a cluster that scales have a name of their own each; after months there were thousands."""
    bench = ready("a1")
    last = declared_mesh().node[-1]
    sizes = []
    for number in range(24):
        name = NodeName(f"ip-10-2-1-{number:04}")
        node = msgspec.structs.replace(
            last,
            name=name,
            node_ip=f"10.2.1.{number}",
            pod_cidr=f"10.245.{number}.0/24",
            overlay_ip=f"10.245.{number}.0",
        )
        bench.feed(_snapshot("a1", node=(*declared_mesh().node, node)))
        bench.run(SECOND)
        _speak(bench, name)
        bench.feed(_snapshot("a1"))
        sizes.append(len(dump(bench.engine, at_ns=0, wall_ns=0)))

    assert max(sizes[12:]) - max(sizes[:12]) < 5000, "one of them took 2 000 bytes"


NOON = 50 * SECOND
COLLISIONS = (ForeignObject(what="rule 5460 lookup 100 protocol static", owner_protocol=4),)


def _made(name, settings=None):
    """An engine that has seen nothing."""
    settings = settings or settings_for(name)
    return Engine(settings=settings, node=NodeName(name), rng=random.Random(1), epoch=1, profiles=PROFILES)


def _kinds(outputs):
    return [type(output) for output in outputs]


def test_with_a_collision_nothing_is_put_into_the_kernel():
    """Somebody else's object sits where ours would go: said once, probed as in observe mode."""
    engine = _made("a3")
    snapshot = ev.SnapshotReceived(snapshot=snapshot_of("a3", collisions=COLLISIONS))
    outputs = engine.handle(snapshot, NOON)

    assert [COLLISIONS[0].what] == [w for o in outputs if isinstance(o, out.CollisionFound) for w in o.what]
    assert out.EnsureProvision not in _kinds(outputs)
    assert [] == engine.handle(snapshot, NOON + 1)


def test_a_collision_is_told_until_it_is_gone_and_then_the_node_acts():
    """Whoever removes the stranger's rule need not restart anything."""
    engine = _made("a3")
    engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a3", collisions=COLLISIONS)), NOON)
    held = engine.status(NOON, {})
    outputs = engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a3")), NOON + SECOND)

    assert (COLLISIONS[0].what,) == held.collisions
    assert Severity.WARNING is held.severity
    assert held.is_watching
    assert out.EnsureProvision in _kinds(outputs)
    assert () == engine.status(NOON + SECOND, {}).collisions


def test_a_collision_is_nothing_to_a_node_that_observes():
    """It would put nothing there."""
    engine = _made("a3", settings_for("a3", mode=Mode.OBSERVE))
    engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a3", collisions=COLLISIONS)), NOON)

    assert () == engine.status(NOON, {}).collisions


def test_with_a_collision_nobody_is_followed():
    """A notice of its relay moves nothing on a node that must not act."""
    engine = _made("a3")
    engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a3", collisions=COLLISIONS)), NOON)
    notice = ev.RequestReceived(
        peer=NodeName("a2"),
        layer=Layer.UNDERLAY,
        path=0xFFFF,
        flow=FlowClass.FRESH,
        is_fresh_epoch=True,
        banner=ev.Banner(),
        coordination=message(ev.CoordinationKind.NOTICE, rank=2, target="a3"),
    )

    assert out.ApplySwitch not in _kinds(engine.handle(notice, NOON + SECOND))


def test_standbys_that_the_agent_was_kept_from_putting_are_not_probed():
    """They would be asked by the mesh's own path, or by what has their table, and praised for its answers."""
    engine = _made("a3")
    engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a3")), NOON)
    refused = ev.Provisioned(is_complete=False, errors=(COLLISIONS[0].what,), is_pending=True)
    told = engine.handle(refused, NOON + SECOND)
    before = engine.takeover.standing
    outputs = engine.handle(ev.Provisioned(is_complete=True), NOON + 2 * SECOND)

    assert [COLLISIONS[0].what] == [each.reason for each in told if isinstance(each, PlanRefused)]
    assert out.ConfigureSessions not in _kinds(told)
    assert not before
    assert out.ConfigureSessions in _kinds(outputs)


def test_standbys_that_stood_before_a_refusal_are_probed_as_before():
    """Only the agent was started anew: the kernel is as it was."""
    bench = ready("a3")
    standing = bench.engine.takeover.standing
    refused = ev.Provisioned(is_complete=False, errors=(COLLISIONS[0].what,), is_pending=True)

    assert out.ConfigureSessions not in _kinds(bench.feed(refused))
    assert standing == bench.engine.takeover.standing != frozenset()


def test_a_prefix_that_no_table_leads_to_is_told_with_who_claims_it():
    """The mesh is taken over all the same: a2 is probed, and its pods stay on the mesh's own path."""
    bench = ready("b3")
    nodes = tuple(
        msgspec.structs.replace(node, pod_cidr="10.2.0.0/24") if node.name == "a2" else node
        for node in declared_mesh().node
    )
    told = bench.feed(_snapshot("b3", node=nodes))

    assert ["a2 claims 10.2.0.0/24, which holds 10.2.0.11/32 of b1"] == [
        each.reason.partition(":")[0] for each in told if isinstance(each, PlanRefused)
    ]
    (asked,) = (each.provision for each in told if isinstance(each, out.EnsureProvision))
    assert "192.168.100.12/32" in {route.dst for route in asked.routes}
    assert "10.2.0.0/24" not in {route.dst for route in asked.routes}


LOW = RuleWindow(first=96, is_narrow=True)
SHADOWED = (ForeignObject(what="rule 3 is asked before any rule of ours could be", owner_protocol=0, is_ahead=True),)


def _moved():
    windows = (LOW, RuleWindow(first=5400))
    return ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a3"), windows=windows))


def test_rules_that_have_to_stand_elsewhere_move_with_the_traffic_on_them():
    """A node becomes Submariner's gateway during a failover: the override is added there before it goes here."""
    bench = ready("a3")
    path = bench.controller.watch.paths[2]
    bench.controller.adopt(path, bench.now)
    outputs = bench.feed(_moved())

    (wanted,) = [each.provision for each in outputs if isinstance(each, out.EnsureProvision)]
    (switch,) = [each.switch for each in outputs if isinstance(each, out.ApplySwitch)]
    (changed,) = [each for each in outputs if isinstance(each, out.TopologyChanged)]
    assert {96, 97, 99} == {rule.priority for rule in wanted.rules} | {LOW.first}
    assert (LOW, RuleWindow(first=5400)) == wanted.windows
    assert Switch(add=(Rule(priority=98, table=7702),), delete=(Rule(priority=5460, table=7702),)) == switch
    assert ("rules of ours stand from 96 on: a foreign rule was asked before them",) == changed.what
    assert path.key == bench.controller.mover.active.key
    assert (0, 0) == (changed.begun, changed.ended)


@pytest.mark.parametrize("window", [LOW, RuleWindow(first=6000)])
def test_an_override_where_rules_have_stood_is_that_of_its_path(window):
    """The daemon was not running when the window moved, or kernel.priority_base was set to another number."""
    windows = (window, RuleWindow(first=5400))
    left = Rule(priority=5460, table=7702)
    found = msgspec.structs.replace(snapshot_of("a3", rules=[left]), windows=windows)
    bench = Bench("a3", snapshot=found)
    assert [2] == [each.rank for each in bench.said(OverrideAdopted)]

    moved = Rule(priority=window.override(0), table=7702)
    switches = [
        each.switch for each in bench.feed(ev.SnapshotReceived(snapshot=found)) if isinstance(each, out.ApplySwitch)
    ]
    assert [Switch(add=(moved,)), Switch(delete=(left,))] == switches


def test_a_rule_that_is_asked_before_ours_ends_what_would_be_in_vain():
    """Traffic would stay where it is while peers believe it moved; when the rule is gone all is as before."""
    bench = ready("a3")
    found = snapshot_of("a3", collisions=SHADOWED)
    bench.feed(ev.SnapshotReceived(snapshot=found))

    assert not bench.controller.context.is_enforcing
    assert (SHADOWED[0].what,) == bench.engine.status(bench.now, {}).collisions
    outputs = bench.feed(ev.SnapshotReceived(snapshot=snapshot_of("a3")))
    assert out.EnsureProvision in [type(each) for each in outputs]
    assert bench.controller.context.is_enforcing


def test_a_routing_daemons_routes_are_known_by_the_node_that_they_lead_to():
    """As long as the kernel shows them: a verdict about that node goes by them."""
    other = next(node for node in declared_mesh().node if node.name == "b1")
    route = DeviceRoute(dst="10.96.0.0/24", dev="kilo0", table=254, protocol=12, via=other.overlay_ip)
    bench = ready("a1")
    bench.feed(ev.SnapshotReceived(snapshot=msgspec.structs.replace(snapshot_of("a1"), device_routes=(route,))))
    assert {"b1": (route,)} == bench.engine.state.findings.next_hops

    bench.feed(ev.SnapshotReceived(snapshot=snapshot_of("a1")))
    assert {} == bench.engine.state.findings.next_hops
