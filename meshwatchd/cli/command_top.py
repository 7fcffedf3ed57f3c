"""`meshwatchctl top`: the node, live."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import click

from meshwatchd.adapters.control.interface import EventsParameters, EventsReply
from meshwatchd.cli.command_status import fetch_status
from meshwatchd.cli.main import Terminal
from meshwatchd.model.errors import ControlError

INTERVAL_S = 1.0
MAX_EVENTS = 200
_MODES = {"s": "sessions", "e": "events", "?": "help", "h": "help"}


@click.command("top")
@click.option("--once", is_flag=True, help="Draw one screen, and exit; needs no terminal.")
@click.pass_obj
def top(terminal: Terminal, *, once: bool) -> int:
    """Watch this node live: verdicts, paths, layers, losses, round trips and events.

    Keys: q quits, p holds the picture, s shows sessions, e more events, ? all keys.
    """
    if terminal.is_json:
        raise click.UsageError("top draws a screen; for programs there are `status --json` and `events --json`")
    if not once and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("top needs a terminal; `top --once` draws one screen without")
    screen = Screen(terminal)
    if once:
        from rich.console import Console  # noqa: PLC0415 - a tenth of a second that only this needs

        Console(no_color=not sys.stdout.isatty(), highlight=False, soft_wrap=True).print(screen.draw())
        return 0
    _live(screen)
    return 0


class Screen:
    """What is shown, from call to call."""

    def __init__(self, terminal: Terminal) -> None:
        from meshwatchd.cli.render_top import ASCII_BARS, BARS, Memory  # noqa: PLC0415 - imports rich

        self._terminal = terminal
        self._memory = Memory()
        self._events: deque[dict[str, object]] = deque(maxlen=MAX_EVENTS)
        self._since_ns: int | None = None
        self._bars = BARS if "utf" in (sys.stdout.encoding or "").lower() else ASCII_BARS
        self.mode = ""

    def draw(self) -> object:
        """Ask the daemon, and draw; a daemon that is gone is what the screen says."""
        from rich.text import Text  # noqa: PLC0415 - as above

        from meshwatchd.cli.render_top import render_top  # noqa: PLC0415 - as above

        size = shutil.get_terminal_size((80, 24))
        try:
            status = fetch_status(self._terminal)
            self._fetch_events()
        except ControlError as error:
            return Text(f"UNKNOWN  {error}", "bold red")
        self._memory.take(status)
        return render_top(
            status,
            self._events,
            self._memory,
            now_ns=time.monotonic_ns(),
            size=(size.columns, size.lines),
            mode=self.mode,
            bars=self._bars,
        )

    def press(self, key: str) -> None:
        """Change what is shown; the same key again goes back."""
        mode = _MODES.get(key, "")
        self.mode = "" if mode == self.mode else mode

    def _fetch_events(self) -> None:
        for event in self._terminal.client.ask("Events", EventsReply, EventsParameters(since_ns=self._since_ns)).events:
            self._events.append(event)
            at_ns = event.get("at_ns")
            self._since_ns = at_ns + 1 if isinstance(at_ns, int) else self._since_ns


def _live(screen: Screen) -> None:
    """Draw each second, and at once when a key is pressed, until q."""
    from rich.live import Live  # noqa: PLC0415 - as above

    is_held = False
    with _keys(), Live(auto_refresh=False, screen=True) as live:
        while True:
            if not is_held:
                live.update(screen.draw(), refresh=True)  # type: ignore[arg-type]
            key = _read_key(INTERVAL_S)
            if key in ("q", "\x03", "\x04"):
                return
            if key == "p":
                is_held = not is_held
            elif key:
                screen.press(key)


@contextmanager
def _keys() -> Iterator[None]:
    """Keys one by one, without echo; the terminal is as before whatever happens."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read_key(timeout_s: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], timeout_s)
    if not ready:
        return ""
    data = os.read(sys.stdin.fileno(), 16)
    return "q" if not data else data[:1].decode("latin-1")
