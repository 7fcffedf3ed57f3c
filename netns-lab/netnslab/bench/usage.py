"""Processor time and memory of processes, from /proc."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from netnslab.waiting import pause_until

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_UTIME, _STIME = 14, 15
"""Positions in /proc/PID/stat, counted from 1 (proc(5)); the times of all threads together."""
_RSS = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process took over a span of time.

    Attributes:
        cpu_percent: of one core.
        rss_kib: resident at the end.
    """

    cpu_percent: float
    rss_kib: int


def cpu_ns(stat: str) -> int:
    """User and system time out of the text of /proc/PID/stat, in nanoseconds."""
    fields = stat.rpartition(")")[2].split()  # the name may hold spaces and parentheses; fields from 3 follow it
    return (int(fields[_UTIME - 3]) + int(fields[_STIME - 3])) * _TICK_NS


def rss_kib(status: str) -> int:
    """Resident memory out of the text of /proc/PID/status, in KiB; 0 when it has none."""
    match = _RSS.search(status)
    return int(match[1]) if match else 0


def measure(pids: Mapping[str, int], *, seconds: float) -> dict[str, Usage]:
    """Watch some processes for a while."""
    before = {name: _cpu_now(pid) for name, pid in pids.items()}
    began_ns = time.monotonic_ns()
    pause_until(began_ns + round(seconds * 1e9))
    after = {name: _cpu_now(pid) for name, pid in pids.items()}
    elapsed_ns = time.monotonic_ns() - began_ns
    return {
        name: Usage(
            cpu_percent=(after[name] - before[name]) * 100 / elapsed_ns,
            rss_kib=rss_kib(Path(f"/proc/{pid}/status").read_text(encoding="utf-8")),
        )
        for name, pid in pids.items()
    }


def total_percent(usages: Sequence[Usage]) -> float:
    """Processor time of several processes together."""
    return round(sum(usage.cpu_percent for usage in usages), 2)


def _cpu_now(pid: int) -> int:
    return cpu_ns(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace"))
