"""Packets between addresses among pods die, those between addresses of nodes pass: who is named, and when nobody is."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from meshwatchd.model.canary import Canary, CanaryKind
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.outputs import ApplySwitch, VerdictChanged
from meshwatchd.model.port_map import STRANGE_PORT
from meshwatchd.model.settings import SECOND
from tests.support.bench import Bench, ready
from tests.support.lab_mesh import direct_settings, direct_snapshot, settings_for, with_canaries

BROKEN = FaultCode.POD_NETWORK_BROKEN


def _of(*peers, only=()):
    """The sessions to these nodes' addresses among their pods; those of the overlay are between the same addresses."""

    def is_lost(plan):
        is_pods = plan.layer is Layer.POD_NETWORK and (
            not only or (plan.canary is not None and plan.canary.kind in only)
        )
        is_overlay = plan.layer is Layer.OVERLAY and not only
        return plan.peer in peers and (is_pods or is_overlay)

    return is_lost


def _known(name="b3"):
    bench = ready(name)
    bench.run(12 * SECOND)
    return bench


def _named(bench):
    verdict = bench.controller.verdicts.current
    return verdict.fault, verdict.culprit


PROBES_PASS = "the probes between the same addresses are answered"
TCP_PASSES, UDP_PASSES = (f"a {name} is answered as well" for name in ("TCP SYN", "UDP datagram to a closed port"))
PASSING = (PROBES_PASS, TCP_PASSES, UDP_PASSES)
EVERYTHING, TCP, UDP, STRANGERS = (), ("tcp",), ("udp",), ("tcp", "udp")
SAID = {
    EVERYTHING: (BROKEN, "no probe from", []),
    TCP: (BROKEN, "no TCP SYN from", [PROBES_PASS, UDP_PASSES]),
    UDP: (BROKEN, "no UDP datagram to a closed port from", [PROBES_PASS, TCP_PASSES]),
    STRANGERS: (FaultCode.PROBES_ONLY, "no TCP SYN and no UDP datagram to a closed port from", [PROBES_PASS]),
}


@pytest.mark.parametrize(
    ("name", "silent", "culprit", "only"),
    [
        *(
            (*case, only)
            for only in (EVERYTHING, TCP)
            for case in (
                ("b3", ("a3",), "a3"),
                ("b3", ("a1",), "a1"),
                ("b3", ("a2", "a3"), "a1"),
                ("b3", ("a1", "a3"), ""),
                ("b3", ("a1", "a2", "a3"), ""),
                ("b1", ("a1", "a2", "a3"), ""),
                ("b3", ("a1", "a2", "a3", "b1", "b2"), "b3"),
            )
        ),
        ("b3", ("a3",), "a3", UDP),
        ("b3", ("a2", "a3"), "a1", STRANGERS),
        ("b3", ("a1", "a2", "a3", "b1", "b2"), "b3", STRANGERS),
    ],
)
def test_the_node_is_named_whose_pods_are_cut_off(name, silent, culprit, only):
    """One alone is; where all but a leader are, it passes none on; where all are, neighbours too, this node."""
    bench = _known(name)
    bench.silent = _of(*silent, only=only)
    bench.run(60 * SECOND if only == UDP else 24 * SECOND)
    verdict = bench.controller.verdicts.current
    fault, first, passing = SAID[only]

    assert (fault, culprit) == _named(bench)
    assert (CATALOGUE[fault].layer, Severity.WARNING) == (verdict.layer, verdict.severity)
    assert verdict.because[0].startswith(first)
    assert passing == [each for each in verdict.because if each in PASSING]
    assert [] == bench.said(ApplySwitch)

    bench.silent = lambda _plan: False
    began = bench.now
    bench.run(20 * SECOND)

    assert [FaultCode.NONE] == [told.verdict.fault for told in bench.said(VerdictChanged, since=began)]

    assert FaultCode.NONE is bench.controller.verdicts.current.fault


def test_it_is_said_within_seconds():
    """A miss has all such sessions watched closely: the pace of rest is no measure."""
    bench = _known()
    began = bench.now
    bench.silent = _of("a3")
    bench.run(9 * SECOND)

    assert [(BROKEN, "a3")] == [
        (told.verdict.fault, told.verdict.culprit) for told in bench.said(VerdictChanged, since=began)
    ]


