"""The engine's dispatch: what each event leads to, what leads to nothing, and that it does so again and again."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from meshwatchd.core.engine import EADDRINUSE, Engine
from meshwatchd.core.failover.pair_controller import REST_REVIEW_NS
from meshwatchd.core.session.session import SessionState
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.failover_facts import OverrideAdopted, PlanRefused
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.load import AnswersDropped, EngineOverloaded, EngineRelieved, LoadMeasured
from meshwatchd.model.mtu import ConfigureSizes
from meshwatchd.model.plan import Rule
from meshwatchd.model.process_facts import AgentRestarted, ClockStalled
from meshwatchd.model.settings import MS, SECOND, Mode, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.profiles import PROFILES
from tests.support.bench import RTT_NS, Bench, message, primary_is_silent, ready
from tests.support.lab_mesh import NAMES, planner_of, settings_for, snapshot_of

ROOT = Path(__file__).resolve().parents[3]
NOW = 50 * SECOND
RULE = Rule(priority=5460, table=7701)


def _engine(name="a2", settings=None):
    return Engine(
        settings=settings or settings_for(name),
        node=NodeName(name),
        rng=random.Random(1),
        epoch=1,
        profiles=PROFILES,
    )


def _kinds(outputs):
    return [type(output) for output in outputs]


# -- starting ---------------------------------------------------------------------------------------------------


def test_nothing_happens_before_the_first_dump():
    """No deadline, no probe, no change; what arrives early is survived."""
    engine = _engine()
    assert engine.deadline() is None
    reply = ev.ReplyReceived(session=SessionId(0), seq=1, rtt_ns=1, peer_epoch=1, banner=ev.Banner())
    early = [ev.Tick(), ev.Stalled(late_ns=5), reply, ev.SendFailed(session=SessionId(3), seq=1, errno=1)]

    said = [output for event in early for output in engine.handle(event, NOW)]
    assert {ClockStalled, out.SetBanner} >= set(_kinds(said))


def test_the_first_dump_starts_everything_in_order():
    """Sessions first, then the standing objects; both are what planner and layout say."""
    engine = _engine()
    outputs = engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a2")), NOW)
    started, configured, sizes, ensured, banner = outputs

    assert [
        out.DaemonStarted,
        out.ConfigureSessions,
        ConfigureSizes,
        out.EnsureProvision,
        out.SetBanner,
    ] == _kinds(outputs)
    assert sizes.plans
    assert planner_of("a2").provision() == ensured.provision
    assert len(configured.sessions) == started.sessions > 10
    relays = engine.state.controllers[0].watch.relays_print
    assert (ev.ActivePath(pair=0, rank=0, generation=0, relays=relays),) == banner.banner.active
    assert engine.deadline() is not None


def test_at_rest_a_pair_is_looked_at_with_what_leaves_anyway():
    """Its own deadline hardly ever wakes anybody."""
    bench = ready("a2")
    bench.run(20 * SECOND)
    controller, alone = bench.controller, 0
    for _ in range(40):
        others = (bench.engine.state.schedule.deadline(), bench.engine.state.sizes.deadline())
        alone += all(controller.deadline() < at for at in others if at is not None)
        bench.run((bench.engine.deadline() or 0) - bench.now)

    assert controller.next_review - controller.reviewed_at == REST_REVIEW_NS
    assert not alone


@pytest.mark.parametrize(("node", "tunnel"), [("a1", "kilo0"), ("a2", ""), ("a3", "")])
def test_a_leader_is_told_to_look_at_its_tunnel_in_doubt(node, tunnel):
    """On other nodes kilo0 is down and carries nothing, whatever it is configured with."""
    outputs = _engine(node).handle(ev.SnapshotReceived(snapshot=snapshot_of(node)), NOW)
    assert [tunnel] == [each.tunnel for each in outputs if isinstance(each, out.ConfigureSessions)]


@pytest.mark.parametrize("errors", [(), ("mw2: no module",)])
def test_standby_paths_are_probed_when_their_links_and_selectors_stand(errors):
    """Before, their probes would go by the mesh's own path, and say that a path is good which does not exist."""
    engine = _engine()
    outputs = engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a2")), NOW)
    (early,) = [output for output in outputs if isinstance(output, out.ConfigureSessions)]
    outputs = engine.handle(ev.Provisioned(is_complete=not errors, errors=errors), NOW + SECOND)
    (late,) = [output for output in outputs if isinstance(output, out.ConfigureSessions)]

    assert {0} == {plan.path for plan in early.sessions if plan.layer is Layer.RELAY}
    assert {0, 1, 2, 3, 4} == {plan.path for plan in late.sessions if plan.layer is Layer.RELAY}
    assert set(early.sessions) <= set(late.sessions)
    assert out.EnsureProvision not in _kinds(outputs)
    assert out.ConfigureSessions not in _kinds(engine.handle(ev.Provisioned(is_complete=True), NOW + SECOND))


