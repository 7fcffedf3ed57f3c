"""An incident as a picture: the state of each probed leg over time, with verdicts, moves and the outage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from meshwatchd.adapters.control.incidents import Incident
from meshwatchd.cli.report_svg import COLOURS, svg_head
from meshwatchd.cli.text import render_flow
from meshwatchd.core.operators.incidents import Outage, instant
from meshwatchd.model.ids import NO_PATH
from meshwatchd.model.topology import RANKS_PER_PAIR

MAX_ROWS = 60
"""Legs that changed first; a mesh of a thousand nodes has more than a page holds."""

_LEFT, _RIGHT, _TOP, _ROW = 230, 940, 56, 16
_MARGIN_NS = 500_000_000
_MAX_LEAD_NS = 3_000_000_000

Event = Mapping[str, object]


class _Frame(NamedTuple):
    """The span of CLOCK_MONOTONIC that is drawn, the instant that counts as 0, and the height."""

    start: int
    end: int
    begin: int
    height: int

    def x(self, at_ns: int) -> float:
        """Where an instant is."""
        inside = min(max(at_ns, self.start), self.end)
        return _LEFT + (inside - self.start) * (_RIGHT - _LEFT) / max(1, self.end - self.start)


def draw_timeline(incident: Incident, *, close_up_ns: int | None = None) -> str:
    """An SVG, of `close_up_ns` after the first verdict or of all; empty where the events tell of no session."""
    events = [each for each in incident.events if instant(each)]
    legs = _legs(events)
    if not legs:
        return ""
    begin = min(map(instant, _judged(events) or events))
    start = max(min(map(instant, events)), begin - _MAX_LEAD_NS) - _MARGIN_NS
    end = max(map(instant, events)) + _MARGIN_NS
    if close_up_ns is not None:
        end = min(end, begin + close_up_ns)
        events = [each for each in events if instant(each) <= end]
        legs = _legs(events)
    height = _TOP + len(legs) * _ROW + 34
    frame = _Frame(start=start, end=end, begin=begin, height=height)
    bars = [bar for row, (name, changes) in enumerate(legs.items()) for bar in _bars(name, changes, row, frame)]
    body = [*_outages(events, frame), *bars, *_marks(events, frame), *_axis(frame)]
    return f"{svg_head(height)}{''.join(body)}</svg>"


def _judged(events: Sequence[Event]) -> list[Event]:
    return [each for each in events if each.get("event") in ("verdict.changed", "fault.raised")]


def _legs(events: Sequence[Event]) -> dict[str, list[tuple[int, str]]]:
    """The changes of each leg: a layer to a peer, over a path, by a class of flows."""
    legs: dict[str, list[tuple[int, str]]] = {}
    for each in events:
        if each.get("event") != "session.changed":
            continue
        path = each.get("path")
        over = f" rank {path % RANKS_PER_PAIR}" if isinstance(path, int) and path != NO_PATH else ""
        name = f"{each.get('layer')} to {each.get('peer')}{over} {render_flow(str(each.get('flow', '')))}"
        legs.setdefault(name, []).append((instant(each), str(each.get("state"))))
    return dict(list(legs.items())[:MAX_ROWS])


def _bars(name: str, changes: Sequence[tuple[int, str]], row: int, frame: _Frame) -> Iterator[str]:
    y = _TOP + row * _ROW
    yield f'<text class="dim" x="{_LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(name)}</text>'
    # What it was before its first change is the state that such a change leaves.
    before = {"down": "suspect", "suspect": "up"}.get(changes[0][1], "down")
    points = [(frame.start, before), *changes, (frame.end, "")]
    for (at, state), (until, _) in pairwise(points):
        width = max(1.5, frame.x(until) - frame.x(at))
        yield f'<rect x="{frame.x(at):.1f}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}"'
        yield f' fill="{COLOURS.get(state, "#b0bec5")}"><title>{escape(name)}: {escape(state)}</title></rect>'


def _outages(events: Sequence[Event], frame: _Frame) -> Iterator[str]:
    """Shaded from the last answer to the move."""
    outage = Outage()
    began: int | None = None
    for each in events:
        outage.take(each)
        if began is None and outage.since_ns is not None:
            began = outage.since_ns
        elif began is not None and outage.since_ns is None:
            yield _shade(began, instant(each), frame)
            began = None
    if began is not None:
        yield _shade(began, frame.end, frame)


def _shade(began: int, ended: int, frame: _Frame) -> str:
    left, height = frame.x(began), frame.height
    width = max(1.0, frame.x(ended) - left)
    return (
        f'<rect x="{left:.1f}" y="{_TOP - 8}" width="{width:.1f}" height="{height - _TOP - 18}" fill="#ffcdd2"'
        ' opacity="0.6"><title>traffic was lost</title></rect>'
    )


def _marks(events: Sequence[Event], frame: _Frame) -> Iterator[str]:
    """Verdicts in the upper line, moves in the lower one; what would overlap is left to the list of steps."""
    ends = [float("-inf"), float("-inf")]
    for each in events:
        name = each.get("event")
        if name == "verdict.changed":
            lane, text = 0, str(each.get("fault"))
        elif name in ("failover.applied", "failback.applied"):
            lane, text = 1, f"moved to rank {each.get('to_rank')}"
        else:
            continue
        at = frame.x(instant(each))
        colour = ("#c62828", "#1565c0")[lane]
        yield f'<line x1="{at:.1f}" y1="{_TOP - 12}" x2="{at:.1f}" y2="{frame.height - 26}" stroke="{colour}"/>'
        if at > ends[lane]:
            is_late = at > _RIGHT - 7 * len(text)
            anchor = ' text-anchor="end"' if is_late else ""
            yield f'<text class="dim" x="{at:.1f}" y="{20 + 16 * lane}"{anchor}>{escape(text)}</text>'
            ends[lane] = at + 7 * len(text)


def _axis(frame: _Frame) -> Iterator[str]:
    """Seconds since the first verdict; some ten ticks of a round length."""
    start, end, begin, height = frame.start, frame.end, frame.begin, frame.height
    wanted = (end - start) / 1e9 / 8
    step = next((each for each in _STEPS_S if each >= wanted), _STEPS_S[-1])
    first = int((start - begin) / 1e9 // step)
    for index in range(first, first + 12):
        at = begin + round(index * step * 1e9)
        if start <= at <= end:
            x = f"{frame.x(at):.1f}"
            yield f'<line x1="{x}" y1="{height - 26}" x2="{x}" y2="{height - 20}" stroke="#90a4ae"/>'
            yield f'<text class="dim" x="{x}" y="{height - 6}" text-anchor="middle">{index * step:+g} s</text>'


_STEPS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
