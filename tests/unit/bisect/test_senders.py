"""Which crafted packets a stack allows; that they arrive is the lab's to show."""

from __future__ import annotations

import socket
from contextlib import closing
from random import Random

import msgspec
import pytest

from meshwatchd.adapters.tap.questions import Device
from meshwatchd.bisect.probes import Probe
from meshwatchd.bisect.senders import FIRST_OUTER_PORT, Senders
from meshwatchd.bisect.stack import Stack, read_stack
from meshwatchd.model.bisection import SeriesName
from tests.support.bisection import ETH0, FLANNEL, FakeKernel, leg

ALL_THREE = {SeriesName.INJECTED, SeriesName.CRAFTED, SeriesName.FRAMED}


def names(stack: Stack, *ends: str) -> set[SeriesName]:
    """The series that can be sent there."""
    with closing(Senders(leg(*ends), stack, Random(1))) as senders:
        return {name for name, _send in senders.available()}


def healthy() -> Stack:
    """b3's stack towards b1."""
    return read_stack(FakeKernel(), leg())


def test_all_ways_are_open_on_an_ordinary_overlay():
    """Its tables, the MACs, and the lower device are known."""
    assert ALL_THREE == names(healthy())


def test_nothing_is_put_into_a_device_that_frees_it_without_a_word():
    """cilium_vxlan: packets by hand around it, no frames into it."""
    kernel = FakeKernel()
    kernel.all_devices = {6: msgspec.structs.replace(FLANNEL, collects_metadata=True), 2: ETH0}

    assert {SeriesName.CRAFTED, SeriesName.FRAMED} == names(read_stack(kernel, leg()))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"believed_mac": b"", "neighbour": None}, set()),
        ({"lower_neighbour": None}, {SeriesName.INJECTED, SeriesName.CRAFTED}),
        ({"overlay": None}, set()),
        (
            {"ipip": Device(name="tunl0", index=7, kind="ipip", is_up=True, has_carrier=True, is_ethernet=False)},
            {SeriesName.CRAFTED},
        ),
    ],
)
def test_what_is_not_known_is_not_guessed(changes, expected):
    """No MAC of the peer, no next hop's, no device; IPIP is sent raw."""
    assert expected == names(msgspec.structs.replace(healthy(), **changes))


def test_a_tunnel_takes_nothing():
    """Nothing can be put around WireGuard's encryption."""
    assert set() == names(healthy(), "b1", "a1")


class Loopback:
    """Raw sockets need a privilege: what would be sent is kept."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, str]] = []

    def sendto(self, packet: bytes, address: tuple[str, int]) -> None:
        """Keep it."""
        self.sent.append((packet, address[0]))


def test_outer_ports_are_new_to_the_network():
    """Above the range from which overlay devices draw, each once, to the peer's VTEP."""
    wire = Loopback()

    class Kept(Senders):
        def _raw(self):
            return wire

    probe = Probe(
        series=SeriesName.CRAFTED,
        sequence=1,
        source="10.244.6.0",
        source_port=40_000,
        destination="10.244.4.0",
        port=18618,
        payload=b"probe",
    )
    with closing(Kept(leg(), healthy(), Random(1))) as senders:
        send = dict(senders.available())[SeriesName.CRAFTED]
        for _ in range(8):
            send(probe)
    ports = {int.from_bytes(packet[20:22], "big") for packet, _ in wire.sent}

    assert 8 == len(ports)
    assert min(ports) >= FIRST_OUTER_PORT
    assert {"10.2.0.11"} == {address for _, address in wire.sent}
    assert {socket.inet_aton("10.2.0.13")} == {packet[12:16] for packet, _ in wire.sent}
