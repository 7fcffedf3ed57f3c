"""Where the mesh is known from, in a line, and what stands in its way."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.cli.text import Paint
from meshwatchd.model.status import Knowledge, Status

_ORIGINS = {
    "declared": "the mesh is declared in the configuration",
    "hellos": "the mesh was found by hellos",
    "cache": "the mesh is remembered, nobody has been heard yet",
    "nothing": "the mesh is not known yet",
}


def explain_idleness(status: Status) -> str:
    """Why a node watches nothing, with the remedy.

    What stands in the way of a mesh comes first: without it nothing else can be said of the mesh.
    """
    knowledge = status.knowledge
    if knowledge is not None and knowledge.problems:
        return knowledge.problems[0]
    if status.rejected:
        return status.rejected
    if knowledge is None:
        return "the mesh is not known yet"
    if knowledge.nodes == 1:
        return (
            "no other node has been heard; start meshwatchd there with the same key, let its UDP ports pass, or name"
            " a node in discovery.peers"
        )
    return (
        f"all {knowledge.nodes} nodes that are known are in one location; start meshwatchd in another one, or set"
        " discovery.location where a node is elsewhere"
    )


def render_knowledge(knowledge: Knowledge, paint: Paint) -> Iterator[str]:
    """One line, and one for each problem."""
    origin = _ORIGINS.get(knowledge.origin, knowledge.origin)
    yield paint(f"{origin}; {knowledge.nodes} {'node' if knowledge.nodes == 1 else 'nodes'} known", "dim")
    if knowledge.unheard and knowledge.origin == "hellos":
        yield f"not heard yet: {', '.join(knowledge.unheard)}"
    yield from knowledge.problems
