"""Daemons with the minimal configuration on a topology, that find each other by themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netnslab import Lab
from netnslab.daemons import Daemons, Settings
from netnslab.waiting import POLL_S, wait_until

Status = Mapping[str, Any]
LIMIT_S = 60
FOUND_S = 10.0
"""Within so many seconds daemons that are told nothing know each other."""


@contextmanager
def minimal_mesh(topology: str, logs: Path, settings: Settings | None = None) -> Iterator[tuple[Lab, Daemons, float]]:
    """The lab, its daemons, and how many seconds these took to know each other."""
    with Lab.up(topology) as lab, Daemons(lab, logs, config="minimal", settings=settings) as daemons:
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


def await_well(lab: Lab, daemons: Daemons, *, pairs: int) -> None:
    """Wait until each node watches so many other locations and nothing is wrong anywhere."""

    def is_well(status: Status | None) -> bool:
        if status is None or not knows_all(status, len(lab.topology.nodes)):
            return False
        return status["is_ready"] and status["severity"] == "ok" and len(status["pairs"]) == pairs

    for_all(lab, daemons, is_well, what="all to be well")


def await_found(lab: Lab, daemons: Daemons, *, pairs: int, took_s: float) -> Mapping[str, Status]:
    """The mesh was found in so many seconds, by hellos, and all is well; returns what each node says of itself."""
    assert took_s <= FOUND_S
    await_well(lab, daemons, pairs=pairs)
    await_answers(lab, daemons)
    said: dict[str, Status] = {node: daemons.status(node) or {} for node in lab.topology.nodes}
    whole = {"origin": "hellos", "nodes": len(lab.topology.nodes), "unheard": [], "problems": []}
    assert dict.fromkeys(lab.topology.nodes, whole) == {node: each["knowledge"] for node, each in said.items()}
    return said


def await_answers(lab: Lab, daemons: Daemons) -> None:
    """Wait until each session has had its first answers: closed ports are asked once a second, and it takes three."""

    def are_up(status: Status | None) -> bool:
        return status is not None and {"up"} == {session["state"] for session in status["sessions"]}

    for_all(lab, daemons, are_up, what="every session to be up")