def test_a_node_is_not_ready_before_its_standby_paths_are_probed():
    """Whatever the sessions say that there are."""
    bench = Bench("a2")
    bench._due.clear()
    bench.run(5 * SECOND)
    assert [] == bench.said(out.DaemonReady)

    bench.feed(ev.Provisioned(is_complete=True))
    bench.run(5 * SECOND)
    assert 1 == len(bench.said(out.DaemonReady))


def test_the_same_dump_again_changes_nothing():
    """The agent dumps whenever it is in doubt."""
    engine = _engine()
    snapshot = ev.SnapshotReceived(snapshot=snapshot_of("a2"))
    engine.handle(snapshot, NOW)

    assert [] == engine.handle(snapshot, NOW + SECOND)


def test_a_new_agent_is_told_what_has_to_stand():
    """It knows nothing of what its predecessor did."""
    bench = ready("a2")
    (restarted,) = [o for o in bench.feed(ev.AgentLost(exit_status=9)) if isinstance(o, AgentRestarted)]
    outputs = bench.feed(ev.SnapshotReceived(snapshot=snapshot_of("a2")))

    assert 9 == restarted.exit_status
    assert [out.EnsureProvision] == _kinds(outputs)
    assert [] == bench.feed(ev.SnapshotReceived(snapshot=snapshot_of("a2")))


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_without_leave_to_act_nothing_is_provisioned(mode):
    """Not even links: observing means leaving the kernel alone."""
    bench = Bench("a2", settings=settings_for("a2", mode=mode))

    assert [] == bench.said(out.EnsureProvision)
    assert {0} == {plan.path for plan in bench.plans.values() if plan.layer is Layer.RELAY}


def test_an_override_found_at_start_is_adopted():
    """A restart must not move traffic: no change is asked for, and probes follow the path in use."""
    bench = Bench("b3", rules=(RULE,))
    bench.run(2 * SECOND)

    assert [(0, 1)] == [(fact.pair, fact.rank) for fact in bench.said(OverrideAdopted)]
    assert [] == bench.said(out.ApplySwitch)
    assert 1 == bench.controller.active.rank


def test_a_rule_that_is_not_an_override_of_ours_is_not_adopted():
    """Somebody's own rule at another priority."""
    bench = Bench("b3", rules=(Rule(priority=5000, table=7701),))

    assert [] == bench.said(OverrideAdopted)


@pytest.mark.parametrize(
    ("settings", "snapshot", "reason"),
    [
        (
            Settings(),
            snapshot_of("a2"),
            "no mesh is known yet, neither found nor declared under [mesh]; nothing is probed",
        ),
        (settings_for("a2"), Snapshot(), "no device kilo0 on this node; is what makes it running (Kilo, wg-quick)?"),
    ],
)
def test_a_mesh_that_cannot_be_recognised_is_said_once(settings, snapshot, reason):
    """The daemon waits, and starts with the dump that makes sense."""
    engine = _engine(settings=settings)
    first = [engine.handle(ev.SnapshotReceived(snapshot=snapshot), NOW + i) for i in range(2)]
    facts = [output for outputs in first for output in outputs if isinstance(output, out.TopologyRejected)]

    assert [reason] == [fact.reason for fact in facts]
    assert engine.deadline() is None


