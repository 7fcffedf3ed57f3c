"""Values of bisections: a way through b3's kernel to b1, and observations along it."""

from __future__ import annotations

import socket

import msgspec

from meshwatchd.adapters.tap.questions import NUD_PERMANENT, Device, Forwarding, Hop, Neighbour
from meshwatchd.bisect.leg import Leg, find_leg
from meshwatchd.bisect.observation import DeviceState, Entry, Finding, Observation
from meshwatchd.model.bisection import KnownFlows, PeerCounts, SeriesCounts, SeriesName
from tests.support.lab_mesh import declared_mesh

PORT = 18618
OWN_MAC, B1_MAC, B2_MAC = bytes.fromhex("024e01000006"), bytes.fromhex("024e01000004"), bytes.fromhex("024e01000005")
B1_VTEP, B2_VTEP = socket.inet_aton("10.2.0.11"), socket.inet_aton("10.2.0.12")
B1_OVERLAY = socket.inet_aton("10.244.4.0")
LOWER_MAC = bytes.fromhex("024e00000004")

FLANNEL = Device(
    name="flannel.1",
    index=6,
    kind="vxlan",
    is_up=True,
    has_carrier=True,
    is_ethernet=True,
    mac=OWN_MAC,
    lower=2,
    vni=1,
    port=8472,
    local=socket.inet_aton("10.2.0.13"),
)
ETH0 = Device(
    name="eth0", index=2, kind="veth", is_up=True, has_carrier=True, is_ethernet=True, mac=bytes.fromhex("024e00000006")
)

RIGHT, MISSING, WRONG = (Finding(entry=entry) for entry in (Entry.RIGHT, Entry.MISSING, Entry.WRONG))


def leg(node: str = "b3", peer: str = "b1") -> Leg:
    """A way through the lab's mesh."""
    return find_leg(declared_mesh(), node, peer, port=PORT)


class FakeKernel:
    """Answers as b3's kernel does while all is well; tests change what they are about."""

    def __init__(self) -> None:
        self.all_devices = {6: FLANNEL, 2: ETH0}
        self.hops = {
            B1_OVERLAY: Hop(index=6, gateway=B1_OVERLAY, source=socket.inet_aton("10.244.6.0")),
            B1_VTEP: Hop(index=2, source=socket.inet_aton("10.2.0.13")),
        }
        self.by_device = {
            6: [Neighbour(address=B1_OVERLAY, mac=B1_MAC, state=NUD_PERMANENT)],
            2: [Neighbour(address=B1_VTEP, mac=LOWER_MAC, state=2)],
        }
        self.entries = [Forwarding(mac=B1_MAC, destination=B1_VTEP), Forwarding(mac=B2_MAC, destination=B2_VTEP)]
        self.drops: dict[int, int] = {}

    def devices(self) -> dict[int, Device]:
        """All of them."""
        return self.all_devices

    def hop(self, destination: bytes, source: bytes = b"") -> Hop:
        """What was put in, or no route."""
        del source
        return self.hops.get(destination, Hop(error="ENETUNREACH"))

    def neighbours(self, index: int) -> tuple[Neighbour, ...]:
        """What was put in."""
        return tuple(self.by_device.get(index, ()))

    def forwarding(self, index: int) -> tuple[Forwarding, ...]:
        """What was put in."""
        return tuple(self.entries) if index == FLANNEL.index else ()

    def queue_drops(self, index: int) -> int:
        """What was put in."""
        return self.drops.get(index, 0)


def counts(  # noqa: PLR0917 - as the stages follow each other
    name: SeriesName,
    sent: int,
    at_overlay: int | None = None,
    at_lower: int | None = None,
    back_at_lower: int | None = None,
    back_at_overlay: int | None = None,
    echoed: int = 0,
) -> SeriesCounts:
    """The counts of a series in the order of the stages."""
    return SeriesCounts(
        name=name,
        sent=sent,
        at_overlay=at_overlay,
        at_lower=at_lower,
        back_at_lower=back_at_lower,
        back_at_overlay=back_at_overlay,
        echoed=echoed,
    )


def kernel(*stages: int | None, echoed: int = 0) -> SeriesCounts:
    """Twelve new flows: how many entered, left, came back, were delivered; zeros where nothing is said."""
    padded: list[int | None] = [*stages, 0, 0, 0, 0]
    entered, left, back, delivered = padded[:4]
    return counts(SeriesName.KERNEL, 12, entered, left, back, delivered, echoed)


def crafted(left: int, echoed: int = 0) -> SeriesCounts:
    """Eight outer packets."""
    return counts(SeriesName.CRAFTED, 8, 0, left, echoed, echoed, echoed)


def framed(left: int, echoed: int = 0) -> SeriesCounts:
    """Eight outer frames."""
    return counts(SeriesName.FRAMED, 8, 0, left, echoed, echoed, echoed)


def injected(entered: int, left: int = 0, echoed: int = 0) -> SeriesCounts:
    """Eight frames for the overlay device."""
    return counts(SeriesName.INJECTED, 8, entered, left, echoed, echoed, echoed)


def underlay(left: int, echoed: int) -> SeriesCounts:
    """Four probes without overlay."""
    return counts(SeriesName.UNDERLAY, 4, 0, left, echoed, 0, echoed)


def there(*stages: int) -> tuple[PeerCounts, ...]:
    """What the peer saw of the twelve: at its NIC, its overlay, answers there, answers out of its NIC."""
    heard, took, answered, replied = [*stages, 0, 0, 0, 0][:4]
    return (
        PeerCounts(
            name=SeriesName.KERNEL,
            at_lower=heard,
            at_overlay=took,
            answers_at_overlay=answered,
            answers_at_lower=replied,
        ),
    )


HEALTHY = Observation(
    peer="b1",
    via="b1",
    overlay="flannel.1",
    lower="eth0",
    overlay_state=DeviceState.READY,
    lower_state=DeviceState.READY,
    route=RIGHT,
    neighbour=RIGHT,
    forwarding=RIGHT,
    underlay_route=RIGHT,
    underlay_neighbour=RIGHT,
    series=(underlay(4, 4), kernel(12, 12, 12, 12, echoed=12)),
)
"""Everything is as it should be."""


def observed(*series: SeriesCounts, known: tuple[int, int] = (0, 0), **changes: object) -> Observation:
    """The healthy observation with other counts, other known flows (sent, answered), and other fields."""
    flows = KnownFlows(sent=known[0], answered=known[1])
    mine = {each.name for each in series}
    kept = tuple(each for each in HEALTHY.series if each.name not in mine)
    return msgspec.structs.replace(HEALTHY, series=(*kept, *series), known_flows=flows, **changes)
