"""Daemons with the minimal configuration on a topology, that find each other by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netnslab import Lab
from netnslab.daemons import Daemons
from netnslab.waiting import POLL_S, wait_until

Status = Mapping[str, Any]
LIMIT_S = 60


@contextmanager
def minimal_mesh(topology: str, logs: Path) -> Iterator[tuple[Lab, Daemons, float]]:
    """The lab, its daemons, and how many seconds these took to know each other."""
    with Lab.up(topology) as lab, Daemons(lab, logs, config="minimal") as daemons:
        count, began = len(lab.topology.nodes), time.monotonic()
        for_all(lab, daemons, lambda status: knows_all(status, count), what=f"all to know {count} nodes", poll_s=POLL_S)
        yield lab, daemons, time.monotonic() - began


def knows_all(status: Status | None, count: int) -> bool:
    """Whether a node's daemon answers, and knows as many nodes."""
    return status is not None and status["knowledge"]["nodes"] == count


def for_all(
    lab: Lab, daemons: Daemons, is_so: Callable[[Status | None], bool], *, what: str, poll_s: float = 0.5
) -> None:
    """Wait until what each node answers to `status` is so."""
    wait_until(
        lambda: all(is_so(daemons.status(node)) for node in lab.topology.nodes),
        timeout_s=LIMIT_S,
        what=what,
        poll_s=poll_s,
    )


def are_all_answered(status: Status | None) -> bool:
    """Whether each session of a node has had its first answers; closed ports are asked once a second."""
    return status is not None and {"up"} == {session["state"] for session in status["sessions"]}
