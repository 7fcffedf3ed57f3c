"""Verdicts are steady: stated once they stand, replaced only by what lasts."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis.verdict_hold import REMNANT_NS, REPLACE_NS, SETTLE_NS, SIDE_ISSUE_NS, VerdictKeeper
from meshwatchd.core.session.cusum import TRIP_NATS
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict
from meshwatchd.model.settings import SECOND

START = 100 * SECOND


def _verdict(fault, culprit="b1", nats=TRIP_NATS):
    return Verdict(
        fault=fault,
        layer=CATALOGUE[fault].layer,
        severity=Severity.WARNING,
        pair=0,
        culprit="" if fault is FaultCode.NONE else culprit,
        log_likelihood=nats,
    )


def _keeper(fault=None):
    keeper = VerdictKeeper(0)
    keeper.update(_verdict(FaultCode.NONE), START - SECOND)
    if fault is not None:
        keeper.update(_verdict(fault), START - SECOND + 1)
        keeper.update(_verdict(fault), START - 1)
        assert fault is keeper.current.fault
    return keeper


def _stated_after(keeper, verdict):
    """How long a verdict has to stand until it is stated."""
    for waited in (0, REPLACE_NS, SETTLE_NS, SIDE_ISSUE_NS, REMNANT_NS):
        if keeper.update(verdict, START + waited) is not None:
            return waited
    return None


def test_it_begins_in_health():
    """A daemon accuses nobody before it has seen anything."""
    assert (FaultCode.NONE, Severity.OK) == (VerdictKeeper(0).current.fault, VerdictKeeper(0).current.severity)


@pytest.mark.parametrize("fault", [FaultCode.OVERLAY_NEW_FLOWS, FaultCode.LEADER_DEAD])
def test_a_layer_that_is_named_is_stated_at_once(fault):
    """From health there is nothing to wait for: the operator and the switch see the same instant."""
    assert 0 == _stated_after(_keeper(), _verdict(fault))


@pytest.mark.parametrize(
    ("fault", "patience_ns"),
    [
        (FaultCode.UNDETERMINED, SETTLE_NS),
        (FaultCode.LOCAL, SETTLE_NS),
        (FaultCode.NODE_UNREACHABLE, SIDE_ISSUE_NS),
        (FaultCode.KEY_MISMATCH, SIDE_ISSUE_NS),
        (FaultCode.STANDBY_DOWN, SIDE_ISSUE_NS),
        (FaultCode.KUBELET_UNREACHABLE, SIDE_ISSUE_NS),
        (FaultCode.APISERVER_UNREACHABLE, SIDE_ISSUE_NS),
    ],
)
def test_what_may_be_the_first_sign_of_something_bigger_has_to_last(fault, patience_ns):
    """A vague word is worth waiting for a better one."""
    assert patience_ns == _stated_after(_keeper(), _verdict(fault))


@pytest.mark.parametrize(
    ("culprit", "later_ns", "patience_ns"),
    [("b3", 0, SIDE_ISSUE_NS), ("b1", 0, 0), ("b3", REMNANT_NS + 1, 0)],
    ids=["at-once", "of-another-node", "after-a-while"],
)
def test_a_name_that_has_given_way_to_another_of_the_same_node_comes_back_only_if_it_lasts(
    culprit, later_ns, patience_ns
):
    """A node that loses a part of all packets: its overlay looks dead, then all of it, then its overlay."""
    keeper = _keeper()
    keeper.update(_verdict(FaultCode.OVERLAY_BLACK_HOLE, culprit), START - SIDE_ISSUE_NS - later_ns)
    for waited in (0, SIDE_ISSUE_NS):
        keeper.update(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), START - SIDE_ISSUE_NS - later_ns + waited)
    assert FaultCode.NODE_UNREACHABLE is keeper.current.fault
    keeper.renumber(1)
    keeper.renumber(0)

    assert patience_ns == _stated_after(keeper, _verdict(FaultCode.OVERLAY_BLACK_HOLE, culprit))


@pytest.mark.parametrize(
    ("before", "patience_ns"),
    [
        (FaultCode.ALL_PATHS_DOWN, REMNANT_NS),
        (FaultCode.LOCAL, REMNANT_NS),
        (FaultCode.OVERLAY_NEW_FLOWS, SIDE_ISSUE_NS),
    ],
)
def test_who_has_heard_nobody_accuses_one_node_only_when_it_lasts(before, patience_ns):
    """A switch that gave b1's frames to another port let a1 and a2 through for three seconds, and a3 was named."""
    assert patience_ns == _stated_after(_keeper(before), _verdict(FaultCode.NODE_UNREACHABLE, "a3"))


@pytest.mark.parametrize("fault", [FaultCode.FRAGMENTS_DROPPED, FaultCode.MTU_POISONED])
def test_what_is_found_session_by_session_waits_for_the_others(fault):
    """The first session that loses fragments names the peer, all of them this node; and the last one at its end."""
    assert SETTLE_NS == _stated_after(_keeper(), _verdict(fault))
    keeper = _keeper()
    keeper.update(_verdict(fault), START)
    keeper.update(_verdict(fault), START + SETTLE_NS)
    assert fault is keeper.current.fault
    assert keeper.update(_verdict(fault, "b3"), START + SECOND) is None
    assert keeper.update(_verdict(fault, "b3"), START + SECOND + SETTLE_NS) is not None


def test_what_is_found_session_by_session_waits_beside_another_size_too():
    """While a device is being made too big or right again, one session after the other sees something else."""
    keeper = _keeper(FaultCode.MTU_MISCONFIGURED)

    assert SETTLE_NS == _stated_after(keeper, _verdict(FaultCode.STANDBY_MTU_SMALLER, "b2"))


