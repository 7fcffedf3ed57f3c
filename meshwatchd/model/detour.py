"""The way of a node around its own leg to the leader, by the network that the pods of its location have beside it.

Where the overlay of a mesh leads from members to their leader alone, and pods of the location reach each other by
another network (`Trait.DETOUR`), a member can hand what it sends to other locations to any node of its location by
that one: the leader, or another member, which sends it on by its own leg. Answers come by neither. So nobody else has
to know of it, and nothing that keeps state on the way (addresses of services, NAT) is another node than before.
"""

from __future__ import annotations

from typing import Final

import msgspec

from meshwatchd.model.ids import NodeName

MAX_DETOURS: Final = 3
"""By the leader, and by two others: a location in which the legs of all three are broken has another fault."""

DETOUR_PAIR: Final = -2
"""In the place of a pair of locations, of a change of the kernel that is about a detour."""

_FIRST_PATH: Final = 480
"""Behind the numbers of all paths that there may be; `port_map` has room for the ports of three more."""


class Detour(msgspec.Struct, frozen=True, kw_only=True):
    """One way around.

    Attributes:
        place: below MAX_DETOURS; which tables and which port it has.
        relay: the node that it leads by.
        via, device: how the kernel sends to that node's address among its pods.
        prefixes: of other locations, that the mesh routes by the leg.
    """

    place: int
    relay: NodeName
    via: str
    device: str
    prefixes: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """What stands for a path in its sessions; no path has it."""
        return _FIRST_PATH + self.place

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it the same in another topology: tables are rewritten where it leads to more or to less."""
        return self.relay, self.via, self.device, str(self.place)


def is_detour(path: int) -> bool:
    """Whether the number of a session's path is that of a detour."""
    return _FIRST_PATH <= path < _FIRST_PATH + MAX_DETOURS


DETOUR_PATHS: Final = range(_FIRST_PATH, _FIRST_PATH + MAX_DETOURS)
"""What `port_map.path_port` makes ports of that leaders listen on."""
