"""Probes and their answers over loopback, against a reflector of the mesh."""

from __future__ import annotations

import time
from contextlib import closing
from random import Random

import msgspec
import pytest

from meshwatchd.adapters.tap.marks import FIRST_SSID
from meshwatchd.bisect.leg import Leg
from meshwatchd.bisect.probes import Probes
from meshwatchd.model.bisection import SeriesName
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.wire.auth import MeshKeys
from tests.support.echo import ADDRESS, Echo
from tests.support.wire_pair import A1, B1, SECRET

EPOCH = 99
LONG_NS = 5_000_000_000


def way(port: int) -> Leg:
    """From a1 to b1 over loopback."""
    return Leg(
        node=NodeName(A1),
        peer=NodeName(B1),
        via=NodeName(B1),
        layer=Layer.OVERLAY,
        source=ADDRESS,
        destination=ADDRESS,
        port=port,
        underlay_port=port,
        underlay_source=ADDRESS,
        underlay_destination=ADDRESS,
    )


def probes(port: int) -> closing[Probes]:
    """A run's probes with a fixed random sequence."""
    return closing(Probes(way(port), MeshKeys(A1, [SECRET]), epoch=EPOCH, random=Random(1)))


def ask(run: Probes, series: SeriesName, count: int, expected: int) -> None:
    """Send so many and wait until so many are answered."""
    for _ in range(count):
        probe = run.make(series)
        assert probe is not None
        run.send(probe)
    for _ in run.wait(time.monotonic_ns() + LONG_NS):
        if run.echoed(series) >= expected:
            return


def test_probes_are_answered_and_counted_by_series():
    """Each from a port of its own, all in one session of this run's epoch."""
    with Echo() as echo, probes(echo.port) as run:
        ask(run, SeriesName.KERNEL, 5, 5)
        ask(run, SeriesName.UNDERLAY, 2, 2)

        assert (5, 5, 2, 0) == (
            run.sent(SeriesName.KERNEL),
            run.echoed(SeriesName.KERNEL),
            run.echoed(SeriesName.UNDERLAY),
            run.echoed(SeriesName.CRAFTED),
        )
    assert {EPOCH} == {each.mesh.epoch for each in echo.requests}
    assert {run.ssid} == {each.ssid for each in echo.requests}
    assert run.ssid >= FIRST_SSID
    assert 7 == len({each.sequence for each in echo.requests})


def test_lost_probes_are_not_answered():
    """Three of five."""
    with Echo(is_lost=lambda sequence: sequence % 1000 < 3) as echo, probes(echo.port) as run:
        ask(run, SeriesName.KERNEL, 5, 2)

        assert (5, 2) == (run.sent(SeriesName.KERNEL), run.echoed(SeriesName.KERNEL))


@pytest.mark.parametrize("position", [48, 80, 120, -1])
def test_a_forged_answer_does_not_count(position):
    """One bit of a number, of the time to live, of the mesh TLV, of the tag: nobody but the peer answers for it."""

    def spoil(answer: bytes) -> bytes:
        changed = bytearray(answer)
        changed[position] ^= 1
        return bytes(changed)

    with Echo(spoil=spoil) as echo, probes(echo.port) as run:
        probe = run.make(SeriesName.KERNEL)
        assert probe is not None
        run.send(probe)
        turns = 0
        for _ in run.wait(time.monotonic_ns() + 200_000_000):
            turns += 1

        assert 0 == run.echoed(SeriesName.KERNEL)
        assert turns


def test_a_source_address_of_somebody_else_is_an_error_of_the_series():
    """The overlay device is gone, and its address with it: nothing is sent, and the reason is kept."""
    gone = msgspec.structs.replace(way(9), source="192.0.2.77")
    with closing(Probes(gone, MeshKeys(A1, [SECRET]), epoch=EPOCH, random=Random(1))) as run:
        assert run.make(SeriesName.KERNEL) is None
        assert (0, ("EADDRNOTAVAIL",)) == (run.sent(SeriesName.KERNEL), run.errors(SeriesName.KERNEL))


def test_what_the_kernel_refuses_is_kept_once():
    """A route that leads nowhere, for each probe anew."""
    nowhere = msgspec.structs.replace(way(9), destination="240.0.0.1")
    with closing(Probes(nowhere, MeshKeys(A1, [SECRET]), epoch=EPOCH, random=Random(1))) as run:
        for _ in range(3):
            probe = run.make(SeriesName.KERNEL)
            assert probe is not None
            run.send(probe)

        assert 1 == len(run.errors(SeriesName.KERNEL))
        assert 3 == run.sent(SeriesName.KERNEL)