def test_kilo_may_come_later():
    """From rejected to running."""
    engine = _engine()
    engine.handle(ev.SnapshotReceived(snapshot=Snapshot()), NOW)
    outputs = engine.handle(ev.SnapshotReceived(snapshot=snapshot_of("a2")), NOW + 1)

    assert out.DaemonStarted in _kinds(outputs)


# -- probing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", list(FlowClass))
def test_a_busy_source_port_is_tried_again_with_the_next_one(flow):
    """At once, and nothing is charged to the path."""
    bench = ready("a2")
    plan = next(p for p in bench.plans.values() if p.flow is flow)
    session = bench.engine.state.schedule.sessions[plan.session]
    sent, seq = session.sent, session.begin(bench.now)
    (probe,) = bench.feed(ev.SendFailed(session=plan.session, seq=seq, errno=EADDRINUSE))

    assert (plan.session, seq + 1, sent + 1) == (probe.session, probe.seq, session.sent)
    assert SessionState.UP is session.state


def test_other_send_errors_leave_the_probe_to_its_miss():
    """ENETUNREACH is evidence, and an id of an earlier table means nothing."""
    bench = ready("a2")

    assert [] == bench.feed(ev.SendFailed(session=SessionId(0), seq=1, errno=101))
    assert [] == bench.feed(ev.SendFailed(session=SessionId(999), seq=1, errno=EADDRINUSE))


def _known(name):
    """Closed ports are asked once a second: the last sessions come up then."""
    bench = ready(name)
    bench.run(4 * SECOND)
    return bench


def test_session_changes_are_told():
    """Up once each, suspect and down when it goes wrong."""
    bench = _known("a3")
    assert {"up"} == {fact.state for fact in bench.said(out.SessionChanged)}
    assert len(bench.plans) == len(bench.said(out.SessionChanged))
    since = bench.now
    bench.silent = primary_is_silent
    bench.run(SECOND)

    states = [f.state for f in bench.said(out.SessionChanged, since=since) if f.peer == "b3" and f.path == 0]
    assert {"suspect", "down"} <= set(states)
    fallen = [f for f in bench.said(out.SessionChanged, since=since) if f.state == "down"]
    assert all(0 < fact.silent_ns <= SECOND + 500 * MS for fact in fallen)


def test_a_session_that_misses_many_answers_at_once_has_changed_once():
    """A turn that comes late finds a whole burst expired: suspect to down is one change, not one for each miss."""
    bench = ready("a3")
    bench.silent = primary_is_silent
    bench.run_until_suspected()
    # Whichever was asked first after the fault.
    session = next(s for s in bench.engine.state.schedule.select(layer=Layer.RELAY, path=0) if s.cusum.is_suspect)
    bench.engine.state.schedule.confirm((session,), bench.now, rounds=25)
    bench.run(25 * MS)
    bench.now += 200 * MS
    told = [fact for fact in bench.feed(ev.Tick()) if isinstance(fact, out.SessionChanged)]

    assert SessionState.DOWN is session.state
    assert [SessionState.DOWN] == [fact.state for fact in told if fact.session == session.plan.session]


def test_a_short_stall_keeps_the_evidence():
    """Scheduling noise in the middle of a confirm burst must not cost the verdict the misses counted before it."""
    bench = ready("a3")
    bench.silent = lambda plan: plan.path == 0
    bench.run_until_suspected()
    controller = next(iter(bench.engine.state.controllers.values()))
    before = controller.watch.group(controller.watch.primary).nats
    bench.feed(ev.Stalled(late_ns=30 * MS))

    assert before > 0
    assert before == controller.watch.group(controller.watch.primary).nats


