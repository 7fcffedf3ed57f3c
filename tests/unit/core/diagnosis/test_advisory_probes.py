"""IPv6 beside IPv4, and canaries: named when they alone are silent, and never more than a warning."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.diagnosis.advisory_probes import NEVER_ANSWERED
from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.model.canary import Canary, CanaryKind, CanaryRole
from meshwatchd.model.events import Banner
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.outputs import ApplySwitch, VerdictChanged
from meshwatchd.model.settings import MS, SECOND, Settings
from tests.support.bench import Bench, primary_is_silent, ready
from tests.support.lab_mesh import settings_for, with_canaries, with_ip6

WEB = Canary(name="web", address="10.244.3.9", port=53, node=NodeName("a3"))
SLOW = Canary(name="slow", address="10.244.2.9", port=53, node=NodeName("a2"), interval=5 * SECOND)


def _ready(name: str, settings: Settings) -> Bench:
    bench = ready(name, settings=settings)
    bench.run(6 * SECOND)
    return bench


def _named(bench):
    verdict = bench.controller.verdicts.current
    return verdict.fault, verdict.layer, verdict.culprit, verdict.severity


@pytest.mark.parametrize("name", ["a3", "b1", "b3"])
def test_a_loss_of_ip6_alone_is_named_and_moves_nothing(name):
    """The lowest layer that lost it; IPv4 goes on."""
    bench = _ready(name, with_ip6(settings_for(name)))
    assert FaultCode.NONE is bench.controller.verdicts.current.fault
    bench.silent = lambda plan: plan.is_ip6
    bench.run(20 * SECOND)
    leader = {"a3": "a1", "b1": "b2", "b3": "b1"}[name]

    assert (FaultCode.ADDRESS_FAMILY_BROKEN, Layer.UNDERLAY, leader, Severity.WARNING) == _named(bench)
    assert [] == bench.said(ApplySwitch)

    bench.silent = lambda _plan: False
    bench.run(20 * SECOND)

    assert FaultCode.NONE is bench.controller.verdicts.current.fault


def test_ip6_that_never_worked_is_named():
    """A mesh that declares addresses wants them used."""
    bench = Bench("b3", settings=with_ip6(settings_for("b3")))
    bench.silent = lambda plan: plan.is_ip6 and plan.layer is Layer.RELAY
    bench.run(30 * SECOND)

    assert (FaultCode.ADDRESS_FAMILY_BROKEN, Layer.RELAY, "a1", Severity.WARNING) == _named(bench)


def test_a_fault_of_both_families_is_called_by_its_own_name():
    """IPv6 shares the leg; its silence says nothing new."""
    bench = _ready("b3", with_ip6(settings_for("b3")))
    bench.silent = lambda plan: plan.peer == "b1" or primary_is_silent(plan)
    bench.run(20 * SECOND)
    told = {change.verdict.fault for change in bench.said(VerdictChanged)}

    assert FaultCode.LEADER_DEAD in told
    assert FaultCode.ADDRESS_FAMILY_BROKEN not in told


def test_a_silent_canary_is_a_warning_of_its_own():
    """While the mesh answers nothing else is to blame; it is good again as soon as it answers."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB))
    bench.silent = lambda plan: plan.canary is WEB
    bench.run(30 * SECOND)
    (status,) = bench.engine.status(bench.now, {}).canaries

    assert (FaultCode.POD_UNREACHABLE, Layer.POD, "a3", Severity.WARNING) == _named(bench)
    assert ("web", "a3", "down", "") == (status.name, status.node, status.state, status.depends_on)
    assert [] == bench.said(ApplySwitch)

    bench.silent = lambda _plan: False
    bench.run(20 * SECOND)

    assert FaultCode.NONE is bench.controller.verdicts.current.fault


def test_a_canary_that_depends_on_what_is_broken_is_no_verdict():
    """Its silence is told as a consequence."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB))
    bench.silent = lambda plan: plan.layer in (Layer.RELAY, Layer.EFFECTIVE, Layer.POD)
    bench.run(30 * SECOND)
    verdict = bench.controller.verdicts.current
    (status,) = bench.engine.status(bench.now, {}).canaries

    assert FaultCode.ALL_PATHS_DOWN is verdict.fault
    assert "silent in consequence: canary web on a3" in verdict.because
    assert FaultCode.ALL_PATHS_DOWN == status.depends_on


def test_canaries_behind_a_leader_that_this_node_alone_has_lost_are_silent_in_consequence():
    """Whichever node they are on: it is this one that is cut off."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB))
    legs = {(0, View.LEADER_UNDERLAY): Leg.ALIVE, (0, View.RELAY_PATH): Leg.ALIVE}
    up, known = encode(legs)
    bench.banners["b2"] = Banner(view_up=up, view_known=known, active=(bench.controller.active,))
    bench.silent = lambda plan: plan.peer == "b1" or primary_is_silent(plan) or plan.canary is WEB
    bench.run(30 * SECOND)
    (status,) = bench.engine.status(bench.now, {}).canaries

    assert (FaultCode.NODE_UNREACHABLE, Layer.RELAY, "b3", Severity.CRITICAL) == _named(bench)
    assert "silent in consequence: canary web on a3" in bench.controller.verdicts.current.because
    assert FaultCode.NODE_UNREACHABLE == status.depends_on


