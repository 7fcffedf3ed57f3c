"""Packets between addresses among pods die, those between addresses of nodes pass: who is named, and when nobody is."""

from __future__ import annotations

import pytest

from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.outputs import ApplySwitch, VerdictChanged
from meshwatchd.model.settings import SECOND
from tests.support.bench import Bench, ready
from tests.support.lab_mesh import direct_settings, direct_snapshot

BROKEN = FaultCode.POD_NETWORK_BROKEN


def _of(*peers, tcp=False):
    """The sessions to these nodes' addresses among their pods; those of the overlay are between the same addresses."""

    def is_lost(plan):
        is_pods = plan.layer is Layer.POD_NETWORK and (plan.canary is not None or not tcp)
        is_overlay = plan.layer is Layer.OVERLAY and not tcp
        return plan.peer in peers and (is_pods or is_overlay)

    return is_lost


def _known(name="b3"):
    bench = ready(name)
    bench.run(12 * SECOND)
    return bench


def _named(bench):
    verdict = bench.controller.verdicts.current
    return verdict.fault, verdict.culprit


@pytest.mark.parametrize("tcp", [False, True])
@pytest.mark.parametrize(
    ("name", "silent", "culprit"),
    [
        ("b3", ("a3",), "a3"),
        ("b3", ("a1",), "a1"),
        ("b3", ("a2", "a3"), "a1"),
        ("b3", ("a1", "a3"), ""),
        ("b3", ("a1", "a2", "a3"), ""),
        ("b1", ("a1", "a2", "a3"), ""),
        ("b3", ("a1", "a2", "a3", "b1", "b2"), "b3"),
    ],
)
def test_the_node_is_named_whose_pods_are_cut_off(name, silent, culprit, tcp):
    """One alone is; where all but a leader are, it passes none on; where all are, neighbours too, this node."""
    bench = _known(name)
    bench.silent = _of(*silent, tcp=tcp)
    bench.run(20 * SECOND)
    verdict = bench.controller.verdicts.current

    assert (BROKEN, culprit) == _named(bench)
    assert (Layer.POD_NETWORK, Severity.WARNING) == (verdict.layer, verdict.severity)
    assert verdict.because[0].startswith("no TCP SYN" if tcp else "no probe")
    assert tcp == ("UDP between the same addresses is answered" in verdict.because)
    assert [] == bench.said(ApplySwitch)

    bench.silent = lambda _plan: False
    bench.run(15 * SECOND)

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
        bench.silent = _of(*lost, tcp=True)
        bench.run(30 * SECOND)
        told = [each.verdicts.current for each in bench.engine.state.controllers.values()]

        assert culprits == {each.culprit for each in told if each.fault is BROKEN}


def test_a_mesh_at_rest_spends_little_on_it():
    """A packet in three and a half seconds and node of the other location, a SYN in ten and node."""
    bench = _known()
    bench.run(20 * SECOND)
    before = {session.plan.session: session.sent for session in bench.engine.state.schedule.sessions}
    bench.run(20 * SECOND)
    sent = {FlowClass.PINNED: 0, FlowClass.FRESH: 0}
    for session in bench.engine.state.schedule.sessions:
        if session.plan.layer is Layer.POD_NETWORK:
            sent[session.plan.flow] += session.sent - before[session.plan.session]

    assert 16 <= sent[FlowClass.PINNED] <= 19
    assert 9 <= sent[FlowClass.FRESH] <= 12