def test_a_stall_forgets_what_is_outstanding():
    """Nobody was listening: no miss comes of it, whatever the heap has pending."""
    bench = _known("a3")
    since = bench.now
    bench.silent = lambda _plan: True
    bench.run(RTT_NS)
    bench.feed(ev.Stalled(late_ns=3 * SECOND))
    bench.silent = lambda _plan: False
    bench.run(SECOND)

    assert [3 * SECOND] == [fact.late_ns for fact in bench.said(ClockStalled)]
    assert [] == bench.said(out.SessionChanged, since=since)
    assert [] == bench.said(out.VerdictChanged)


def test_own_lateness_widens_every_wait():
    """And shrinks it again when the process is in time."""
    bench = ready("a3")
    for late_ns, expected_ns in ((20 * MS, 20 * MS), (MS, 0)):
        assert [] == bench.feed(ev.LatenessMeasured(p99_ns=late_ns))
        assert expected_ns == bench.engine.state.schedule._widening_ns


def test_what_the_own_socket_has_lost_is_neither_hit_nor_miss():
    """Any of the answers may have been among them; what is sent from then on counts as ever."""
    bench = _known("a3")
    bench.silent = lambda _plan: True
    bench.run(RTT_NS)
    since = bench.now
    bench.feed(AnswersDropped(packets=9))

    assert 0 == sum(session.waiting for session in bench.engine.state.schedule.sessions)
    lost = sum(session.lost for session in bench.engine.state.schedule.sessions)
    bench.silent = lambda _plan: False
    bench.run(SECOND)
    assert lost == sum(session.lost for session in bench.engine.state.schedule.sessions)
    assert [] == bench.said(out.SessionChanged, since=since)


def test_an_overloaded_engine_says_so_and_sends_less():
    """And says when it keeps up again."""
    bench = ready("a3")
    bench.feed(ev.LatenessMeasured(p99_ns=40 * MS))
    for _ in range(3):
        bench.feed(LoadMeasured(busy_percent=97))
    assert {1.0} < {round(rate.stretch, 2) for rate in bench.engine.state.schedule.rates()}
    assert [(97, 40 * MS)] * 2 == [(told.busy_percent, told.late_ns) for told in bench.said(EngineOverloaded)]
    for _ in range(20):
        bench.feed(LoadMeasured(busy_percent=20))

    assert [EngineRelieved(dropped=0)] == bench.said(EngineRelieved)
    assert {1.0} == {rate.stretch for rate in bench.engine.state.schedule.rates()}


def test_an_unknown_key_is_told_once_a_minute_and_a_known_one_never():
    """Whoever missed a step of a rotation is named in the log, before anything is silent."""
    bench = ready("a3")
    for is_known in (True, False, False):
        bench.feed(ev.OtherKeySeen(peer=NodeName("b2"), key_id=7, is_known=is_known))

    assert [out.KeyMismatched(peer=NodeName("b2"), key_id=7)] == bench.said(out.KeyMismatched)


def test_the_path_in_use_is_probed_at_full_rate():
    """After a move the standby is what counts; the own path is watched as closely, for the way home."""
    bench = ready("b3")
    bench.run(2 * SECOND)
    bench.hear("b2", message(ev.CoordinationKind.NOTICE, rank=1, target="b3"))
    # A pair that wakes has its standbys watched closely at first.
    bench.run(12 * SECOND)
    since = bench.now
    bench.run(10 * SECOND)
    counts: dict[tuple[str, int], int] = {}
    for probe in bench.said(out.SendProbe, since=since):
        plan = bench.plans[probe.session]
        if plan.layer is Layer.RELAY and plan.peer == "a2":
            counts[plan.flow, plan.path] = counts.get((plan.flow, plan.path), 0) + 1

    assert all(counts[FlowClass.FRESH, path] >= 20 for path in (0, 1)), counts
    assert all(counts[FlowClass.PINNED, path] >= 3 for path in (0, 1)), counts
    assert all(counts.get((flow, path), 0) <= 1 for flow in FlowClass for path in (2, 3)), counts


