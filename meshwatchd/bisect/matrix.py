"""The localisation matrix: from signs to the place where packets die.

An ordered table, first match wins; the last row always matches and says that it does not know. A row looks at some
signs and at no others. Rows go along the packet's way, so what is found first is what the packet meets first; tables of
the kernel come before the counts they explain, because a wrong entry is a cause and a missing packet only its effect.

With the taps of one side only, what has left this NIC may have died anywhere beyond it: such rows name the likeliest
place and the others that the evidence allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from meshwatchd.bisect.observation import DeviceState, Entry, Observation
from meshwatchd.bisect.signs import Amount, Signs
from meshwatchd.model.bisection import Place
from meshwatchd.model.faults import Direction

Allowed = frozenset[object]

LOST: Final[Allowed] = frozenset({Amount.SOME, Amount.NONE})
ALL: Final[Allowed] = frozenset({Amount.ALL})
NONE: Final[Allowed] = frozenset({Amount.NONE})
NOT_SEEN: Final[Allowed] = frozenset({Amount.UNKNOWN})
PASSES: Final[Allowed] = frozenset({Amount.ALL, Amount.SOME})
UNTRIED_OR_LOST: Final[Allowed] = LOST | NOT_SEEN
MISSING: Final[Allowed] = frozenset({Entry.MISSING})
WRONG: Final[Allowed] = frozenset({Entry.WRONG})
NOT_RIGHT: Final[Allowed] = MISSING | WRONG
NOT_BAD: Final[Allowed] = frozenset({Entry.RIGHT, Entry.UNKNOWN})


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line.

    Attributes:
        name: of the case, for tests.
        when: the values each sign may have.
        says: why, as a sentence; {peer}, {via}, {overlay}, {lower}, {route}, {neighbour}, {forwarding},
            {underlay_route} and {underlay_neighbour} are filled in.
        also: other places that the same evidence allows.
    """

    name: str
    when: Mapping[str, Allowed]
    place: Place
    direction: Direction
    says: str
    also: tuple[Place, ...] = ()


def _row(  # noqa: PLR0917 - a line of a table
    name: str, place: Place, direction: Direction, says: str, also: tuple[Place, ...] = (), **when: Allowed
) -> Row:
    return Row(name=name, when=MappingProxyType(when), place=place, direction=direction, says=says, also=also)


_OUT, _IN, _UNKNOWN = Direction.OUTBOUND, Direction.INBOUND, Direction.UNKNOWN
_DEAD: Final[Allowed] = frozenset({DeviceState.DOWN, DeviceState.MISSING})
_NO_LIGHT: Final[Allowed] = frozenset({DeviceState.DOWN, DeviceState.NO_CARRIER, DeviceState.MISSING})
_BEYOND: Final = (Place.PEER_INGRESS, Place.PEER_OVERLAY, Place.PEER_EGRESS)

