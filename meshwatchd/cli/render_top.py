"""One screen of `meshwatchctl top`: what a person watches while something goes on.

Pure functions of statuses and events; the caller draws, waits and reads keys.
"""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from meshwatchd.adapters.control.naming import name_path, name_place
from meshwatchd.cli.render_story import render_event
from meshwatchd.cli.text import is_stale, paint_nothing, render_age, render_flow, render_rtt
from meshwatchd.model.faults import CATALOGUE, Severity
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.status import PairStatus, PathStatus, SessionStatus, Status, path_rtt_ns

MIN_COLUMNS = 40
HISTORY = 30
"""Statuses that are remembered, one a second."""

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-=+*#@"
LAYERS = tuple(layer for layer in Layer if layer not in (Layer.SELF, Layer.POD))

HELP = (
    "q  quit            p  hold the picture, or go on",
    "s  sessions        every session that is not up, the worst first",
    "e  events          more of them",
    "?  this help       any other key draws anew",
)

_ROLES = {
    "ok": "green",
    "good": "green",
    "up": "green",
    "warning": "yellow",
    "suspect": "yellow",
    "reduced": "yellow",
    "critical": "bold red",
    "error": "bold red",
    "down": "red",
    "none": "red",
    "dim": "dim",
    "strong": "bold",
}


class Memory:
    """The last statuses, as far as sparklines and losses need them.

    Attributes:
        rtts: of each path by its number, nanoseconds, 0 where nothing answered.
    """

    def __init__(self) -> None:
        self.rtts: dict[int, deque[int]] = {}
        self._counts: deque[dict[Layer, tuple[int, int]]] = deque(maxlen=HISTORY)
        self._at_ns = 0

    def take(self, status: Status) -> None:
        """Remember a status; the same one again changes nothing."""
        if status.at_ns == self._at_ns:
            return
        self._at_ns = status.at_ns
        paths = {path.number: path for pair in status.pairs for path in pair.paths}
        self.rtts = {number: _push(self.rtts.get(number), path_rtt_ns(status, path)) for number, path in paths.items()}
        counts: dict[Layer, tuple[int, int]] = {}
        for each in status.sessions:
            sent, lost = counts.get(each.layer, (0, 0))
            counts[each.layer] = sent + each.sent, lost + each.lost
        self._counts.append(counts)

    def loss(self, layer: Layer) -> float | None:
        """The share of a layer's probes that were lost in the last statuses; None where none were sent."""
        if len(self._counts) < 2:
            return None
        sent, lost = (
            self._counts[-1].get(layer, (0, 0))[index] - self._counts[0].get(layer, (0, 0))[index] for index in (0, 1)
        )
        return max(0.0, lost / sent) if sent > 0 else None


def _push(known: deque[int] | None, value: int) -> deque[int]:
    values = deque(maxlen=HISTORY) if known is None else known
    values.append(value)
    return values


