"""What the audit knows of the LAN: its neighbours at each look, and answers to ARP while a verdict stands."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator

from meshwatchd.adapters.arp import ask
from meshwatchd.core.audit.underlay import ArpQuestion, UnderlayView, advertised, audit_underlay, questions, suspects_of
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import Neighbour
from meshwatchd.model.status import Status
from meshwatchd.model.underlay import ArpAnswers

PAUSE_S, MAX_PAUSE_S = 3.0, 60.0
"""Between two rounds of probes while a verdict stands; it doubles after the third, unless they have found something:
what they found may end at any time, and explains other faults until then. When all verdicts have ended it is asked for
more and more seldom until it is gone: a second machine with an address harms nobody until a neighbour asks for it
again. At rest nothing is sent."""

ROUNDS = 3
"""Rounds that count together: frames of a MAC that flaps are lost now and then."""

MAX_ASKED = 6
"""Addresses in one round."""

MAX_FORMER = 8
"""MACs remembered of each node."""

_BY_PROBES = frozenset((FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED))

Asker = Callable[[str, str, str, tuple[str, ...]], Awaitable[ArpAnswers]]


class UnderlayWatch:
    """One node's LAN."""

    def __init__(self, neighbours: Callable[[], tuple[Neighbour, ...]], *, asker: Asker = ask) -> None:
        self._neighbours, self._ask = neighbours, asker
        # Whom a verdict has named stays suspected until all is well: a finding replaces the name.
        self._suspects: dict[str, None] = {}
        self._rounds: dict[tuple[str, tuple[str, ...]], deque[ArpAnswers]] = {}
        self._former: dict[str, deque[str]] = {}
        self._is_suspected, self._is_new = asyncio.Event(), asyncio.Event()
        self._count = 0
        self._has_found = self._is_over = self._is_anew = False
        # A verdict may have ended before a busy node has asked even once: the answers are judged all the same.
        self._is_judged = False
        self._view: View | None = None

    def note(self, status: Status) -> None:
        """Take in which nodes the engine's verdicts name; without any, what was found is looked at until it is gone."""
        named = suspects_of(status)
        was_over, self._is_over = self._is_over, not named
        if self._is_over and self._is_judged and not self._has_found:
            self._is_suspected.clear()
            self._suspects, self._rounds, self._count, self._is_judged = {}, {}, 0, False
        elif named and (was_over or any(name not in self._suspects for name in named)):
            self._is_anew |= was_over
            self._suspects.update(dict.fromkeys(named))
            self._count, self._is_judged = 0, False
            self._is_suspected.set()
            self._is_new.set()

    def findings(self, view: View, now: int) -> Iterator[AuditFinding]:
        """What is wrong with the addresses of nodes."""
        del now
        self._view = view
        for name, macs in advertised(view.mesh, view.hellos).items():
            known = self._former.setdefault(name, deque(maxlen=MAX_FORMER))
            known.extend(mac for mac in macs if mac not in known)
        found = tuple(audit_underlay(self._seen(view)))
        self._has_found = any(each.code in _BY_PROBES for each in found)
        self._is_judged |= self._count > 0
        yield from found

    async def watch(self, tell: Callable[[], None]) -> None:
        """Ask for ever, round after round, while anybody is suspected."""
        while True:
            await self._is_suspected.wait()
            self._is_new.clear()
            await self._ask_around()
            is_urgent = self._has_found and not self._is_over
            self._count = min(self._count, ROUNDS - 1 if is_urgent else self._count) + 1
            tell()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s(self._count)):
                    await self._is_new.wait()

    async def _ask_around(self) -> None:
        if self._view is None:
            return
        every = [*questions(self._seen(self._view))]
        if self._is_over:
            # What was found is looked for, and nothing else.
            every.sort(key=lambda each: _key(each) not in self._rounds)
        asked, is_anew, self._is_anew = tuple(every[:MAX_ASKED]), self._is_anew or self._is_over, False
        async with asyncio.TaskGroup() as group:
            for each in asked:
                group.create_task(self._ask_for(each, is_anew=is_anew))
        if asked:
            self._forget_unasked(asked)

    def _forget_unasked(self, asked: tuple[ArpQuestion, ...]) -> None:
        """What a MAC answered that a node has no more, and when all is over whatever is asked no more."""
        keys, addresses = {_key(each) for each in asked}, {each.address for each in asked}
        for key in [key for key in self._rounds if key not in keys]:
            if self._is_over or key[0] in addresses:
                del self._rounds[key]

    async def _ask_for(self, each: ArpQuestion, *, is_anew: bool) -> None:
        answers = await self._ask(each.link.name, each.link.lladdr, each.address, each.expected)
        if self._suspects:
            # A node that has advertised another MAC meanwhile is asked anew.
            rounds = self._rounds.setdefault(_key(each), deque(maxlen=ROUNDS))
            if is_anew:
                rounds.clear()
            rounds.append(answers)

    def _seen(self, view: View) -> UnderlayView:
        return UnderlayView(
            snapshot=view.snapshot,
            mesh=view.mesh,
            node=view.node,
            hellos=view.hellos,
            neighbours=self._neighbours(),
            former=self._former,
            answers={address: tuple(rounds) for (address, _), rounds in self._rounds.items()},
            suspects=self._suspects,
        )


def _key(each: ArpQuestion) -> tuple[str, tuple[str, ...]]:
    return each.address, each.expected


def pause_s(count: int) -> float:
    """How long to wait after so many rounds."""
    return min(MAX_PAUSE_S, PAUSE_S * 2.0 ** min(max(0, count - ROUNDS), 8))
