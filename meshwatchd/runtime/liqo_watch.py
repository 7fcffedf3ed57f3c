"""What the audit knows of Liqo: devices and routes at each look, and who answers a ping every two seconds.

Nodes without a device of Liqo's ask nobody. What was there while the gateway pod answered is kept in a file, for the
daemon that starts after it was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from meshwatchd.adapters.echo_round import who_answers
from meshwatchd.adapters.storage.background_writer import BackgroundWriter
from meshwatchd.adapters.storage.policy_file import read_boot
from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.core.audit.liqo_devices import LiqoGood
from meshwatchd.core.audit.liqo_legs import ROUND_NS, LiqoAudit
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.errors import KernelError
from meshwatchd.model.liqo import is_liqos
from meshwatchd.model.settings import SECOND, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.profiles.reading import pod_device
from meshwatchd.runtime import beat
from meshwatchd.runtime.sinks import Warns

STATE_FILE: Final = "liqo-good.json"
MAX_STATE_BYTES: Final = 1024 * 1024

Asker = Callable[[Collection[tuple[str, str]]], Awaitable[frozenset[str]]]


class LiqoMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The file.

    Attributes:
        boot: of the kernel it was seen in: after another boot everything may rightly be different.
    """

    boot: str = ""
    good: tuple[LiqoGood, ...] = ()


class LiqoWatch:
    """Liqo's part of one node."""

    def __init__(
        self,
        settings: Settings,
        log: Warns,
        *,
        asker: Asker = who_answers,
        rest: Callable[[float], Awaitable[None]] = beat.rest,
    ) -> None:
        self._log, self._ask, self._rest, self._boot = log, asker, rest, read_boot()
        path = Path(settings.daemon.state_dir) / STATE_FILE
        self._file = VersionedFile(path, LiqoMemory, version=1, max_bytes=MAX_STATE_BYTES, mode=0o600)
        self._writer = BackgroundWriter(self._save, lambda problem: log.warning("liqo.unsaved", error=problem))
        self._audit = LiqoAudit(settings.daemon.node, settings.liqo.beyond, self._load())
        self._saved = self._audit.known
        self._snapshot: Snapshot | None = None
        self._is_there = asyncio.Event()
        self._is_refused = False

    def findings(self, view: View, now: int) -> Iterator[AuditFinding]:
        """What is wrong with Liqo's devices and routes, and with what they lead to."""
        del now
        self._snapshot = view.snapshot
        if any(map(is_liqos, view.snapshot.links)):
            self._is_there.set()
        else:
            self._is_there.clear()
        yield from self._audit.look(view.snapshot)

    async def watch(self, tell: Callable[[], None]) -> None:
        """Ask for ever, while there is a device of Liqo's."""
        while True:
            await self._is_there.wait()
            if await self._ask_around():
                self._keep()
                tell()
            await self._rest(ROUND_NS / SECOND)

    async def close(self) -> None:
        """Wait until what was good is written."""
        await self._writer.close()

    async def _ask_around(self) -> bool:
        if self._snapshot is None:
            return False
        device = pod_device(self._snapshot)
        source = next(iter(device.addresses), "") if device is not None else ""
        asked = self._audit.questions(self._snapshot, source)
        try:
            answered = await self._ask(asked)
        except KernelError as error:
            if not self._is_refused:
                self._log.warning("liqo.unasked", error=str(error), remedy="its devices and routes are looked at alone")
            self._is_refused = True
            return False
        return self._audit.observe(asked, answered)

    def _load(self) -> tuple[LiqoGood, ...]:
        memory, problem = self._file.load()
        if problem:
            self._log.warning("liqo.unread", error=problem, remedy="it is written anew")
        return memory.good if memory is not None and memory.boot == self._boot else ()

    def _keep(self) -> None:
        if self._audit.known != self._saved:
            self._saved = self._audit.known
            self._writer.keep(LiqoMemory(boot=self._boot, good=self._saved))

    def _save(self, memory: LiqoMemory) -> str:
        """Whole or not at all; a full disk costs the memory across a restart and nothing else."""
        return self._file.save(memory, "what was good of Liqo is forgotten at the next restart")