def test_source_ports_follow_from_the_name_of_the_node():
    """Not from chance: a daemon that is started again goes on where it was, and two nodes walk differently."""

    def ports(name, seed):
        bench = Bench(name, seed=seed)
        bench.run(SECOND)
        plans = {p.session for p in bench.plans.values() if p.flow is FlowClass.FRESH and p.layer is Layer.UNDERLAY}
        return {probe.source_port for probe in bench.said(out.SendProbe) if probe.session in plans}

    assert ports("a2", 1) & ports("a2", 2)
    assert not ports("a2", 1) & ports("a3", 1)


# -- peers ------------------------------------------------------------------------------------------------------


def _request(peer, *, is_fresh_epoch, coordination=None, banner=None):
    return ev.RequestReceived(
        peer=NodeName(peer),
        layer=Layer.RELAY,
        path=1,
        flow=FlowClass.FRESH,
        is_fresh_epoch=is_fresh_epoch,
        banner=banner or ev.Banner(),
        coordination=coordination,
    )


def test_what_an_unproven_process_says_is_not_acted_on():
    """It may be a recording: neither message nor banner counts, and it is not even heard."""
    bench = ready("b3")
    notice = message(ev.CoordinationKind.NOTICE, rank=1, target="b3")
    banner = ev.Banner(active=(ev.ActivePath(pair=0, rank=1, generation=1),))

    assert [] == bench.feed(_request("b2", is_fresh_epoch=False, coordination=notice, banner=banner))
    assert [] == bench.said(out.ApplySwitch)
    assert ("b2", Layer.RELAY) not in bench.controller.watch.arrivals.heard


# -- the agent's news -------------------------------------------------------------------------------------------


def test_what_could_not_be_provisioned_is_told():
    """Each error on its own."""
    bench = ready("a2")
    outputs = bench.feed(ev.Provisioned(is_complete=False, errors=("mw1: no module", "mw2: no module")))

    assert ["mw1: no module", "mw2: no module"] == [o.reason for o in outputs if isinstance(o, PlanRefused)]
    assert [] == bench.feed(ev.Provisioned(is_complete=True))


def test_a_standing_object_that_was_put_back_is_told():
    """The agent has done it; the operator wants to know who removes it."""
    bench = ready("a2")

    assert [out.ObjectReasserted] == _kinds(bench.feed(ev.ObjectLost(what="route 10.244.4.0/24 dev mw1 table 7702")))


# -- determinism ------------------------------------------------------------------------------------------------


def transcript(seed: int) -> str:
    """A digest of everything six engines say through health, a fault, a move and the way back."""
    digest = hashlib.sha256()
    for name in NAMES:
        bench = ready(name, seed=seed)
        bench.silent = primary_is_silent
        bench.run(200 * MS)
        bench.hear("b2", message(ev.CoordinationKind.NOTICE, rank=1, target=name))
        bench.run(SECOND)
        bench.silent = lambda _plan: False
        bench.run(3 * SECOND)
        for at, output in bench.outputs:
            digest.update(f"{at} {output!r}\n".encode())
        digest.update(repr(bench.engine.status(bench.now, {})).encode())
    return digest.hexdigest()


def test_the_same_events_lead_to_the_same_outputs():
    """Twice in this process; another seed is another story."""
    assert transcript(4) == transcript(4)
    assert transcript(4) != transcript(5)


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_hash_seed_makes_no_difference(hash_seed):
    """A journal from one machine replays on another: no set is iterated on the way to a decision."""
    program = "from tests.unit.core.test_engine import transcript; print(transcript(4))"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )

    assert transcript(4) == result.stdout.strip()
