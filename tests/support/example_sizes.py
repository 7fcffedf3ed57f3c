"""Measured sizes of the two-location mesh, as a daemon on b3 would report them."""

from __future__ import annotations

from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.mtu import SizeStatus

SEGMENT = 0xFFFF


def line(  # noqa: PLR0917 - the columns of the table it stands for
    layer: Layer, peer: str, path: int, direction: str, expected: int, measured: int, state: str = "ok", hint: str = ""
) -> SizeStatus:
    """One line of the table."""
    return SizeStatus(
        layer=layer,
        peer=NodeName(peer),
        path=path,
        direction=direction,
        expected_bytes=expected,
        measured_bytes=measured,
        state=state,
        advice=hint,
    )


HEALTHY_SIZES = (
    line(Layer.UNDERLAY, "b1", SEGMENT, "both", 1500, 1500),
    line(Layer.UNDERLAY, "b1", SEGMENT, "fragments", 1800, 1800),
    line(Layer.OVERLAY, "b1", SEGMENT, "both", 1450, 1450),
    line(Layer.RELAY, "a1", 0, "both", 1420, 1420),
    line(Layer.RELAY, "a1", 1, "both", 1420, 1420),
)
ADVICE = "configure MTU 1350 on flannel.1, or let 1400 bytes pass below it"
BLACK_HOLE_SIZES = (
    line(Layer.UNDERLAY, "b1", SEGMENT, "both", 1500, 1500),
    line(Layer.OVERLAY, "b1", SEGMENT, "outbound", 1450, 1350, "black-hole", ADVICE),
    line(Layer.OVERLAY, "b1", SEGMENT, "inbound", 1450, 1350, "black-hole", ADVICE),
    line(Layer.OVERLAY, "b2", SEGMENT, "both", 1450, 1450),
    line(Layer.RELAY, "a1", 0, "both", 1420, 0, "searching"),
    line(Layer.RELAY, "a1", 1, "both", 1420, 1420, "poisoned", "the kernel believes 1000: ip route flush cache"),
)
