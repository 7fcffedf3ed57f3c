"""An operator reads where the mesh is known from, and what to do where it is not."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.render_knowledge import explain_idleness, render_knowledge
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.ids import NodeName
from meshwatchd.model.status import Knowledge
from tests.support.example_status import HEALTHY


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


@pytest.mark.parametrize(
    ("knowledge", "rejected", "words"),
    [
        (None, "", "the mesh is not known yet"),
        (None, "no device kilo0 on this node", "no device kilo0 on this node"),
        (Knowledge(origin="nothing", nodes=1, problems=("set it", "more")), "no device kilo0", "set it"),
        (Knowledge(origin="nothing", nodes=1), "", "start meshwatchd there with the same key"),
        (Knowledge(origin="hellos", nodes=3), "", "all 3 nodes that are known are in one location"),
    ],
)
def test_a_node_that_watches_nothing_says_why_and_what_to_do(knowledge, rejected, words):
    """What stands in the way of a mesh comes first, then what the engine does without, then who is not there."""
    status = msgspec.structs.replace(HEALTHY, pairs=(), knowledge=knowledge, rejected=rejected)

    assert words in explain_idleness(status)
