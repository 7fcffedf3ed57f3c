"""The engine's own few words: one JSON object a line on stderr, which the journal keeps.

Facts are logged by the agent. What happens before it lives or what keeps it from living is said here, and
nothing at all while everything runs.
"""

from __future__ import annotations

import sys

import msgspec


def say(event: str, *, level: str = "warning", **fields: object) -> None:
    """Write one line; `event` is a noun and a past participle, as in the log of facts."""
    line = msgspec.json.encode({"event": event, "level": level, **fields}).decode()
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
