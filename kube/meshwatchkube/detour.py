"""Where traffic goes while a location's leader changes, and how each process has it moved there and back.

    b3 --overlay-- b1 ===kilo0=== a1 --overlay-- a3      Kilo rewrites these devices, peers and routes
    b3 --overlay-- b2 ====mwN==== a2 --overlay-- a3      a standby link, with rules of its own before Kilo's, stays

Only a relay can move traffic to a path of its own, so each process reads in the Lease what is about to happen, and asks
the daemon of its node. It does so with a pin, which holds traffic there: daemons take the new mesh over one by one, and
one of them would else bring traffic home while another still sends by the former leader.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from meshwatchkube.actions import Action, Pin, Unpin
from meshwatchkube.memory import Change, Memory, Phase
from meshwatchkube.mesh import Mesh, Pair, Path


def steer(mesh: Mesh, memory: Memory) -> Iterator[Action]:
    """What a process asks of the daemon on its own node."""
    for pair in mesh.pairs:
        # Of one that stands at either end nothing is to be done; the other end may be about to change all the same.
        moving = (each for each in memory.changes if each.sides == pair.sides and each.phase is not Phase.STANDS)
        change = next(moving, None)
        if change is not None and pair.remote not in mesh.pins:
            yield from _pin(pair, change)
        elif change is None and pair.remote in mesh.pins:
            yield Unpin(remote=pair.remote)


def detour(pair: Pair, node: str, neighbours: Container[str]) -> tuple[str, ...]:
    """Relays of the path on which traffic is held while a node and its neighbour change places; empty without one.

    The node that is broken, or has been until lately, relays nothing. Traffic that goes around it already stays where
    it is: with the primary path broken a move from one standby to another is not free. A leader that the new path goes
    around drops its rule before the last member has moved, and sends what still comes by the primary path (22 ms, four
    flows in the laboratory). From a primary path that works a move costs nothing; then a path around the leader of the
    other location is the best, whose sessions are all made anew.

    Args:
        pair: with its paths and leaders.
        node: that gives the lead, or is to have it back.
        neighbours: all nodes of its location.
    """
    far = {relay for relay in pair.primary_relays if relay not in neighbours}
    around = paths_around(pair, node)
    if pair.active in around:
        return pair.active.relays
    untouched = [path for path in around if not far & set(path.relays)]
    best = min(untouched or around, key=lambda path: path.rank, default=None)
    return () if best is None else best.relays


def paths_around(pair: Pair, node: str) -> list[Path]:
    """The standby paths by which a node is avoided, but for those that are known to be bad."""
    return [path for path in pair.paths if path.rank and node not in path.relays and not path.is_bad]


def is_on(pair: Pair, relays: tuple[str, ...]) -> bool:
    """Whether traffic is on the standby path with these relays."""
    return pair.active is not None and pair.is_diverted and set(pair.active.relays) == set(relays)


def _pin(pair: Pair, change: Change) -> Iterator[Action]:
    standbys = (path for path in pair.paths if path.rank and set(path.relays) == set(change.via))
    path = next(standbys, None)
    if path is not None and path.is_local_relay:
        reason = f"{change.leader} is to lead {change.location} instead of {change.former}"
        yield Pin(remote=pair.remote, rank=path.rank, reason=reason)