def test_what_never_answered_accuses_nobody():
    """A firewall may always have dropped TCP to that port, and a peer of another version may not know the layer."""
    bench = Bench("b3")
    bench.silent = lambda plan: plan.layer is Layer.POD_NETWORK
    bench.run(60 * SECOND)

    assert FaultCode.NONE is bench.controller.verdicts.current.fault


def test_a_node_that_is_silent_altogether_is_called_so():
    """Its pods are silent in consequence; when it is back they have a few probes' time to answer."""
    bench = _known()
    began = bench.now
    bench.silent = lambda plan: plan.peer == "a3"
    bench.run(90 * SECOND)
    assert (FaultCode.NODE_UNREACHABLE, "a3") == _named(bench)
    bench.silent = lambda _plan: False
    bench.run(40 * SECOND)

    assert FaultCode.NONE is bench.controller.verdicts.current.fault
    assert BROKEN not in {told.verdict.fault for told in bench.said(VerdictChanged, since=began)}


def test_pods_that_stay_silent_when_their_node_is_back_are_named():
    """Whatever became of their sessions meanwhile."""
    bench = _known()
    bench.silent = lambda plan: plan.peer == "a3"
    bench.run(30 * SECOND)
    bench.silent = _of("a3")
    bench.run(30 * SECOND)

    assert (BROKEN, "a3") == _named(bench)


def test_where_every_node_is_a_location_of_its_own_tcp_alone_is_named():
    """At one node, which the others tell apart; at all of them at once, here."""
    for lost, culprits in ((("n2",), {"n2"}), (("n2", "n3"), {"n1"})):
        bench = Bench("n1", settings=direct_settings("n1"), snapshot=direct_snapshot())
        bench.run(12 * SECOND)
        bench.silent = _of(*lost, only=("tcp",))
        bench.run(30 * SECOND)
        told = [each.verdicts.current for each in bench.engine.state.controllers.values()]

        assert culprits == {each.culprit for each in told if each.fault is BROKEN}


def test_a_mesh_at_rest_spends_little_on_it():
    """A probe in three and a half seconds and node of the other location, a SYN in ten, other UDP in thirty."""
    bench = _known()
    bench.run(40 * SECOND)
    before = {session.plan.session: session.sent for session in bench.engine.state.schedule.sessions}
    bench.run(60 * SECOND)
    sent = Counter[str]()
    for session in bench.engine.state.schedule.sessions:
        if session.plan.layer is Layer.POD_NETWORK:
            kind = "probes" if session.plan.canary is None else str(session.plan.canary.kind)
            sent[kind] += session.sent - before[session.plan.session]

    assert 49 <= sent["probes"] <= 54
    assert 28 <= sent["tcp"] <= 33
    assert 9 <= sent["udp"] <= 11


def test_what_comes_back_after_minutes_is_known_within_seconds():
    """What is not known good is asked every few seconds, though other UDP in health is asked twice a minute."""
    bench = _known()
    bench.silent = _of("a3", only=("tcp", "udp"))
    bench.run(150 * SECOND)
    bench.silent = lambda _plan: False
    bench.run(16 * SECOND)

    assert (FaultCode.NONE, "") == _named(bench)


def test_the_last_answers_are_waited_for_before_a_loss_has_its_name():
    """TCP is asked more often than other UDP: for a moment it looks as if TCP alone were lost."""
    bench = _known()
    began = bench.now
    bench.silent = _of("a3", only=("tcp", "udp"))
    bench.run(24 * SECOND)

    assert [(FaultCode.PROBES_ONLY, "a3")] == [
        (told.verdict.fault, told.verdict.culprit) for told in bench.said(VerdictChanged, since=began)
    ]