def test_a_canary_that_never_answered_is_named_after_some_questions():
    """Ten of them, whatever their interval; being ready does not wait for it."""
    bench = Bench("b3", settings=with_canaries(settings_for("b3"), SLOW))
    bench.silent = lambda plan: plan.canary is SLOW
    bench.run(2 * SECOND)
    assert bench.controller.is_ready
    bench.run((NEVER_ANSWERED - 2) * 5 * SECOND)
    assert FaultCode.NONE is bench.controller.verdicts.current.fault
    bench.run(4 * 5 * SECOND)

    assert (FaultCode.POD_UNREACHABLE, Layer.POD, "a2", Severity.WARNING) == _named(bench)


def test_canaries_are_asked_at_their_own_interval():
    """And know no confirm burst."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB, SLOW))
    sent = {one.name: one.sent for one in bench.engine.status(bench.now, {}).canaries}

    assert 7 <= sent["web"] <= 9
    assert 1 <= sent["slow"] <= 2


def test_what_a_canary_answers_says_nothing_of_the_node_it_stands_for():
    """An empty banner is no word of a peer's: it must not wipe out what the peer itself said."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB))
    told = bench.engine.state.views._latest["a3"][1]
    bench.silent = lambda plan: plan.canary is None
    bench.run(3 * SECOND)

    assert bench.engine.state.views._latest["a3"][1] <= told + SECOND


DNS = Canary(name="dns", address="10.244.2.9", port=53, node=NodeName("a2"))
KUBELET = Canary(name="kubelet", address="192.168.100.13", port=10250, node=NodeName("a3"), kind=CanaryKind.TCP)


@pytest.mark.parametrize(
    ("port", "role", "fault"),
    [
        (10250, CanaryRole.AUTO, FaultCode.KUBELET_UNREACHABLE),
        (6443, CanaryRole.AUTO, FaultCode.APISERVER_UNREACHABLE),
        (443, CanaryRole.APISERVER, FaultCode.APISERVER_UNREACHABLE),
        (6443, CanaryRole.POD, FaultCode.POD_UNREACHABLE),
    ],
)
def test_a_silent_service_of_a_node_that_answers_has_a_name_of_its_own(port, role, fault):
    """By its role, or by its port where no role is declared; it is a warning and moves nothing."""
    service = msgspec.structs.replace(KUBELET, port=port, role=role)
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB, service))
    bench.silent = lambda plan: plan.canary is service
    bench.run(30 * SECOND)

    assert (fault, Layer.POD, "a3", Severity.WARNING) == _named(bench)
    assert [] == bench.said(ApplySwitch)


def test_a_silent_api_server_is_named_before_the_kubelets():
    """Whichever was declared first: all kubelets behind this node depend on it."""
    apiserver = msgspec.structs.replace(KUBELET, name="apiserver", port=6443, node=NodeName("a1"))
    bench = _ready("b3", with_canaries(settings_for("b3"), KUBELET, apiserver))
    bench.silent = lambda plan: plan.canary in (KUBELET, apiserver)
    bench.run(30 * SECOND)

    assert (FaultCode.APISERVER_UNREACHABLE, Layer.POD, "a1", Severity.WARNING) == _named(bench)
    assert "(canary kubelet)" in bench.controller.verdicts.current.because[1]


def test_all_canaries_silent_on_several_nodes_while_probes_pass_are_no_pods_fault():
    """Something between the locations serves the watcher and not the watched."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB, DNS))
    bench.silent = lambda plan: plan.layer is Layer.POD
    bench.run(30 * SECOND)

    assert (FaultCode.PROBES_ONLY, Layer.POD, "", Severity.WARNING) == _named(bench)
    assert [] == bench.said(ApplySwitch)


def test_the_remote_leaders_own_pod_speaks_for_nobody_behind_it():
    """Its overlay serves probes only: what it answers itself has not crossed that, and tells whose overlay it is."""
    lead = Canary(name="lead", address="10.244.1.9", port=53, node=NodeName("a1"))
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB, DNS, lead))
    bench.silent = lambda plan: plan.canary in (WEB, DNS)
    bench.run(30 * SECOND)

    assert (FaultCode.PROBES_ONLY, Layer.POD, "a1", Severity.WARNING) == _named(bench)


BULK = tuple(
    Canary(name=f"disc-{name}", address=f"10.244.{name[1]}.8", port=10, node=NodeName(name), kind=CanaryKind.BULK)
    for name in ("a1", "a2", "a3")
)


def _in_bulk(*nodes):
    return lambda plan: plan.canary is not None and plan.canary.kind is CanaryKind.BULK and plan.peer in nodes


@pytest.mark.parametrize(
    ("lost", "culprit"), [(("a2", "a3"), "a1"), (("a3",), "a3"), (("a1",), "a1"), (("a1", "a2", "a3"), "")]
)
def test_services_that_accept_connections_and_get_no_full_segment(lost, culprit):
    """An offload at the remote leader's overlay, at one node; or on this side or that, when nothing gets through."""
    bench = _ready("b3", with_canaries(settings_for("b3"), *BULK))
    bench.silent = _in_bulk(*lost)
    bench.run(20 * SECOND)

    assert (FaultCode.OFFLOAD_FAULT, Layer.OVERLAY, culprit, Severity.WARNING) == _named(bench)
    assert [] == bench.said(ApplySwitch)

    bench.silent = lambda _plan: False
    bench.run(20 * SECOND)

    assert FaultCode.NONE is bench.controller.verdicts.current.fault


