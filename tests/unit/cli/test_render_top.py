"""One screen: what is broken, in the terminal's width, from what was seen lately."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from meshwatchd.cli.render_top import ASCII_BARS, HISTORY, Memory, render_top, sparkline
from meshwatchd.model.ids import Layer
from tests.support.example_status import HEALTHY, INCIDENT, MOVED, NOW_NS, STUCK


def screen(status=MOVED, *, size=(80, 40), events=INCIDENT, memory=None, **options):
    """The text of a screen, without colours."""
    memory = memory or Memory()
    memory.take(status)
    return render_top(status, events, memory, now_ns=NOW_NS, size=size, **options).plain


def test_a_screen_has_verdict_evidence_paths_layers_and_events():
    """All that one looks for, at once."""
    shown = screen()
    for words in (
        "WARNING  b3 in cloud, member, mode enforce",
        "to onprem  [at b1, overlay] new overlay flows die",
        "14 of the last 14 new flows",
        "> 1 b2-a1",
        "overlay      0/1 down     1/1 ok",
        "failover.verified",
        "q quit",
    ):
        assert words in shown


@pytest.mark.parametrize("size", [(80, 24), (132, 50), (40, 10), (20, 3), (0, 0)])
@pytest.mark.parametrize("mode", ["", "sessions", "events", "help"])
@pytest.mark.parametrize("status", [HEALTHY, STUCK, msgspec.structs.replace(HEALTHY, pairs=(), sessions=())])
def test_no_line_is_wider_and_no_screen_higher_than_the_terminal(size, mode, status):
    """Whatever the terminal says of itself; below forty columns nothing can be told."""
    lines = screen(status, size=size, mode=mode, events=INCIDENT * 50).split("\n")
    assert max(map(cell_len, lines)) <= max(40, size[0])
    assert len(lines) <= max(2, size[1])


def test_a_report_that_is_old_is_called_unknown():
    """An engine that stopped reporting is not ok."""
    assert screen(msgspec.structs.replace(HEALTHY, at_ns=NOW_NS - 60_000_000_000)).startswith("UNKNOWN")
    assert screen(msgspec.structs.replace(HEALTHY, pairs=())).startswith("NOT WATCHING")


def test_a_sparkline_is_low_where_it_was_low_and_empty_where_nothing_was():
    """Also where the terminal knows no bars."""
    assert "▂▅█ ▁" == sparkline([200, 450, 800, 0, 10])
    assert "_@" == sparkline([1, 100], ASCII_BARS)
    assert "" == sparkline([])


def test_losses_are_of_late_and_memory_is_bounded():
    """What was lost an hour ago is no news."""
    memory = Memory()
    for second in range(100):
        sessions = tuple(
            msgspec.structs.replace(each, sent=1000 + 10 * second, lost=50 + second) for each in HEALTHY.sessions
        )
        memory.take(msgspec.structs.replace(HEALTHY, at_ns=second + 1, sessions=sessions))
    assert 0.1 == memory.loss(Layer.OVERLAY)
    assert memory.loss(Layer.POD) is None
    assert {HISTORY} == {len(values) for values in memory.rtts.values()}


def test_the_same_status_twice_is_remembered_once():
    """A held key draws often."""
    memory = Memory()
    for _ in range(5):
        memory.take(HEALTHY)
    assert {1} == {len(values) for values in memory.rtts.values()}


def test_sessions_do_not_flood_the_tail_of_events():
    """A leg that flaps says so in the table; the key for events shows all of them."""
    assert "session.suspected" not in screen()
    assert "session.suspected" in screen(mode="events")
