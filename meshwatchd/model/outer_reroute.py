"""Outer packets of an overlay that go to one node through a neighbour: what is asked for it, and what is answered.

    e1 ----- the way of its own, dead ----> w1
    e1 --> e2, a node on the same network --> w1      the outer packets to this one address, while that way is dead

A round asks four things, each in a flow of its own that the network has not seen.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

TRIED_SLOT, REROUTED_SLOT = 96, 97
"""Places of two tables among the first hundred: routes that questions alone follow, and those of outer packets."""


class Way(StrEnum):
    """How a question goes.

    DIRECT: to the node's own address, past every rule of ours.
    RELAYED: to the same address, through the neighbour that is tried or in use.
    OVERLAY: to the node's address among its pods, inside of outer packets.
    VOUCHED: to a neighbour, which asks the node at both of its addresses and reports.
    """

    DIRECT = "direct"
    RELAYED = "relayed"
    OVERLAY = "overlay"
    VOUCHED = "vouched"


class FarNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of another cluster: its own address, and its address among its pods."""

    name: str
    address: str
    overlay: str


class Relay(msgspec.Struct, frozen=True, kw_only=True):
    """A node on this node's own network.

    Attributes:
        device: that leads to this network.
        source: this node's own address on it.
    """

    name: str
    address: str
    device: str
    source: str


class WayQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a round.

    Attributes:
        node: the node of another cluster that it is about.
        relay: VOUCHED: whom it goes to.
        is_full: it fills a packet of the device's size, as outer packets do.
    """

    way: Way
    node: str
    relay: str = ""
    is_full: bool = False


class WayAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back.

    Attributes:
        seen: the source address that the request arrived with.
        is_reached: VOUCHED: the neighbour reaches the node directly, and in the overlay.
        is_willing: VOUCHED: it forwards packets, and nobody has taken it out of service.
    """

    seen: str = ""
    is_reached: bool = True
    is_willing: bool = True
