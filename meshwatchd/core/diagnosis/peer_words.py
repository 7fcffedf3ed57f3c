"""What the words of peers about their own legs prove of one pair of locations."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from meshwatchd.core.diagnosis.evidence import Leg
from meshwatchd.core.diagnosis.peer_views import LOST_NS, OUTDATED_NS, PeerViews, View
from meshwatchd.model.ids import NodeName
from meshwatchd.model.topology import Path, Topology

VIEW_SETTLE_NS = 350_000_000
"""A peer needs as long as we did to notice that one of its legs is dead; until then its good news is old news."""

NEIGHBOURS_NS, NEIGHBOURS_LATE_NS = 1_500_000_000, 4_000_000_000
"""How long a node waits for its neighbours to find out that they do not reach another cluster either: at rest most of
them ask seldom, and who has not said a word since may have no daemon."""

VOUCH_NS = 5_000_000_000
"""How old a word for the primary path may be: in large meshes a node speaks of one window of pairs after the other."""


class PeerWords:
    """Those who have something to say of a pair.

    Attributes:
        witnesses: nodes of the other location beside its leader.
    """

    def __init__(self, topology: Topology, primary: Path) -> None:
        local = topology.local
        remote = primary.other_location(local.location)
        leaders = (primary.relay_in(local.location), primary.relay_in(remote))
        self._pair, self._remote_leader = primary.pair, leaders[1]
        self._neighbours = tuple(n.name for n in topology.mesh.members(local.location) if n.name != local.name)
        self._here = tuple(name for name in self._neighbours if name not in leaders)
        self.witnesses = tuple(node.name for node in topology.mesh.members(remote) if node.name not in leaders)
        self._elsewhere = tuple(
            (path.relay_in(path.other_location(remote)), path.pair)
            for path in topology.mesh.paths_of(remote)
            if path.is_primary and local.location not in path.locations
        )

    def views_of(
        self, own_leader: NodeName, views: PeerViews, *, suspected: int, answered: int, now: int
    ) -> dict[str, Leg]:
        """What peers say of their own legs since the suspicion, by the names that `Evidence` has for it.

        Args:
            own_leader: of this node.
            views: what peers have said.
            suspected: since when something speaks against the path; 0 for nothing.
            answered: when the own leader's host answered this node last.
            now: this instant.
        """
        said = partial(self._said, views, suspected=suspected, now=now)
        return {
            "own_view_overlay": said((own_leader,), View.MEMBERS_OVERLAY),
            "own_view_wireguard": said((own_leader,), View.WIREGUARD),
            "remote_view_overlay": said((self._remote_leader,), View.MEMBERS_OVERLAY),
            "remote_view_leader": self._remote_lives(views, suspected=suspected, now=now),
            "remote_view_ipip": said(self.witnesses, View.LEADER_IPIP),
            "neighbours_path": self._neighbours_path(views, suspected=suspected, now=now),
            "neighbours_leader": self._own_lives(views, suspected=suspected, answered=answered, now=now),
        }

    def _own_lives(self, views: PeerViews, *, suspected: int, answered: int, now: int) -> Leg:
        """Whether the own leader is alive, by the word of a neighbour whose probes its host answers.

        The word of one that doubts the path, or says nothing of it, does not count. A dead leader is doubted by all:
        one doubt is enough until everybody has had the time to notice. A word from before the leader's last answer here
        proves nothing; only where that is a moment ago need it not be younger.
        """
        if not suspected:
            return Leg.UNKNOWN
        since = max(suspected, min(answered, now - LOST_NS), now - OUTDATED_NS)
        words = [
            tuple(views.read(peer, self._pair, view, since=since) for view in (View.LEADER_UNDERLAY, View.RELAY_PATH))
            for peer in self._here
        ]
        is_doubted = _is_old_news(suspected, now) and any(path is Leg.DEAD for _, path in words)
        is_heard = any(leader is path is Leg.ALIVE for leader, path in words)
        return Leg.ALIVE if is_heard and not is_doubted else Leg.UNKNOWN

    def _said(self, views: PeerViews, peers: Iterable[str], view: View, *, suspected: int, now: int) -> Leg:
        """What peers heard since the suspicion say, but for good news from before they can have noticed the fault."""
        said = {views.read(peer, self._pair, view, since=suspected) for peer in peers}
        if Leg.DEAD in said:
            return Leg.DEAD
        return Leg.UNKNOWN if Leg.ALIVE not in said or _is_old_news(suspected, now) else Leg.ALIVE

    def _remote_lives(self, views: PeerViews, *, suspected: int, now: int) -> Leg:
        """Whether the remote leader is alive, by its neighbours' word.

        One without neighbours lives by the word of other leaders: one tunnel to it that is alive proves it, all dead
        condemn it.
        """
        if self.witnesses:
            return self._said(views, self.witnesses, View.LEADER_UNDERLAY, suspected=suspected, now=now)
        words = {views.read(peer, pair, View.WIREGUARD, since=suspected) for peer, pair in self._elsewhere}
        if Leg.ALIVE in words:
            return Leg.UNKNOWN if _is_old_news(suspected, now) else Leg.ALIVE
        return Leg.DEAD if words == {Leg.DEAD} else Leg.UNKNOWN

    def _neighbours_path(self, views: PeerViews, *, suspected: int, now: int) -> Leg:
        """What the other nodes of this location say of the path, where each of them reaches the other one by itself.

        That one does not is known at once. That nobody else misses it takes until all have looked. At rest nobody asks.
        """
        if not suspected:
            return Leg.UNKNOWN
        words = {views.read(peer, self._pair, View.RELAY_PATH, since=suspected) for peer in self._neighbours}
        if Leg.DEAD in words:
            return Leg.DEAD
        are_all_heard = all(views.was_heard(peer, since=suspected) for peer in self._neighbours)
        if now - suspected < (NEIGHBOURS_NS if are_all_heard else NEIGHBOURS_LATE_NS):
            return Leg.UNKNOWN
        return Leg.ALIVE if Leg.ALIVE in words else Leg.DEAD

    def members_ipip(self, views: PeerViews, since: int) -> Leg:
        """What this leader's members agree on: one of them alone may have a fault of its own."""
        said = {views.read(peer, self._pair, View.LEADER_IPIP, since=since) for peer in self._neighbours}
        said.discard(Leg.UNKNOWN)
        return said.pop() if len(said) == 1 else Leg.UNKNOWN

    def vouch(self, views: PeerViews, own: Iterable[Leg], now: int) -> bool:
        """Whether nodes behind both leaders say that the primary path works, and none says that it does not.

        The leaders' own probes cross no overlay, and those of any other relay only its own. A location whose members
        are all silent, or that has none, is asked nothing.
        """
        return self._is_fine(self._here, own, views, now) and self._is_fine(self.witnesses, (), views, now)

    def _is_fine(self, members: Iterable[NodeName], said: Iterable[Leg], views: PeerViews, now: int) -> bool:
        since = now - VOUCH_NS
        heard = [name for name in members if views.was_heard(name, since=since)]
        words = [*said, *(views.read(name, self._pair, View.RELAY_PATH, since=since) for name in heard)]
        return not words or (Leg.ALIVE in words and Leg.DEAD not in words)


def _is_old_news(suspected: int, now: int) -> bool:
    return bool(suspected) and now - suspected < VIEW_SETTLE_NS