def test_all_canaries_are_silent_for_tcp_alone():
    """Other UDP passes between the same nodes: it is no middlebox that knows the daemon."""
    canaries = tuple(
        Canary(name=f"web-{peer}", address=f"10.244.{number}.9", port=80, node=NodeName(peer), kind=CanaryKind.TCP)
        for number, peer in enumerate(("a1", "a2", "a3"), 1)
    )
    bench = ready("b3", settings=with_canaries(settings_for("b3"), *canaries))
    bench.run(12 * SECOND)
    bench.silent = lambda plan: plan.canary is not None and plan.canary.kind is CanaryKind.TCP and plan.peer[0] == "a"
    bench.run(24 * SECOND)

    assert (BROKEN, "") == _named(bench)


def test_a_kernel_that_seldom_says_that_a_port_is_closed_is_not_taken_for_a_filter():
    """Many ask it, or it was told to (icmp_ratelimit): of ten datagrams one is answered."""
    bench = _known()
    began, asked = bench.now, count()
    bench.silent = lambda plan: plan.port == STRANGE_PORT and plan.peer == "a3" and next(asked) % 10 != 9
    bench.run(100 * SECOND)

    assert next(asked) > 50
    assert [] == bench.said(VerdictChanged, since=began)


@pytest.mark.parametrize("kind", [CanaryKind.TCP, CanaryKind.UDP])
def test_a_node_that_filters_what_comes_to_itself_is_not_accused_while_its_pods_answer(kind):
    """A firewall that is switched on drops closed ports of the host, and forwards to pods as before."""
    pod = Canary(name="web", address="10.244.3.9", port=80, node=NodeName("a3"), kind=kind)
    bench = ready("b3", settings=with_canaries(settings_for("b3"), pod))
    bench.run(40 * SECOND)
    bench.silent = _of("a3", only=(kind,))
    bench.run(60 * SECOND)

    assert (FaultCode.NONE, "") == _named(bench)

    bench.silent = lambda plan: plan.canary is not None and plan.canary.kind is kind and plan.peer == "a3"
    bench.run(24 * SECOND)

    assert (BROKEN, "a3") == _named(bench)


def test_who_reaches_nobody_is_cut_off_though_canaries_answer():
    """A filter that knows the nodes' network and not the pods': canaries are asked from a node's address there."""
    canaries = tuple(
        Canary(name=f"web-{peer}", address=f"10.244.{number}.9", port=80, node=NodeName(peer), kind=CanaryKind.TCP)
        for number, peer in enumerate(("a1", "a2", "a3"), 1)
    )
    bench = ready("b3", settings=with_canaries(settings_for("b3"), *canaries))
    bench.run(40 * SECOND)
    bench.silent = _of("a1", "a2", "a3", "b1", "b2", only=("tcp",))
    bench.run(60 * SECOND)

    assert (BROKEN, "b3") == _named(bench)


def test_a_leader_is_not_named_by_a_pod_that_has_not_been_asked_since():
    """All of a location are cut off: while its leader's pod is not known to be, it looks as if that one answered."""
    canaries = tuple(
        Canary(
            name=f"web-{peer}", address=f"10.244.{number}.9", port=80, node=NodeName(peer), interval=seconds * SECOND
        )
        for number, (peer, seconds) in enumerate((("a1", 10), ("a2", 1), ("a3", 1)), 1)
    )
    bench = ready("b3", settings=with_canaries(settings_for("b3"), *canaries))
    bench.run(40 * SECOND)
    began = bench.now
    bench.silent = lambda plan: plan.canary is not None and plan.peer[0] == "a"
    bench.run(60 * SECOND)

    told = [(each.verdict.fault, each.verdict.culprit) for each in bench.said(VerdictChanged, since=began)]
    assert (FaultCode.PROBES_ONLY, "") in told
    assert (FaultCode.PROBES_ONLY, "a1") not in told


def test_other_udp_that_was_always_filtered_leaves_the_word_to_tcp():
    """Many firewalls drop datagrams to closed ports without a word."""
    bench = Bench("b3")
    bench.silent = lambda plan: plan.port == STRANGE_PORT
    bench.run(20 * SECOND)
    bench.silent = lambda plan: plan.layer is Layer.POD_NETWORK and plan.canary is not None and plan.peer == "a3"
    bench.run(24 * SECOND)

    assert (BROKEN, "a3") == _named(bench)
