"""A status as text; whole pages are in tests/golden/cli."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.render import render_status
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.status import CanaryStatus, RateStatus
from tests.support.example_status import HEALTHY, MOVED, NOW_NS, STUCK, status, verdict

CANARY = CanaryStatus(
    name="dns",
    node=NodeName("a2"),
    kind="udp",
    address="10.244.2.5",
    port=53,
    state="up",
    rtt_ns=1_000_000,
    sent=9,
    lost=0,
    last_heard_ns=NOW_NS,
    depends_on="",
)


def _lines(shown, **options):
    return render_status(shown, now_ns=NOW_NS, paint=paint_nothing, **options).splitlines()


@pytest.mark.parametrize("fault", list(FaultCode))
def test_every_fault_fits_the_first_line(fault):
    """Its severity, its title and the path in use."""
    first = _lines(status(verdict(fault, culprit="b1")))[0]
    assert first.endswith("; traffic on the primary path b1-a1")


def test_the_worst_pair_comes_first():
    """Whatever the order of the locations."""
    healthy = msgspec.structs.replace(HEALTHY.pairs[0], remote_location="edge")
    both = msgspec.structs.replace(STUCK, pairs=(healthy, *STUCK.pairs))
    first, second, *_ = _lines(both)
    assert first.startswith("CRITICAL  to onprem: ")
    assert second.startswith("OK  to edge: ")


def test_a_daemon_that_is_still_starting_does_not_say_that_all_is_well():
    """It does not know yet."""
    starting = msgspec.structs.replace(HEALTHY, is_ready=False)
    assert "starting, not every path has been judged yet" in _lines(starting)[0]


def test_sessions_are_shown_on_request_only():
    """A big mesh has thousands."""
    assert not any(" established  " in line for line in _lines(MOVED))
    assert 2 == sum(" established  " in line for line in _lines(MOVED, is_verbose=True))


def test_a_state_without_known_path_is_shown_all_the_same():
    """A newer engine may know more than this program."""
    odd = msgspec.structs.replace(HEALTHY, pairs=(msgspec.structs.replace(HEALTHY.pairs[0], paths=()),))
    assert _lines(odd)[0].endswith("; traffic on no known path")


def test_rates_are_shown_on_request_and_a_stretched_one_stands_out():
    """An operator who wonders why a fault was found late sees that the packet budget is used up."""
    rate = RateStatus(
        layer=Layer.RELAY, path=0, flow=FlowClass.PINNED, sessions=99, interval_ns=500_000_000, stretch=10.0
    )
    shown = msgspec.structs.replace(HEALTHY, rates=(rate,))

    assert not any("STRETCH" in line for line in _lines(shown))
    assert ["relay", "99", "500", "ms", "x", "10"] == [
        word
        for word in next(line for line in _lines(shown, is_verbose=True) if " x 10" in line).split()
        if word in {"relay", "99", "500", "ms", "x", "10"}
    ]


def test_a_node_without_canaries_is_told_so_and_how_to_declare_one():
    """It is a remark: the severity, and with it the exit status, stays what it is."""
    remark = [line for line in _lines(HEALTHY) if line.startswith("no canary is declared")]
    assert 1 == len(remark)
    assert "[[probe.canary]]" in remark[0]
    asked = msgspec.structs.replace(HEALTHY, canaries=(CANARY,))
    assert not any("no canary is declared" in line for line in _lines(asked))


def test_a_node_that_knows_no_other_location_needs_no_canary():
    """There is nobody behind whom one could be."""
    alone = msgspec.structs.replace(HEALTHY, pairs=())
    assert not any("canary" in line for line in _lines(alone))


def test_a_node_that_is_kept_from_acting_says_what_keeps_it():
    """Its mode is enforce, and traffic will not be moved here."""
    held = msgspec.structs.replace(
        HEALTHY, collisions=("rule pref 5410 lookup 100 uses a priority of ours; remove it",)
    )
    first, second, *_ = _lines(held)
    assert first.endswith("puts nothing into the kernel: rule pref 5410 lookup 100 uses a priority of ours; remove it")
    assert second.startswith("OK")


def test_a_node_that_goes_around_its_own_leg_says_by_whom():
    """Its pairs of locations may look as if nothing of theirs had moved, and nothing has."""
    shown = msgspec.structs.replace(HEALTHY, detour="by a1, via 192.168.100.11 on eth0")
    (line,) = [each for each in _lines(shown) if "own leg" in each]

    assert f"WARNING  {HEALTHY.node} sends to other locations by a1, via 192.168.100.11 on eth0: its own leg" in line
    assert not any("own leg" in each for each in _lines(HEALTHY))
