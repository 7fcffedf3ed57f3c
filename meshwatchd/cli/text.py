"""Words, columns and colours shared by what meshwatchctl prints."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence

Paint = Callable[[str, str], str]
"""Gives a text the colour of a role: a severity, a state, or "dim"."""

_ENTRY_CHARACTERS, _LABEL_CHARACTERS = 110, 8

STALE_NS = 5_000_000_000
"""The engine reports each second; after five it has a reason not to."""

_COLOURS = {
    "ok": "32",
    "good": "32",
    "up": "32",
    "info": "",
    "debug": "2",
    "dim": "2",
    "warning": "33",
    "suspect": "33",
    "reduced": "33",
    "critical": "1;31",
    "error": "1;31",
    "down": "31",
    "none": "31",
    "strong": "1",
}


def paint_nothing(text: str, role: str) -> str:
    """For pipes and files: the text alone."""
    del role
    return text


def paint_ansi(text: str, role: str) -> str:
    """For terminals: the role's colour."""
    colour = _COLOURS.get(role, "")
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def render_flow(flow: str) -> str:
    """A `FlowClass` as people call it; its value is the word of wire, events and metrics."""
    return "established" if flow == "pinned" else str(flow)


def is_stale(at_ns: int, now_ns: int) -> bool:
    """Whether the engine has stopped reporting, so that nothing it said is known to be true any more; both instants by
    CLOCK_MONOTONIC.
    """
    return now_ns - at_ns > STALE_NS


def warn_if_stale(at_ns: int, now_ns: int, paint: Paint) -> Iterator[str]:
    """What stands above a report that is too old; nothing above a fresh one."""
    if is_stale(at_ns, now_ns):
        age = render_age(now_ns - at_ns)
        yield f"{paint('UNKNOWN', 'critical')}  the engine last reported {age}; below is what was true then"
        yield "         look at: journalctl -u meshwatchd"


def render_age(age_ns: int) -> str:
    """How long ago, as "2.3 s ago"; what is said to lie ahead is just happening."""
    if age_ns < 100_000_000:
        return "just now"
    seconds = age_ns / 1e9
    if seconds < 120:
        return f"{seconds:.1f} s ago"
    minutes = int(seconds // 60)
    if minutes < 120:
        return f"{minutes} min ago"
    hours = minutes // 60
    return f"{hours} h ago" if hours < 48 else f"{hours // 24} days ago"


def render_rtt(rtt_ns: int) -> str:
    """A round trip in milliseconds; a dash where none was measured."""
    return f"{rtt_ns / 1e6:.2f} ms" if rtt_ns > 0 else "-"


def middle(values: Sequence[int]) -> int:
    """The median of some integers. The standard library's takes longer to import than a status takes to show."""
    ordered = sorted(values)
    return round((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


Cell = tuple[str, str]
"""A text and its role."""


def columns(header: Sequence[str], rows: Iterable[Sequence[Cell]], paint: Paint, *, indent: int = 0) -> list[str]:
    """Rows under a header, each column as wide as its widest cell; aligned before they are painted."""
    cells = [[(title, "dim") for title in header], *(list(row) for row in rows)]
    widths = [max(len(row[index][0]) for row in cells) for index in range(len(header))]
    lines = []
    for row in cells:
        padded = [text.ljust(width) for (text, _), width in zip(row, widths, strict=True)]
        padded[-1] = padded[-1].rstrip()
        painted = [paint(text, role) if text.strip() else text for text, (_, role) in zip(padded, row, strict=True)]
        lines.append((" " * indent + "  ".join(painted)).rstrip())
    return lines


def entry(label: str, sentences: list[str] | tuple[str, ...], paint: Paint, *, hanging: int = 0) -> Iterator[str]:
    """A label and its sentences, each on a line of its own, aligned and wrapped."""
    margin = " " * (2 + _LABEL_CHARACTERS)
    for index, sentence in enumerate(sentences):
        lines = textwrap.wrap(
            sentence,
            _ENTRY_CHARACTERS - len(margin),
            subsequent_indent=" " * (hanging or 2),
            break_on_hyphens=False,
            break_long_words=False,
        )
        first = "  " + paint(label.ljust(_LABEL_CHARACTERS), "dim") if index == 0 else margin
        yield first + lines[0]
        yield from (margin + line for line in lines[1:])
