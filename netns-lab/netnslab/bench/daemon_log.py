"""When a BFD daemon says that a session changed state, from its own log. Pure.

BIRD     1795293880.247081 <TRACE> bfd1: Session to 10.10.0.2 changed state from Up to Down
bfdd     2026/11/21 20:45:09.156417 BFD: [...] state-change: [mhop:no peer:10.10.1.2 ...] up -> down reason:...

Both write the wall clock; `wall_offset_ns` turns it into CLOCK_MONOTONIC.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

_BIRD = re.compile(
    r"^(?P<seconds>\d+)\.(?P<micros>\d{6}) .* Session to (?P<peer>\S+) changed state from \w+ to (?P<state>\w+)$"
)
_FRR = re.compile(
    r"^(?P<date>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{6}) BFD: .*state-change: \[.*?peer:(?P<peer>\S+) .*\]"
    r" \S+ -> (?P<state>\S+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A session of a peer came to a state (`up`, `down`, `init`) at an instant of the wall clock."""

    wall_ns: int
    peer: str
    state: str


def bird_changes(text: str) -> Iterator[Change]:
    """Every change of state in a log of BIRD with `timeformat log "%s.%6f"` and `debug { events }`."""
    for line in text.splitlines():
        if match := _BIRD.match(line):
            wall_ns = int(match["seconds"]) * 1_000_000_000 + int(match["micros"]) * 1_000
            yield Change(wall_ns=wall_ns, peer=match["peer"], state=match["state"].lower())


def frr_changes(text: str) -> Iterator[Change]:
    """Every change of state in a log of bfdd with `log timestamp precision 6`, in local time."""
    for line in text.splitlines():
        if match := _FRR.match(line):
            local = datetime.strptime(match["date"], "%Y/%m/%d %H:%M:%S.%f").astimezone()
            wall_ns = round(local.timestamp() * 1_000_000) * 1_000
            yield Change(wall_ns=wall_ns, peer=match["peer"], state=match["state"])


def wall_offset_ns() -> int:
    """What to take from a wall clock reading of about now to get CLOCK_MONOTONIC."""
    return time.time_ns() - time.monotonic_ns()