def test_a_device_that_is_too_big_is_told_at_once():
    """Nothing has to be measured for that."""
    assert 0 == _stated_after(_keeper(), _verdict(FaultCode.MTU_MISCONFIGURED))


@pytest.mark.parametrize(("culprit", "patience_ns"), [("b1", 0), ("b3", SIDE_ISSUE_NS)])
def test_the_cause_of_what_is_stated_is_stated_at_once(culprit, patience_ns):
    """b1's neighbours found its black hole with few lost packets, and it says why; b3's device explains nothing."""
    cause = _verdict(FaultCode.MTU_MISCONFIGURED, culprit, nats=0.0)

    assert patience_ns == _stated_after(_keeper(FaultCode.MTU_BLACK_HOLE), cause)


def test_a_culprit_that_is_told_where_nobody_was_named_is_stated_at_once():
    """Members cannot tell which relay passes probes only; a leader does, within a second."""
    keeper = VerdictKeeper(0)
    nobody, somebody = _verdict(FaultCode.PROBES_ONLY, ""), _verdict(FaultCode.PROBES_ONLY, "b1")
    assert SIDE_ISSUE_NS == _stated_after(keeper, nobody)

    at = START + SIDE_ISSUE_NS + SECOND
    assert (somebody, FaultCode.PROBES_ONLY) == keeper.update(somebody, at)
    assert keeper.update(nobody, at + 1) is None, "and is not unsaid on a whim"
    assert "b1" == keeper.current.culprit


def test_a_named_layer_is_not_renamed_on_a_whim():
    """Another name must last; one that flickers is never stated."""
    assert REPLACE_NS == _stated_after(_keeper(FaultCode.OVERLAY_BLACK_HOLE), _verdict(FaultCode.OVERLAY_NEW_FLOWS))
    keeper = _keeper(FaultCode.OVERLAY_BLACK_HOLE)
    for turn in range(10):
        fault = (FaultCode.OVERLAY_NEW_FLOWS, FaultCode.OVERLAY_BLACK_HOLE)[turn % 2]
        assert keeper.update(_verdict(fault), START + turn * REPLACE_NS) is None

    assert FaultCode.OVERLAY_BLACK_HOLE is keeper.current.fault


def test_while_a_path_heals_no_new_fault_is_made_up():
    """Legs recover one after the other, and every order of them looks like some fault."""
    healing = _verdict(FaultCode.OVERLAY_BLACK_HOLE, nats=TRIP_NATS / 2)

    assert SIDE_ISSUE_NS == _stated_after(_keeper(FaultCode.LOCAL), healing)


@pytest.mark.parametrize("nats", [0.0, TRIP_NATS])
def test_a_cause_that_was_found_in_a_kernel_is_stated_at_once(nats):
    """What is broken has been told already; a leader whose own path is well has no evidence of its own against it."""
    keeper = _keeper(FaultCode.OVERLAY_BLACK_HOLE)

    assert 0 == _stated_after(keeper, _verdict(FaultCode.VTEP_MAC_CHANGED, nats=nats))


def test_another_culprit_is_another_verdict():
    """The name of the node matters as much as the layer's."""
    assert REPLACE_NS == _stated_after(
        _keeper(FaultCode.OVERLAY_NEW_FLOWS), _verdict(FaultCode.OVERLAY_NEW_FLOWS, culprit="a1")
    )


def test_recovery_is_stated_at_once():
    """The group has its own inertia; a second one would only confuse."""
    keeper = _keeper(FaultCode.OVERLAY_NEW_FLOWS)
    verdict, previous = keeper.update(_verdict(FaultCode.NONE), START)

    assert (FaultCode.NONE, "overlay-new-flows") == (verdict.fault, previous)


def test_new_evidence_for_the_same_fault_is_kept_and_not_stated():
    """`explain` shows the latest, the log does not repeat itself."""
    keeper = _keeper(FaultCode.OVERLAY_NEW_FLOWS)

    assert keeper.update(_verdict(FaultCode.OVERLAY_NEW_FLOWS, nats=30.0), START) is None
    assert 30.0 == keeper.current.log_likelihood


def test_a_culprit_that_flickers_does_not_hide_the_fault():
    """While all paths are down, whoever is to blame: an operator must not read `every layer answers`."""
    keeper = _keeper()
    for turn in range(20):
        keeper.update(_verdict(FaultCode.ALL_PATHS_DOWN, culprit=("", "b1")[turn % 2]), START + turn * SETTLE_NS // 4)

    assert FaultCode.ALL_PATHS_DOWN is keeper.current.fault


def test_a_name_for_what_had_none_takes_no_patience_of_its_own():
    """A peer has told the culprit while a side issue is stated already: three seconds are enough for both."""
    keeper = _keeper()
    assert SIDE_ISSUE_NS == _stated_after(keeper, _verdict(FaultCode.STANDBY_DOWN, culprit=""))
    keeper.update(_verdict(FaultCode.POD_NETWORK_BROKEN, culprit=""), START + SIDE_ISSUE_NS)
    keeper.update(_verdict(FaultCode.POD_NETWORK_BROKEN, culprit="b1"), START + 3 * SIDE_ISSUE_NS // 2)
    keeper.update(_verdict(FaultCode.POD_NETWORK_BROKEN, culprit="b1"), START + 2 * SIDE_ISSUE_NS)

    assert (FaultCode.POD_NETWORK_BROKEN, "b1") == (keeper.current.fault, keeper.current.culprit)
