"""What daemons have told since Kilo changed something: who followed, who was accused, who moved.

Questions to the event logs only; `kilo_agents` makes the changes. Used by the tests and by `bench_leaders`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from netnslab.daemons import Event
from netnslab.waiting import wait_until

Told = Callable[[int], Sequence[Event]]
"""All facts of all daemons since an instant (CLOCK_MONOTONIC, ns)."""

FOLLOW_TIMEOUT_S = 20.0


def follow(told: Told, since_ns: int, leader: str, nodes: Collection[str]) -> dict[str, int]:
    """Wait until the engine of each node has taken over a mesh that this node leads; nanoseconds each has taken.

    Raises:
        LabError: somebody has not.
    """
    taken = wait_until(
        partial(_followed, told, since_ns, leader, nodes),
        timeout_s=FOLLOW_TIMEOUT_S,
        what=f"{', '.join(nodes)} to follow {leader}",
        poll_s=0.3,
    )
    return {node: taken[node] - since_ns for node in nodes}


def _followed(told: Told, since_ns: int, leader: str, nodes: Collection[str]) -> Mapping[str, int]:
    words = f"is led by {leader} instead of"
    found = {
        event.node: event.at_ns
        for event in told(since_ns)
        if event.name == "topology.changed" and any(words in str(text) for text in _texts(event))
    }
    return found if set(nodes) <= found.keys() else {}


def _texts(event: Event) -> Sequence[object]:
    what = event.fields["what"]
    return what if isinstance(what, list) else ()


def accusations(events: Sequence[Event]) -> list[str]:
    """Whatever was called broken for traffic, by whom, of whom."""
    return [
        f"{each.node}: {each.fields.get('fault')} at {each.fields.get('culprit')}"
        for each in events
        if each.name in ("verdict.changed", "fault.raised") and each.fields.get("severity") == "critical"
    ]


def moves(events: Sequence[Event]) -> list[str]:
    """Who wanted to go another way, or went."""
    names = ("failover.proposed", "failover.applied", "failover.advised")
    return [f"{each.node}: {each.name}" for each in events if each.name in names]
