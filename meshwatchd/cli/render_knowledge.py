"""Where the mesh is known from, in a line, and what stands in its way."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.cli.text import Paint
from meshwatchd.model.status import Knowledge

_ORIGINS = {
    "declared": "the mesh is declared in the configuration",
    "hellos": "the mesh was found by hellos",
    "cache": "the mesh is remembered, nobody has been heard yet",
    "nothing": "the mesh is not known yet",
}


def render_knowledge(knowledge: Knowledge, paint: Paint) -> Iterator[str]:
    """One line, and one for each problem.

    Args:
        knowledge: of the status.
        paint: colours.
    """
    origin = _ORIGINS.get(knowledge.origin, knowledge.origin)
    yield paint(f"{origin}; {knowledge.nodes} {'node' if knowledge.nodes == 1 else 'nodes'} known", "dim")
    if knowledge.unheard and knowledge.origin == "hellos":
        yield f"not heard yet: {', '.join(knowledge.unheard)}"
    yield from knowledge.problems
