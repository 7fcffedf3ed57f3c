"""Pages of `meshwatchctl report` in headless Chromium: all can be read, and what is broken is seen."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest

from meshwatchd.adapters.control.explain import explain
from meshwatchd.adapters.control.history import read_incidents
from meshwatchd.cli.report_page import render_page
from meshwatchd.cli.report_svg import COLOURS
from meshwatchd.model.ids import FlowClass, Layer
from tests.support.browser import Box, look_at
from tests.support.example_incidents import HISTORY_LINES
from tests.support.example_status import HEALTHY, INCIDENT, MOVED, NOW_NS, STUCK, session

NIGHT = msgspec.structs.replace(read_incidents(HISTORY_LINES, 1)[0], events=tuple(HISTORY_LINES))
ALL_LAYERS = msgspec.structs.replace(
    MOVED,
    sessions=(
        *MOVED.sessions,
        session(Layer.IPIP, "b1", 0xFFFF, FlowClass.FRESH, "up", 0),
        *(session(layer, "b2", 0xFFFF, FlowClass.FRESH, "up", 0) for layer in (Layer.UNDERLAY, Layer.OVERLAY)),
    ),
)
PAGES = {
    "healthy": render_page(HEALTHY, None, explain(HEALTHY, ()), now_ns=NOW_NS),
    "moved": render_page(MOVED, None, explain(MOVED, INCIDENT), now_ns=NOW_NS),
    "all layers": render_page(ALL_LAYERS, None, explain(ALL_LAYERS, INCIDENT), now_ns=NOW_NS),
    "stuck": render_page(STUCK, None, explain(STUCK, ()), now_ns=NOW_NS),
    "incident": render_page(MOVED, NIGHT, now_ns=NOW_NS),
}
MARK = "#c62828"


def _meet(one: Box, other: Box) -> bool:
    return min(one[2], other[2]) - max(one[0], other[0]) > 1 and min(one[3], other[3]) - max(one[1], other[1]) > 1


@pytest.mark.parametrize("width", [400, 1040])
@pytest.mark.parametrize("name", list(PAGES))
def test_all_of_it_can_be_read(name, width, tmp_path):
    """Nothing is wider than the window, no two texts of a drawing share a pixel, and none leaves it.

    Also on the telephone of somebody who was woken.
    """
    seen = look_at(PAGES[name], tmp_path, width=width, height=600)
    assert width >= seen.width
    assert seen.drawings
    for drawing in seen.drawings:
        assert [] == [(a, b) for (a, one), (b, other) in combinations(drawing.texts, 2) if _meet(one, other)]
        left, top, right, bottom = drawing.box
        assert [] == [
            text for text, box in drawing.texts if box[0] < left or box[1] < top or box[2] > right or box[3] > bottom
        ]


def test_the_broken_node_is_red_and_the_path_in_use_green(tmp_path):
    """By the pixels: of a style sheet that is not applied nothing would be seen."""
    seen = look_at(PAGES["moved"], tmp_path, width=1040, height=700)
    (drawing,) = seen.drawings
    ((left, top, _, bottom),) = drawing.culprits
    assert MARK == seen.picture.colour(left, (top + bottom) / 2)
    used = {seen.picture.colour(drawing.box[0] + 440, y) for y in range(round(drawing.box[1]), round(drawing.box[3]))}
    assert COLOURS["good"] in used

    healthy = look_at(PAGES["healthy"], tmp_path, width=1040, height=700)
    assert () == healthy.drawings[0].culprits
