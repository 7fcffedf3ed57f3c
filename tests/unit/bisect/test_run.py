"""A whole run over loopback: what needs no privilege, from the first question to the result."""

from __future__ import annotations

import time
from random import Random

from meshwatchd.bisect.run import KERNEL_PROBES, Run
from meshwatchd.model.bisection import BisectResult, Flows, PeerCounts, Place, SeriesName
from meshwatchd.wire.auth import MeshKeys
from tests.support.bisection import FakeKernel
from tests.support.echo import Echo
from tests.support.wire_pair import A1, SECRET
from tests.unit.bisect.test_probes import EPOCH, way

SECOND = 1_000_000_000


class NoDevices(FakeKernel):
    """A kernel in which nothing can be tapped."""

    def __init__(self) -> None:
        super().__init__()
        self.all_devices = {}


class Far:
    """The far end's taps."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def begin(self, leg, ssid):
        """Remember who asks."""
        self.asked.append(ssid)

    def counts(self):
        """Everything reached it."""
        return (PeerCounts(name=SeriesName.KERNEL, at_lower=KERNEL_PROBES, at_overlay=0),)


def run(port: int, *, timeout_ns: int = 3 * SECOND, far: Far | None = None) -> BisectResult:
    """One run from a1 to b1."""
    return Run(
        way(port),
        NoDevices(),
        MeshKeys(A1, [SECRET]),
        epoch=EPOCH,
        until_ns=time.monotonic_ns() + timeout_ns,
        random=Random(3),
        peer_taps=far,
    ).execute()


def test_a_run_that_is_answered_ends_at_once():
    """Nothing crafted is sent, and nobody waits."""
    with Echo() as echo:
        result = run(echo.port)

    assert (Place.NOWHERE, Flows.NONE) == (result.place, result.flows)
    assert result.duration_ns < SECOND
    assert {0} == {
        counts.sent for counts in result.series if counts.name not in {SeriesName.KERNEL, SeriesName.UNDERLAY}
    }


def test_a_run_without_answers_names_the_device_that_is_missing():
    """It takes its waits and no more, and says what it knows."""
    with Echo(is_lost=lambda _: True) as echo:
        result = run(echo.port)

    assert (Place.OVERLAY_DEVICE, "b1", "a1") == (result.place, result.peer, result.node)
    assert result.duration_ns < 3 * SECOND
    assert not result.is_two_sided
    assert any("0 were answered" in line for line in result.because)


def test_a_late_run_shortens_its_waits():
    """The time is up before it begins: it still listens for a moment, and ends."""
    with Echo(is_lost=lambda _: True) as echo:
        result = run(echo.port, timeout_ns=0)

    assert result.duration_ns < SECOND


def test_the_far_ends_taps_take_part():
    """They are asked before anything is sent, with the session they are to look for."""
    far = Far()
    with Echo(is_lost=lambda _: True) as echo:
        result = run(echo.port, far=far)

    assert {each.ssid for each in echo.requests} == set(far.asked)
    assert result.is_two_sided
    assert KERNEL_PROBES == result.peer_counts[0].at_lower
