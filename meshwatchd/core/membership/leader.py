"""Who leads a location: the mesh decides, this only finds out, and believes it when it has held for a moment.

Kilo elects; each node tells its role when it has lasted for a while (profiles.steady). Nodes do so one after the
other, and where an agent has died the former leader goes on saying that it leads. So of all that say so

    those that were heard lately come first,
    then those that lead a location, before those of whom each leads itself,
    then those that more members of the location send their packets to,
    then the one that began later, then the first by name,

and nobody is deposed while no other one says that it leads. A node that boots may have no other device yet than a wg0
of its administrators, by which it would lead itself.

Where each node leads itself and a location has several, as with Cilium Cluster Mesh, the first by name stands for all,
dead or alive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from meshwatchd.core.membership.location import FULL, Hellos, leader_of
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MS

SETTLE_NS = 300 * MS
"""Longer than nodes differ in seeing a change; with the time that each holds its own role back, it is followed within
three seconds."""


def claimant(
    members: Iterable[NodeName], hellos: Hellos, alive: Collection[NodeName], owners: Mapping[str, NodeName]
) -> NodeName | None:
    """Who leads by the words of the members; None while nobody says so."""
    present = sorted(members)
    votes: dict[NodeName, int] = {}
    for name in present:
        chosen = leader_of(hellos[name], owners)
        if chosen is not None and name in alive:
            votes[chosen] = votes.get(chosen, 0) + 1
    claimants = [name for name in present if hellos[name].view.is_leader]
    if claimants and not any(hellos[name].view.passes_leaders for name in claimants):
        return claimants[0]  # nothing goes by way of it, and with another one all that is known would begin anew
    return min(
        claimants,
        key=lambda name: (
            name not in alive,
            hellos[name].view.granularity == FULL,
            -votes.get(name, 0),
            -hellos[name].leads_since_ns,
            name,
        ),
        default=None,
    )


class LeaderKeeper:
    """The leaders of all locations as they are believed.

    Args:
        remembered: from an earlier process: a node that boots without its peers has to know whom it followed.
    """

    def __init__(self, remembered: Mapping[LocationName, NodeName] | None = None) -> None:
        self._leaders: dict[LocationName, NodeName] = dict(remembered or {})
        self._challengers: dict[LocationName, tuple[NodeName, int]] = {}

    def settle(
        self, found: Mapping[LocationName, NodeName | None], members: Collection[NodeName], now: int
    ) -> Mapping[LocationName, NodeName]:
        """The leaders, given what the members of each location say at this moment.

        Args:
            found: by location, who leads by the members' words.
            members: everybody that is known; a leader that is forgotten leads no more.
            now: monotonic nanoseconds.
        """
        for location in [location for location in self._leaders if location not in found]:
            del self._leaders[location]
            self._challengers.pop(location, None)
        for location, name in found.items():
            current = self._leaders.get(location)
            if current is not None and current not in members:
                current = None
                del self._leaders[location]
            if name is None or name == current:
                self._challengers.pop(location, None)
            elif current is None or self._has_settled(location, name, now):
                self._leaders[location] = name
                self._challengers.pop(location, None)
        return dict(self._leaders)

    def believed(self) -> dict[LocationName, NodeName]:
        """The leaders, to be remembered."""
        return dict(self._leaders)

    def deadline(self) -> int | None:
        """When the next change will have held long enough."""
        return min((since + SETTLE_NS for _, since in self._challengers.values()), default=None)

    def _has_settled(self, location: LocationName, name: NodeName, now: int) -> bool:
        challenger = self._challengers.get(location)
        if challenger is None or challenger[0] != name:
            self._challengers[location] = (name, now)
            return False
        return now - challenger[1] >= SETTLE_NS