ROWS: Final[tuple[Row, ...]] = (
    # --- nothing is wrong, or nothing was to be had ---
    _row(
        "all-echoed",
        Place.NOWHERE,
        _UNKNOWN,
        "new flows through {overlay} are answered by {peer}",
        echoed=ALL,
    ),
    _row(
        "overlay-device",
        Place.OVERLAY_DEVICE,
        _OUT,
        "the device {overlay} is missing or down",
        overlay=_DEAD,
    ),
    # --- above the overlay device ---
    _row(
        "route",
        Place.LOCAL_ROUTE,
        _OUT,
        "the route to {peer} does not lead into {overlay}: {route}",
        entered=LOST,
        route=NOT_RIGHT,
    ),
    _row(
        "neighbour-missing",
        Place.LOCAL_NEIGHBOUR,
        _OUT,
        "the next hop has no link layer address on {overlay}: {neighbour}",
        entered=LOST,
        neighbour=MISSING,
    ),
    _row(
        "neighbour-wrong",
        Place.LOCAL_NEIGHBOUR,
        _OUT,
        "the next hop's link layer address is not that of {via}: {neighbour}",
        neighbour=WRONG,
    ),
    _row(
        "filtered-above",
        Place.LOCAL_FILTER,
        _OUT,
        "route and neighbour are right, frames put into {overlay} pass and packets of sockets do not reach it: a filter"
        " or traffic control above {overlay}",
        entered=LOST,
        route=NOT_BAD,
        neighbour=NOT_BAD,
        injected_entered=ALL,
    ),
    # --- between the overlay device and the one below ---
    _row(
        "fdb-missing",
        Place.LOCAL_FDB,
        _OUT,
        "{overlay} does not know where to send frames for {via}: {forwarding}",
        left=LOST,
        forwarding=MISSING,
    ),
    _row(
        "fdb-wrong",
        Place.LOCAL_FDB,
        _OUT,
        "{overlay} sends frames for {via} to another node: {forwarding}",
        forwarding=WRONG,
    ),
    _row(
        "underlay-route",
        Place.UNDERLAY_ROUTE,
        _OUT,
        "there is no route for outer packets to {via}: {underlay_route}",
        left=LOST,
        underlay_route=NOT_RIGHT,
    ),
    _row(
        "nic",
        Place.NIC,
        _OUT,
        "{lower} is down or has no carrier",
        left=LOST,
        lower=_NO_LIGHT,
    ),
    _row(
        "arp",
        Place.UNDERLAY_ARP,
        _OUT,
        "nobody answers ARP for the outer packets' next hop on {lower}: {underlay_neighbour}",
        left=LOST,
        arp=MISSING,
    ),
    _row(
        "overlay-silent",
        Place.OVERLAY_DEVICE,
        _OUT,
        "every table is right and complete packets made by hand leave {lower}, but {overlay} sends nothing",
        left=LOST,
        crafted_left=ALL,
    ),
    _row(
        "netfilter",
        Place.LOCAL_NETFILTER,
        _OUT,
        "outer packets die between IP and {lower}: frames put right into {lower} leave, what passes netfilter does not",
        left=LOST,
        crafted_left=LOST,
        framed_left=ALL,
    ),
    _row(
        "queue",
        Place.LOCAL_QDISC,
        _OUT,
        "even frames put right into {lower} do not leave it: its queue, traffic control or egress filter drops them",
        left=LOST,
        crafted_left=UNTRIED_OR_LOST,
        framed_left=LOST,
    ),
    _row(
        "queue-counted",
        Place.LOCAL_QDISC,
        _OUT,
        "the queue of {lower} has dropped as many packets as are missing",
        left=LOST,
        queue_drops=frozenset({True}),
    ),
    _row(
        "between-devices",
        Place.LOCAL_NETFILTER,
        _OUT,
        "packets enter {overlay} and do not leave {lower}; which part between them drops them could not be found",
        (Place.OVERLAY_DEVICE, Place.LOCAL_QDISC),
        left=LOST,
    ),
    # --- beyond the NIC, told by the other side's taps ---
    _row(
        "wire-out",
        Place.WIRE,
        _OUT,
        "packets leave {lower} and never reach the NIC of {via}: the network between them, or what is below this NIC",
        left=PASSES | NOT_SEEN,
        peer_heard=LOST,
    ),
    _row(
        "peer-ingress",
        Place.PEER_INGRESS,
        _OUT,
        "packets reach the NIC of {via} and not its overlay device: a filter there, or a wrong VNI or port",
        peer_heard=ALL,
        peer_took=LOST,
    ),
    _row(
        "peer-overlay",
        Place.PEER_OVERLAY,
        _OUT,
        "packets come out of the overlay device of {via} and no answer goes into it: a wrong MAC, a filter, or what is"
        " behind {via}",
        peer_took=ALL,
        peer_answered=LOST,
    ),
    _row(
        "peer-egress",
        Place.PEER_EGRESS,
        _IN,
        "answers enter the overlay device of {via} and do not leave its NIC: bisect from there",
        peer_answered=PASSES,
        peer_replied=LOST,
    ),
    _row(
        "wire-in",
        Place.WIRE,
        _IN,
        "answers leave the NIC of {via} and never reach {lower}: the network between them, or what is below that NIC",
        peer_replied=PASSES,
        came_back=LOST,
    ),
    # --- on the way back in ---
    _row(
        "ingress",
        Place.LOCAL_INGRESS,
        _IN,
        "answers reach {lower} and not {overlay}: a filter here, or a wrong VNI or port",
        came_back=PASSES,
        delivered=LOST,
    ),
    _row(
        "delivery",
        Place.LOCAL_INGRESS,
        _IN,
        "answers come out of {overlay} and do not reach their socket: a filter, rp_filter, or a wrong MAC",
        came_back=ALL,
        delivered=ALL | NOT_SEEN,
        echoed=LOST,
    ),
    # --- beyond the NIC, with one side's taps only ---
    _row(
        "offload",
        Place.OVERLAY_DEVICE,
        _OUT,
        "packets made by hand are answered, those of {overlay} leave {lower} as well and are not: what it sends is"
        " wrong (checksum left to the NIC, VNI, MAC)",
        left=ALL,
        echoed=NONE,
        came_back=LOST,
        crafted_echoed=ALL,
    ),
    _row(
        "new-flows",
        Place.WIRE,
        _UNKNOWN,
        "packets leave {lower}, established flows are answered and new ones are not: a flow table in the network, or a"
        " connection table on {via}",
        _BEYOND,
        left=ALL,
        came_back=LOST,
        known=ALL,
    ),
    _row(
        "overlay-beyond",
        Place.WIRE,
        _UNKNOWN,
        "packets leave {lower} and no answer comes back, while {via} answers without the overlay: something that knows"
        " overlay packets from others",
        _BEYOND,
        left=ALL,
        came_back=LOST,
        underlay_echoed=ALL,
    ),
    _row(
        "all-beyond",
        Place.WIRE,
        _UNKNOWN,
        "packets leave {lower}, and {via} answers neither with nor without the overlay: the network, or that node",
        (Place.PEER_INGRESS,),
        left=ALL,
        came_back=LOST,
        underlay_left=ALL,
        underlay_echoed=LOST,
    ),
    _row(
        "beyond-tunnel",
        Place.WIRE,
        _UNKNOWN,
        "packets enter {overlay} and no answer comes out of it; what is below it cannot be seen from outside",
        (Place.OVERLAY_DEVICE, *_BEYOND),
        entered=ALL,
        left=NOT_SEEN,
        came_back=LOST,
    ),
    _row("unknown", Place.UNKNOWN, _UNKNOWN, "this combination of evidence has no explanation in the table"),
)


def find_row(signs: Signs) -> Row:
    """The first row that the signs satisfy."""
    for row in ROWS:
        if all(getattr(signs, name) in allowed for name, allowed in row.when.items()):
            return row
    raise AssertionError("the last row looks at nothing")


def explain_row(row: Row, seen: Observation) -> str:
    """What the row says of this run."""
    return row.says.format(
        peer=seen.peer,
        via=seen.via,
        overlay=seen.overlay or "the overlay device",
        lower=seen.lower or "the NIC",
        route=seen.route.text,
        neighbour=seen.neighbour.text,
        forwarding=seen.forwarding.text,
        underlay_route=seen.underlay_route.text,
        underlay_neighbour=seen.underlay_neighbour.text,
    )
