"""What fits into a banner: the pairs of locations by sixes, in a mesh that has more than six pair numbers.

The mesh TLV has 32 bits of views and eight paths, whatever the mesh. In a mesh of few locations that is all there is
to say, and a banner's window is 0. In a bigger one each packet carries one *window*: six pairs, their views and the
paths in use, and which six they are.

    to another location      the window of the pair that the two have in common: nothing else concerns it
    to a neighbour           one window after the other, since it has the same pairs

A receiver puts the windows together again (`diagnosis.peer_views`). As long as all nodes agree on the number of
locations they agree on what windows mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshwatchd.model.events import Banner
from meshwatchd.model.ids import NodeName
from meshwatchd.model.topology import COUNTED_LOCATIONS, Topology, pair_number

WINDOW_BITS = 32
WINDOW_PAIRS = 6
PAIR_BITS = 5
_PAIRS_MASK = (1 << WINDOW_PAIRS * PAIR_BITS) - 1
_NODE_MASK = ((1 << WINDOW_BITS) - 1) & ~_PAIRS_MASK
"""The bits of the first window that are about the node and no pair: every window carries them.

Source: `failover.topology_change_hold`.
"""

IN_TURN = -1
"""Stands for one window after the other."""


def bit_of(pair: int, view: int) -> int:
    """The bit of a pair's leg in the banner's masks."""
    window, place = divmod(pair, WINDOW_PAIRS)
    return WINDOW_BITS * window + PAIR_BITS * place + view


def windows(locations: int) -> int:
    """How many windows a mesh of so many locations needs; 0 where everything fits into one banner."""
    return -(-locations // WINDOW_PAIRS) if locations > COUNTED_LOCATIONS else 0


def cut(banner: Banner, window: int) -> Banner:
    """One window of a banner as a receiver has it; the whole of it for window 0."""
    if not window:
        return banner
    mask = _PAIRS_MASK << WINDOW_BITS * (window - 1) | _NODE_MASK
    pairs = range((window - 1) * WINDOW_PAIRS, window * WINDOW_PAIRS)
    return Banner(
        view_up=banner.view_up & mask,
        view_known=banner.view_known & mask,
        active=tuple(active for active in banner.active if active.pair in pairs),
        is_admin_down=banner.is_admin_down,
        has_misfit=banner.has_misfit,
        window=window,
    )


def to_window(mask: int, window: int) -> int:
    """The 32 bits of a window out of a banner's mask."""
    if not window:
        return mask
    return mask >> WINDOW_BITS * (window - 1) & _PAIRS_MASK | mask & _NODE_MASK


def from_window(bits: int, window: int) -> int:
    """The mask that a window's 32 bits stand for; the inverse of `to_window` for what was cut."""
    return bits if not window else (bits & _PAIRS_MASK) << WINDOW_BITS * (window - 1) | bits & _NODE_MASK


def windows_of(topology: Topology) -> dict[NodeName, int]:
    """Which window each other node is told: 0 for all there is, IN_TURN for one after the other."""
    if not windows(len(topology.mesh.locations)):
        return {}
    shared = shared_pairs(topology)
    return {
        node.name: shared[node.name] // WINDOW_PAIRS + 1 if node.name in shared else IN_TURN
        for node in topology.mesh.nodes
    }


def shared_pairs(topology: Topology) -> Mapping[NodeName, int]:
    """The only pair that each node of another location has in common with this one.

    Of others it may speak by a number that is this node's for another pair. Empty in a mesh of few locations, where no
    number stands for two pairs.
    """
    mesh, home = topology.mesh, topology.local.location
    names = [location.name for location in mesh.locations]
    if not windows(len(names)):
        return {}
    own = names.index(home)
    pair = {
        name: pair_number(min(own, place), max(own, place), len(names))
        for place, name in enumerate(names)
        if place != own
    }
    return {node.name: pair[node.location] for node in mesh.nodes if node.location != home}


NEWS_TURNS = 64
"""For so many packets every other one carries what has changed lately."""


class Parts:
    """A banner as it is told to each node.

    Args:
        told: which of them each node is told, as `windows_of` has it.
        before: what was said until then; what has changed since is told first.

    Attributes:
        windows: what there is to say, in parts.
        turns: which of them each neighbour was told last in turn.
    """

    def __init__(self, banner: Banner, told: Mapping[NodeName, int], before: Parts | None = None) -> None:
        count = max(told.values(), default=1)
        self.windows = tuple(cut(banner, window) for window in range(1, count + 1))
        self._told = told
        said = dict(enumerate(before.windows if before is not None else ()))
        changed = tuple(place for place, each in enumerate(self.windows) if said.get(place) != each)
        self._news = changed if len(changed) < count else ()
        self._said: dict[NodeName, int] = {}
        self.turns: dict[NodeName, int] = {} if before is None else before.turns

    def is_in_turn(self, peer: NodeName) -> bool:
        """Whether a node is told one window after the other."""
        return self._told.get(peer, IN_TURN) == IN_TURN

    def window(self, peer: NodeName) -> int:
        """The place among the windows of what that node is told by the next packet; each call is a packet."""
        told = self._told.get(peer, IN_TURN)
        if told != IN_TURN:
            return told - 1
        said = self._said[peer] = self._said.get(peer, -1) + 1
        if self._news and said < NEWS_TURNS and said % 2 == 0:
            return self._news[said // 2 % len(self._news)]
        turn = self.turns[peer] = (self.turns.get(peer, -1) + 1) % len(self.windows)
        return turn
