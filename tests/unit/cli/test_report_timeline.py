"""The timeline: each leg that changed, the verdicts, the moves, and the outage."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec

from meshwatchd.adapters.control.history import read_incidents
from meshwatchd.cli.report_timeline import MAX_ROWS, draw_timeline
from meshwatchd.core.operators.incidents import instant
from tests.support.example_incidents import FALLEN, HISTORY_LINES

(NIGHT,) = read_incidents(HISTORY_LINES, 1)
SVG = "{http://www.w3.org/2000/svg}"


def test_legs_verdicts_moves_and_the_outage_are_drawn():
    """The outage from the last answer to the move, in the scale of the picture."""
    root = ET.fromstring(draw_timeline(NIGHT))
    texts = ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]
    assert any(text == "relay to a3 rank 0 established" for text in texts)
    assert {"undetermined", "moved to rank 1", "none", "moved to rank 0"} <= set(texts)

    shades = [each for each in root.iter(f"{SVG}rect") if each.attrib.get("opacity")]
    instants = [instant(each) for each in NIGHT.events]
    span_ns = max(instants) - min(instants) + 10**9
    assert [round(190e6 / span_ns * 710)] == [round(float(each.attrib["width"])) for each in shades]


def test_without_sessions_there_is_no_picture():
    """An entry of a device has no probes."""
    assert "" == draw_timeline(msgspec.structs.replace(NIGHT, events=()))


def test_a_thousand_legs_are_bounded():
    """A page has an end."""
    events = tuple({**FALLEN, "session": number, "peer": f"<n{number}>"} for number in range(1000))
    picture = draw_timeline(msgspec.structs.replace(NIGHT, events=events))
    assert MAX_ROWS == sum(
        each.text is not None and "<n" in each.text for each in ET.fromstring(picture).iter(f"{SVG}text")
    )


def test_a_close_up_shows_the_first_moments_alone():
    """Of an incident of hours the failover would be a line of one pixel."""
    near = draw_timeline(NIGHT, close_up_ns=500_000_000)
    assert "moved to rank 1" in near
    assert "moved to rank 0" not in near
