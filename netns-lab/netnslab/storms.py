"""Storms: troubles drawn by chance, of the network and of the daemons, that overlap.

A trouble of the network is a fault of `netnslab.fault_plans`. A trouble of a daemon is what a starved, unlucky or
meddled-with machine does to it:

    freeze-engine, freeze-agent    the process stops (SIGSTOP) and goes on later
    starve-engine, starve-agent    it gets a fifth of a processor, in slices of 20 ms
    kill-engine, kill-agent        SIGKILL; an engine is started again when the trouble is over
    flush                          somebody removes every rule and route of the daemon's, once

What is drawn is a plain value, so that a seed tells the same storm again, to a mesh whose daemons only watch as well.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

from netnslab import faults
from netnslab.daemons import Daemons, Process
from netnslab.faults import Fault
from netnslab.lab import Lab
from netnslab.removals import Remover, standing

SECOND = 1_000_000_000
MS = 1_000_000

FAULTS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "overlay-new-flows": {"memory_s": 60.0},
        "overlay-black-hole": {},
        "relay-not-forwarding": {},
        "leader-dead": {},
        "wireguard-blocked": {},
        "random-loss": {"ratio": 0.05},
    }
)
"""Faults that a storm draws from, and with what parameters."""

FREEZE, STARVE, KILL, FLUSH = "freeze", "starve", "kill", "flush"
HURTS: tuple[tuple[str, str], ...] = (
    (FREEZE, "engine"),
    (FREEZE, "agent"),
    (STARVE, "engine"),
    (STARVE, "agent"),
    (KILL, "engine"),
    (KILL, "agent"),
    (FLUSH, ""),
)
"""What may happen to a daemon, and to which of its processes."""

MOST_FAULTS = 2
MOST_HURTS = 2
WITHIN_NS = 3 * SECOND
"""All troubles of a storm begin within so long a time."""
FAULT_LASTS_NS = (SECOND // 2, 6 * SECOND)
HURT_LASTS_NS = (SECOND // 5, 4 * SECOND)

SLICE_NS = 20 * MS
STARVED_PART = 5
"""Of a starved process: it runs for a slice, and is stopped for the other four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that goes wrong, and for how long.

    Attributes:
        kind: a key of FAULTS, or freeze, starve, kill, flush.
        process: engine or agent, of what happens to one of them; else empty.
        after_ns: since the storm began.
    """

    kind: str
    node: str
    process: str = ""
    after_ns: int
    lasts_ns: int

    @property
    def is_fault(self) -> bool:
        """Of the network, and not of a daemon."""
        return self.kind in FAULTS

    @property
    def until_ns(self) -> int:
        """Its end, since the storm began."""
        return self.after_ns + self.lasts_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """Something to be done.

    Attributes:
        at_ns: since the storm began.
        what: begin or end of a trouble; stop or go on of a starved process.
    """

    at_ns: int
    what: str
    trouble: Trouble


BEGIN, END, STOP, GO_ON = "begin", "end", "stop", "go-on"


def draw(rng: random.Random, nodes: Sequence[str], relays: Sequence[str]) -> tuple[Trouble, ...]:
    """A storm: one or two faults of different relays, and up to two daemons that are hurt.

    Args:
        rng: the only chance there is.
        nodes: whose daemons may be hurt, each once.
        relays: whose networks may break, each once.
    """
    struck = rng.sample(list(relays), rng.randint(1, MOST_FAULTS))
    hurt = rng.sample(list(nodes), rng.randint(0, MOST_HURTS))
    troubles = [
        Trouble(
            kind=rng.choice(list(FAULTS)),
            node=node,
            after_ns=rng.randrange(WITHIN_NS),
            lasts_ns=rng.randrange(*FAULT_LASTS_NS),
        )
        for node in struck
    ]
    for node in hurt:
        kind, process = rng.choice(HURTS)
        lasts_ns = rng.randrange(*HURT_LASTS_NS)
        troubles.append(
            Trouble(kind=kind, node=node, process=process, after_ns=rng.randrange(WITHIN_NS), lasts_ns=lasts_ns)
        )
    return tuple(sorted(troubles, key=lambda trouble: trouble.after_ns))


def course(storm: Iterable[Trouble]) -> list[Instant]:
    """Everything that is to be done, in the order of time."""
    return sorted((instant for trouble in storm for instant in _instants(trouble)), key=lambda each: each.at_ns)


def _instants(trouble: Trouble) -> Iterator[Instant]:
    yield Instant(at_ns=trouble.after_ns, what=BEGIN, trouble=trouble)
    if trouble.kind == STARVE:
        period_ns = STARVED_PART * SLICE_NS
        for at_ns in range(trouble.after_ns + period_ns, trouble.until_ns, period_ns):
            yield Instant(at_ns=at_ns - SLICE_NS, what=GO_ON, trouble=trouble)
            yield Instant(at_ns=at_ns, what=STOP, trouble=trouble)
    yield Instant(at_ns=trouble.until_ns, what=END, trouble=trouble)


class Performer:
    """Does to a lab what a storm says.

    Args:
        daemons: of the same lab, all running.
    """

    def __init__(self, lab: Lab, daemons: Daemons) -> None:
        self._lab, self._daemons = lab, daemons
        self._faults: dict[Trouble, Fault] = {}
        self._handles: dict[Trouble, int] = {}
        self._ended: set[str] = set()
        self._actions: Mapping[str, Callable[[Trouble], object]] = {
            BEGIN: self._begin,
            END: self._end,
            STOP: self._stop,
            GO_ON: self._go_on,
        }

    def arm(self, storm: Iterable[Trouble]) -> None:
        """Let faults that spare what they know begin to know it, while all is well."""
        for trouble in storm:
            if trouble.is_fault:
                self._faults[trouble] = faults.make(self._lab, trouble.kind, trouble.node, FAULTS[trouble.kind])
                self._faults[trouble].arm()

    def perform(self, instant: Instant) -> None:
        """Do it at once."""
        self._actions[instant.what](instant.trouble)

    def clear(self) -> None:
        """End whatever has not ended, and forget all flows."""
        for trouble in tuple(self._handles):
            self._end(trouble)
        for fault in self._faults.values():
            fault.remove()
        self._faults.clear()
        for node in tuple(self._ended):
            self._start(node)

    def _begin(self, trouble: Trouble) -> None:
        if trouble.is_fault:
            self._faults[trouble].inject()
        elif trouble.kind == KILL:
            self._kill(trouble)
        elif trouble.kind == FLUSH:
            self._flush(trouble.node)
        else:
            self._stop(trouble)

    def _end(self, trouble: Trouble) -> None:
        if trouble.is_fault:
            self._faults[trouble].heal()
        elif trouble.node in self._ended:
            self._start(trouble.node)
        elif trouble in self._handles:
            self._go_on(trouble)
            os.close(self._handles.pop(trouble))

    def _kill(self, trouble: Trouble) -> None:
        # An agent may be between two lives of its own; then there is none to end.
        if trouble.process == Process.ENGINE:
            self._daemons.kill(trouble.node)
            self._ended.add(trouble.node)
        elif self._daemons.has_agent(trouble.node):
            self._daemons.kill(trouble.node, Process.AGENT)

    def _start(self, node: str) -> None:
        self._ended.discard(node)
        self._daemons.start(node)

    def _flush(self, node: str) -> None:
        place = self._lab.node(node)
        with Remover(place) as remover:
            for named in standing(place):
                remover.remove(named)

    def _stop(self, trouble: Trouble) -> None:
        if trouble not in self._handles:
            pid = self._pid(trouble)
            if pid is None:
                return
            self._handles[trouble] = os.pidfd_open(pid)
        self._signal(trouble, signal.SIGSTOP)

    def _go_on(self, trouble: Trouble) -> None:
        if trouble in self._handles:
            self._signal(trouble, signal.SIGCONT)

    def _signal(self, trouble: Trouble, number: signal.Signals) -> None:
        # An engine ends an agent that does not answer. By its handle nobody else is hit in its place.
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handles[trouble], number)

    def _pid(self, trouble: Trouble) -> int | None:
        if trouble.process == Process.ENGINE:
            return self._daemons.engine_pid(trouble.node)
        return self._daemons.agent_pid(trouble.node) if self._daemons.has_agent(trouble.node) else None
