"""The engine's own few words on stderr: one JSON object a line, or in systemd's journal a line for people.

Facts are logged by the agent. What happens before it lives or what keeps it from living is said here, and
nothing at all while everything runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

import msgspec

PRIORITIES: Final = {"debug": "<7>", "info": "<6>", "warning": "<4>", "error": "<3>"}
"""What a line begins with for the journal (sd-daemon(3)), so that `journalctl -p warning` works."""

_UNTOLD: Final = frozenset({"event", "level", "time", "seq", "at_ns"})
"""What comes first or is the journal's to add, and what only programs can use: those read events, or JSON."""


def say(event: str, *, level: str = "warning", **fields: object) -> None:
    """Write one line; `event` is a noun and a past participle, as in the log of facts."""
    if is_journal(sys.stderr):
        line = PRIORITIES[level] + render_plainly({"event": event, **fields})
    else:
        line = msgspec.json.encode({"event": event, "level": level, **fields}).decode()
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def render_plainly(fields: Mapping[str, object]) -> str:
    """One line for people: the event, then each field; the journal adds time and level."""
    texts = [f"{key}={_value(value)}" for key, value in fields.items() if key not in _UNTOLD]
    return " ".join((str(fields["event"]), *texts))


def _value(value: object) -> str:
    """A word as it is, and pairs as words; everything else as JSON, in which no line ends."""
    if isinstance(value, Mapping):
        value = ",".join(f"{key}:{each}" for key, each in value.items())
    is_word = isinstance(value, str) and value.isprintable() and value and not set(value) & set(' "=')
    return str(value) if is_word else msgspec.json.encode(value, enc_hook=str).decode()


def is_journal(target: TextIO) -> bool:
    """Whether a stream is the journal's, as systemd.exec(5) says of JOURNAL_STREAM: device and inode."""
    try:
        status = os.fstat(target.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