def test_a_relay_that_loses_full_segments_is_not_taken_for_the_first_node_behind_it():
    """The others there are asked less often, and the relay's own pod gets all it is sent."""
    paced = [
        msgspec.structs.replace(each, interval=interval)
        for each, interval in zip(BULK, (SECOND, 500 * MS, 2 * SECOND), strict=True)
    ]
    bench = _ready("b3", with_canaries(settings_for("b3"), *paced))
    bench.run(6 * SECOND)
    bench.silent = _in_bulk("a2", "a3")
    bench.run(40 * SECOND)
    told = [change.verdict for change in bench.said(VerdictChanged)]

    assert [(FaultCode.OFFLOAD_FAULT, "a1")] == [(verdict.fault, verdict.culprit) for verdict in told]


def test_a_service_that_is_gone_is_no_broken_offload():
    """It accepts no connections either, so that the pod is told of, and nothing else on the way to it."""
    bench = _ready("b3", with_canaries(settings_for("b3"), *BULK))
    bench.silent = lambda plan: plan.layer is Layer.POD and plan.peer == "a3"
    bench.run(30 * SECOND)

    assert (FaultCode.POD_UNREACHABLE, Layer.POD, "a3", Severity.WARNING) == _named(bench)
    assert FaultCode.OFFLOAD_FAULT not in {change.verdict.fault for change in bench.said(VerdictChanged)}


def test_a_service_that_never_took_full_segments_is_no_broken_offload():
    """It closes whatever connects, say: nobody knows that it ever worked."""
    bench = Bench("b3", settings=with_canaries(settings_for("b3"), *BULK))
    bench.silent = _in_bulk("a2", "a3")
    bench.run(40 * SECOND)

    assert FaultCode.NONE is bench.controller.verdicts.current.fault


def test_a_node_that_hears_the_others_and_not_itself_has_closed_its_reflectors_ports():
    """Not deaf: what others answer comes in."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB))
    bench.silent = lambda plan: plan.layer is Layer.SELF
    bench.run(10 * SECOND)

    assert (FaultCode.PROBE_PORT_BLOCKED, Layer.RELAY, "b3", Severity.WARNING) == _named(bench)
    assert [] == bench.said(ApplySwitch)


def test_probes_that_die_while_canaries_answer_are_no_outage():
    """A filter closed for the probes' ports: told as what it is, and nothing is moved."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB))
    bench.silent = lambda plan: plan.canary is None and plan.layer in (Layer.RELAY, Layer.EFFECTIVE)
    bench.run(30 * SECOND)

    assert (FaultCode.PROBE_PORT_BLOCKED, Layer.RELAY, "", Severity.WARNING) == _named(bench)
    assert [] == bench.said(ApplySwitch)


def test_a_canary_on_the_remote_leader_refutes_nothing_behind_it():
    """With the leader's overlay dead its own pod answers as ever: those behind it are lost all the same."""
    lead = Canary(name="lead", address="10.244.1.9", port=53, node=NodeName("a1"))
    bench = _ready("b3", with_canaries(settings_for("b3"), lead))
    bench.silent = lambda plan: primary_is_silent(plan) and plan.peer != "a1"
    bench.run(20 * SECOND)

    assert FaultCode.PROBE_PORT_BLOCKED not in {change.verdict.fault for change in bench.said(VerdictChanged)}
    assert bench.said(VerdictChanged)


def test_canaries_that_go_around_the_path_with_all_traffic_refute_nothing():
    """After a failover they answer because of it."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB, DNS))
    watch, active = bench.controller.watch, bench.controller.mover.active

    assert {"a2", "a3"} == watch._behind(active)
    assert frozenset() == watch._behind(watch.paths[1])


def test_a_canary_that_was_silent_with_the_path_is_not_blamed_when_that_is_back():
    """It is down until ten answers have come, which is longer than the path is and than a side issue has to last."""
    bench = _ready("b3", with_canaries(settings_for("b3"), WEB))
    bench.silent = lambda plan: plan.canary is WEB or primary_is_silent(plan)
    bench.run(20 * SECOND)
    (status,) = bench.engine.status(bench.now, {}).canaries
    assert "down" == status.state

    bench.outputs.clear()
    bench.silent = lambda _plan: False
    bench.run(20 * SECOND)
    told = {change.verdict.fault for change in bench.said(VerdictChanged)}

    assert FaultCode.NONE is bench.controller.verdicts.current.fault
    assert FaultCode.POD_UNREACHABLE not in told
