"""The drawing: well formed, everything inside, the broken one marked."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec
import pytest

from meshwatchd.cli.report_svg import WIDTH, Broken, draw_mesh
from meshwatchd.model.ids import NodeName
from tests.support.example_status import HEALTHY, MOVED, STUCK

SVG = "{http://www.w3.org/2000/svg}"


def _texts(picture: str) -> list[str]:
    return ["".join(each.itertext()) for each in ET.fromstring(picture).iter(f"{SVG}text")]


@pytest.mark.parametrize("status", [HEALTHY, MOVED, STUCK, msgspec.structs.replace(HEALTHY, pairs=())])
def test_drawings_are_well_formed_and_inside_their_frame(status):
    """Whatever the state."""
    root = ET.fromstring(draw_mesh(status))
    height = float(root.attrib["height"])
    for each in root.iter(f"{SVG}rect"):
        if "x" in each.attrib:
            assert 0 <= float(each.attrib["x"]) <= WIDTH - float(each.attrib["width"])
            assert float(each.attrib["y"]) + float(each.attrib["height"]) <= height


def test_nodes_paths_and_layers_are_named():
    """Each relay once, this node, and the nodes of the other location that probes reach."""
    texts = _texts(draw_mesh(MOVED))
    assert {"b1", "b2", "b3", "a1", "a2", "a3", "cloud", "onprem", "underlay", "overlay"} <= set(texts)
    assert any("rank 1 b2-a1 good, in use" in " ".join(text.split()) for text in texts)


def test_the_broken_node_is_marked_and_the_broken_layer_cut():
    """By the verdict; of a healthy mesh nothing is, unless an incident says what was."""
    assert 1 == draw_mesh(MOVED).count('class="culprit"')
    assert 0 == draw_mesh(HEALTHY).count('class="culprit"')
    marked = draw_mesh(HEALTHY, Broken("leader-dead", "underlay", "b1"))
    assert 1 == marked.count('class="culprit"')
    assert "leader-dead" in _texts(marked)


def test_names_cannot_break_out_of_the_picture():
    """They come from other nodes."""
    evil = msgspec.structs.replace(HEALTHY, node=NodeName("<script>&"), location="<b>")
    assert "<script>" not in draw_mesh(evil)
    assert "<script>&" in _texts(draw_mesh(evil))
