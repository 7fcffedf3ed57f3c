"""The machine that a figure was measured on: without it, a figure means nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path


def machine_facts() -> dict[str, object]:
    """Kernel, processors, memory and load, as they go into the JSON of every measurement."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "processor": _first_value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_total": _first_value("/proc/meminfo", "MemTotal"),
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
    }


def commit_facts() -> str:
    """The commit that was measured, with `-dirty` where files differ from it; empty outside of a clone."""
    return version_line(["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"])


def version_line(command: Sequence[str]) -> str:
    """The first line that a command prints; empty where the program is not installed."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        return ""
    return (result.stdout or result.stderr).strip().partition("\n")[0]


def _first_value(path: str, key: str) -> str:
    """The value after the colon in the first line that begins with `key`; empty when there is none."""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""
