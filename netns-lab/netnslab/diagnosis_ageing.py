"""Whether a healthy mesh has lived: WireGuard took new keys and neighbour entries aged while it was being watched.

A mesh in which neither takes place says nothing about daemons that keep silent on both. Looked at from outside, with
wg(8) and ip(8), every few seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from netnslab.lab import Lab

LOOK_S = 5.0
"""A session lives for 120 s before new keys are taken, an entry is reachable for 15 s and more."""

LEAST_HANDSHAKES = 2

REACHABLE = "REACHABLE"
AGED = ("STALE", "DELAY", "PROBE")
"""What follows REACHABLE when its time is over: an entry in constant use is only passing through, or skips STALE
(neigh_timer_handler() in net/core/neighbour.c)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One node at one instant.

    Attributes:
        handshakes: by device and public key of the peer: when it last shook hands, in Unix seconds, 0 for never.
        neighbours: by device and address: the state, as ip(8) calls it.
    """

    node: str
    handshakes: Mapping[tuple[str, str], int]
    neighbours: Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ageing:
    """What has aged while it was watched.

    Attributes:
        handshakes: by node, device and the beginning of the peer's key: how often it has shaken hands anew.
        stale: how often a neighbour entry that was reachable was found aged.
        renewed: how often an aged one was found reachable again.
    """

    handshakes: Mapping[str, int]
    stale: int
    renewed: int

    @property
    def is_shown(self) -> bool:
        """Whether each peer that talks at all has taken new keys twice, and an entry has aged."""
        counts = self.handshakes.values()
        return bool(counts) and min(counts) >= LEAST_HANDSHAKES and self.stale > 0


def look(lab: Lab) -> tuple[Look, ...]:
    """All nodes of a lab."""
    found = []
    for node in lab.topology.nodes:
        place = lab.node(node)
        found.append(
            Look(
                node=node,
                handshakes=parse_handshakes(place.run(["wg", "show", "all", "latest-handshakes"]).stdout),
                neighbours=parse_neighbours(place.run(["ip", "-json", "-4", "neigh", "show"]).stdout),
            )
        )
    return tuple(found)


def parse_handshakes(text: str) -> dict[tuple[str, str], int]:
    """The lines of `wg show all latest-handshakes`: device, key, seconds."""
    rows = [line.split("\t") for line in text.splitlines()]
    return {(row[0], row[1]): int(row[2]) for row in rows if len(row) == 3}


def parse_neighbours(text: str) -> dict[tuple[str, str], str]:
    """The answer of `ip -json neigh show`."""
    return {(each["dev"], each["dst"]): each["state"][0] for each in json.loads(text or "[]") if each.get("state")}


def age(looks: Iterable[Sequence[Look]]) -> Ageing:
    """What changed from one look at all nodes to the next; peers that have never shaken hands are left out."""
    handshakes: dict[str, int] = {}
    stale = renewed = 0
    before: dict[str, Look] = {}
    for nodes in looks:
        for present in nodes:
            last = before.get(present.node)
            for (device, key), at_s in present.handshakes.items():
                name = f"{present.node} {device} {key[:8]}"
                if at_s:
                    is_new = last is not None and last.handshakes.get((device, key)) not in (None, at_s)
                    handshakes[name] = handshakes.get(name, 0) + is_new
            if last is not None:
                shared = [
                    (last.neighbours[key], state) for key, state in present.neighbours.items() if key in last.neighbours
                ]
                stale += sum(was == REACHABLE and state in AGED for was, state in shared)
                renewed += sum(was in AGED and state == REACHABLE for was, state in shared)
            before[present.node] = present
    return Ageing(handshakes=handshakes, stale=stale, renewed=renewed)
