"""An operator reads where the mesh is known from, and what to do where it is not."""

from __future__ import annotations

import pytest

from meshwatchd.cli.render_knowledge import render_knowledge
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.ids import NodeName
from meshwatchd.model.status import Knowledge


@pytest.mark.parametrize(
    ("knowledge", "lines"),
    [
        (Knowledge(origin="declared", nodes=6), ["the mesh is declared in the configuration; 6 nodes known"]),
        (
            Knowledge(origin="hellos", nodes=6, unheard=(NodeName("b3"),), problems=("no standby link",)),
            ["the mesh was found by hellos; 6 nodes known", "not heard yet: b3", "no standby link"],
        ),
        (
            Knowledge(origin="cache", nodes=2, unheard=(NodeName("b3"),)),
            ["the mesh is remembered, nobody has been heard yet; 2 nodes known"],
        ),
        (Knowledge(origin="nothing", nodes=1), ["the mesh is not known yet; 1 node known"]),
    ],
)
def test_each_origin_has_its_words(knowledge, lines):
    """A list of everybody would tell nothing that "nobody" does not."""
    assert lines == list(render_knowledge(knowledge, paint_nothing))
