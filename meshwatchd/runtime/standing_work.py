"""When standing objects are put in place or put back: the only place from which the agent changes them.

One thing at a time: what the engine asks for first, else what is missing. That is looked for when a removal was heard
of, when a snapshot shows another picture, and every AUDIT_S without a reason. Where an object of somebody else is in
the place of ours, the request is kept until the place is free, and what was put before is looked after as ever. Only
what need not stand beside it any more goes at once: it may lead packets to where they are lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from meshwatchd.adapters.netlink.news import Lost
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.events import ObjectLost, Provisioned
from meshwatchd.model.plan import Provision
from meshwatchd.model.settings import KernelSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.runtime import beat
from meshwatchd.runtime.provisioning import Standing
from meshwatchd.runtime.sinks import Log

AUDIT_S: Final = 20.0
"""Objects that were left alone get their next chance then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counterparts:
    """Whom the work asks, and whom it tells.

    Attributes:
        losses: removals of marked objects, our own among them.
        collisions: what sits where ours would go, at this moment.
        public_key: of this node's standby devices.
        send: tells the engine.
        beside: routes and rules that have to stand beside what the engine wants.
    """

    losses: asyncio.Queue[Lost]
    collisions: Callable[[], Sequence[str]]
    public_key: Callable[[], str]
    send: Callable[[ObjectLost | Provisioned], None]
    beside: Callable[[], Provision] = Provision


class StandingWork:
    """The work on one node's standing objects."""

    def __init__(self, standing: Standing, others: Counterparts, log: Log) -> None:
        self._standing, self._others, self._log = standing, others, log
        self._requested: Provision | None = None
        self._last: Provision | None = None
        self._beside = Provision()
        self._collisions: tuple[str, ...] = ()
        self._has_work = asyncio.Event()
        self._reported: set[str] = set()

    def request(self, wanted: Provision) -> None:
        """The engine wants other objects from here on."""
        self._requested, self._collisions = wanted, ()
        self._has_work.set()

    @property
    def is_armed(self) -> bool:
        """Whether the engine has objects here, and nothing is in the place of others."""
        return self._last is not None and not self._collisions and not self._others.collisions()

    @property
    def is_keeping(self) -> bool:
        """Whether the engine has objects here, and so whatever stands beside them is looked after."""
        return self._last is not None

    def renew(self) -> None:
        """Something else has to stand beside what the engine wants."""
        if self._last is not None:
            if self._requested is None:
                self.request(self._last)
            self._has_work.set()

    def compare(self, before: Snapshot | None, after: Snapshot, settings: KernelSettings) -> None:
        """The kernel has changed: where that is about objects of ours, one may be missing."""
        if before is None or _own(before, settings) != _own(after, settings):
            self._has_work.set()

    def duties(self) -> tuple[Coroutine[object, object, None], ...]:
        """What is to be run for ever."""
        return self._report_losses(), self._work(), self._audit()

    async def _report_losses(self) -> None:
        """Tell the engine of a removal before anything is done about it."""
        while True:
            lost = await self._others.losses.get()
            if self._standing.concerns(lost):
                self._reported.add(lost.text)
                self._others.send(ObjectLost(what=lost.text))
                self._has_work.set()

    async def _work(self) -> None:
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            try:
                if self._requested is not None and self._is_place_free():
                    await self._provision(self._requested)
                else:
                    await self._retract()
                    await self._restore()
            except MeshwatchError as error:
                # How far it came is not known; what is missing is put at the next look, and told then.
                self._others.send(Provisioned(is_complete=False, errors=(str(error),), is_pending=True))

    async def _audit(self) -> None:
        while True:
            await beat.rest(AUDIT_S)
            self._has_work.set()

    def _is_place_free(self) -> bool:
        """Whether no object of others is where ours would go; what is there is told once for each request."""
        before, self._collisions = self._collisions, tuple(self._others.collisions())
        if self._collisions and self._collisions != before:
            self._tell(Provisioned(is_complete=False, errors=self._collisions))
        return not self._collisions

    def _tell(self, outcome: Provisioned) -> None:
        """Tell the engine what was done, and whether what it asked for last has yet to be put."""
        self._others.send(msgspec.structs.replace(outcome, is_pending=self._requested is not None))

    async def _provision(self, wanted: Provision) -> None:
        self._requested, self._last = None, wanted
        started_ns = time.monotonic_ns()
        self._beside = self._others.beside()
        outcome = await self._standing.ensure(wanted.joined(self._beside))
        self._reported.clear()
        self._tell(outcome)
        duration_ns = time.monotonic_ns() - started_ns
        self._log.info("provision.applied", is_complete=outcome.is_complete, duration_ns=duration_ns)
        if wanted.links:
            self._log.info("standby.identified", public_key=self._others.public_key())

    async def _retract(self) -> None:
        """Take away what need not stand beside what the engine wants any more, though nothing new can be put."""
        gone = self._beside.without(self._others.beside())
        if gone.routes or gone.rules:
            refused = await self._standing.retract(gone)
            if not refused:
                self._beside = self._beside.without(gone)
            self._log.info("provision.retracted", rules=len(gone.rules), routes=len(gone.routes), errors=tuple(refused))

    async def _restore(self) -> None:
        restored, news = await self._standing.restore()
        for text in restored:
            # The kernel drops the routes of a downed device without a word: this is the first one hears of it.
            if text not in self._reported:
                self._others.send(ObjectLost(what=text))
        self._reported.clear()
        if news is not None:
            self._tell(news)


def _own(snapshot: Snapshot, settings: KernelSettings) -> tuple[object, ...]:
    """What of a snapshot standing objects may be missing from."""
    devices = tuple(link for link in snapshot.links if link.name.startswith(settings.device_prefix))
    return devices, snapshot.rules, snapshot.routes, snapshot.collisions