def render_top(
    status: Status,
    events: Iterable[Mapping[str, object]],
    memory: Memory,
    *,
    now_ns: int,
    size: tuple[int, int],
    mode: str = "",
    bars: str = BARS,
) -> Text:
    """The screen, never wider or higher than the terminal; `mode` is "sessions", "events", "help", or ""."""
    columns, rows = max(size[0], MIN_COLUMNS), size[1]
    lines = _head(status, now_ns)
    for pair in status.pairs:
        lines += _pair(status, pair, memory, bars, columns=columns)
    lines += [Text(), *_layers(status, memory)]
    if mode == "help":
        lines += [Text(), *(Text(each) for each in HELP)]
    elif mode == "sessions":
        lines += [Text(), *_sessions(status)]
    room = max(3 if mode != "events" else rows // 2, rows - len(lines) - 2)
    # Of single sessions the table of layers says enough, but where events are what is looked at.
    shown = (each for each in events if mode == "events" or not str(each.get("event")).startswith("session."))
    told = deque(shown, maxlen=room if mode in ("", "events") else 3)
    lines += [Text(), *(Text(render_event(event, paint_nothing), _style(event)) for event in told)]
    body = [_fit(line, columns) for line in lines][: max(1, rows - 1)]
    return Text("\n").join([*body, _fit(Text("q quit  p hold  s sessions  e events  ? help", "dim"), columns)])


def _head(status: Status, now_ns: int) -> list[Text]:
    word = (
        "unknown" if is_stale(status.at_ns, now_ns) else status.severity.value if status.is_watching else "not watching"
    )
    role = _ROLES.get(word, "bold red")
    place = f"{status.node} in {status.location}" if status.location else status.node
    text = f"  {place}, {status.role}, mode {status.mode}, reported {render_age(now_ns - status.at_ns)}"
    return [Text.assemble((word.upper(), role), (text, "dim"))]


def _pair(status: Status, pair: PairStatus, memory: Memory, bars: str, *, columns: int) -> list[Text]:
    verdict = pair.verdict
    where = ", ".join(each for each in (name_place(pair).replace("node ", "at "), verdict.layer.name.lower()) if each)
    lines = [
        Text(""),
        Text.assemble(
            (f"to {pair.remote_location}  ", "bold"),
            f"[{where}] " if verdict.severity is not Severity.OK else "",
            (CATALOGUE[verdict.fault].title, _ROLES[verdict.severity.value]),
        ),
    ]
    if verdict.severity is not Severity.OK:
        told = (line for each in verdict.because[:2] for line in textwrap.wrap(each, columns - 5)[:2])
        lines += [Text(f"   {line}", "dim") for line in told]
    for path in sorted(pair.paths, key=lambda each: each.rank):
        lines.append(_path(status, path, memory, bars))
    return lines


def _path(status: Status, path: PathStatus, memory: Memory, bars: str) -> Text:
    role = "leaders" if path.rank == 0 else "standby"
    used = ("> ", "bold") if path.is_active else ("  ", "")
    return Text.assemble(
        used,
        f"{path.rank} {name_path(path)[:18]:18} {role:8}",
        (f"{path.state:10}", _ROLES.get(path.state, "dim")),
        f"{render_rtt(path_rtt_ns(status, path)):>10}  ",
        (sparkline(memory.rtts.get(path.number, ()), bars), "cyan"),
    )


def _layers(status: Status, memory: Memory) -> list[Text]:
    """Each layer as a cell: fresh and established flows, and the loss of late."""
    lines = [Text(f"{'LAYER':12} {'FRESH':12} {'ESTABLISHED':12} LOST", "dim")]
    for layer in LAYERS:
        of_it = [each for each in status.sessions if each.layer is layer]
        if not of_it:
            continue
        loss = memory.loss(layer)
        lines.append(
            Text.assemble(
                f"{layer.name.lower().replace('_', '-'):12} ",
                _cell(of_it, FlowClass.FRESH),
                _cell(of_it, FlowClass.PINNED),
                ("-" if loss is None else f"{100 * loss:.1f} %", "" if not loss else "yellow"),
            )
        )
    return lines


def _cell(sessions: Sequence[SessionStatus], flow: FlowClass) -> tuple[str, str]:
    states = [each.state for each in sessions if each.flow is flow]
    if not states:
        return f"{'-':13}", "dim"
    worst = next((state for state in ("down", "suspect", "init") if state in states), "up")
    text = f"{states.count('up')}/{len(states)} {'ok' if worst == 'up' else worst}"
    return f"{text:13}", _ROLES.get(worst, "dim")


def _sessions(status: Status) -> list[Text]:
    order = ("down", "suspect", "init", "up")
    ranked = sorted(
        status.sessions, key=lambda each: (order.index(each.state) if each.state in order else 0, -each.lost)
    )
    return [
        Text.assemble(
            f"{each.layer.name.lower():12} {each.peer[:14]:14} {render_flow(each.flow):11} ",
            (f"{each.state:8}", _ROLES.get(each.state, "dim")),
            f"{each.lost}/{each.sent} lost",
        )
        for each in ranked[:12]
    ]


def sparkline(values: Iterable[int], bars: str = BARS) -> str:
    """Values as a row of bars, 0 to the greatest; a space where there was nothing."""
    known = list(values)
    top = max(known, default=0)
    return "".join(" " if value <= 0 else bars[min(len(bars) - 1, value * len(bars) // (top + 1))] for value in known)


def _style(event: Mapping[str, object]) -> str:
    return {"warning": "yellow", "error": "bold red", "debug": "dim"}.get(str(event.get("level")), "")


def _fit(line: Text, columns: int) -> Text:
    """Cut to the terminal's width, by cells and not by characters."""
    if cell_len(line.plain) > columns:
        line = line.copy()
        line.truncate(columns)
    return line
