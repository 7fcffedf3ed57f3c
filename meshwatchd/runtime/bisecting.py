"""Bisections as the agent has them: a process for each run, one at a time, and some that nobody has to ask for.

verdict --choose_peer, bisect.pause--> wish --> process --> PathBisected
                                        ^          |
                                        +-RETRY_S--+ failed, and the verdict stands
meshwatchctl bisect NODE ---------------------> process --> PathBisected, result
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from meshwatchd.core.diagnosis.bisection_trigger import choose_peer
from meshwatchd.model.bisection import BisectResult, BisectSettings
from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import DecodeError, MeshwatchError
from meshwatchd.model.faults import Verdict
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import PathBisected
from meshwatchd.model.settings import SECOND, MeshSettings, Settings
from meshwatchd.model.units import format_duration
from meshwatchd.runtime.sinks import Warns

MODULE: Final = "meshwatchd.bisect"
SPARE_S: Final = 17.0
"""Beyond its time limit a run on a loaded machine is still worth waiting for; then it is ended."""

RETRY_S: Final = (5.0, 15.0, 45.0)
"""A run fails where the node is short of cores or the peer does not answer, and both may pass."""

Spawn = Callable[[str, bytes], Awaitable[bytes]]
"""Runs the process for a peer with a mesh on standard input; returns what it writes, or raises BisectError."""


class BisectError(MeshwatchError):
    """A bisection that told nothing, with its reason."""


class _Wish(NamedTuple):
    verdict: Verdict
    peer: NodeName


class Bisections:
    """All runs of one agent.

    Args:
        spawn: see `make_spawn`.
        rest: takes seconds, and is asyncio.sleep but in tests.
    """

    def __init__(
        self,
        spawn: Spawn,
        settings: Settings,
        *,
        mesh: Callable[[], MeshSettings],
        tell: Callable[[PathBisected], None],
        log: Warns,
        clock: Callable[[], int] = time.monotonic_ns,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._spawn, self._mesh, self._tell, self._log, self._clock, self._rest = spawn, mesh, tell, log, clock, rest
        self._node = settings.daemon.node
        self._is_wanted = settings.bisect.on_verdict
        self._pause_ns = settings.bisect.pause
        self._next_ns = 0
        self._wish: _Wish | None = None
        self._wished = asyncio.Event()
        self._turn = asyncio.Lock()

    def consider(self, verdict: Verdict) -> None:
        """Run soon if a verdict deserves proof and the last one is long enough ago; of several the last counts.

        What failed and is to be tried again follows the verdict of its pair: to another peer, or not at all.
        """
        peer = choose_peer(verdict, self._mesh(), self._node) if self._is_wanted else None
        if self._wish is not None and self._wish.verdict.pair == verdict.pair:
            self._wish = None if peer is None else _Wish(verdict, peer)
        elif peer is not None and self._clock() >= self._next_ns:
            self._wish = _Wish(verdict, peer)
            self._wished.set()

    async def prove_verdicts(self) -> None:
        """Do what was found worth doing, for ever."""
        while True:
            await self._wished.wait()
            self._wished.clear()
            for rest_s in (*RETRY_S, None):
                if self._wish is None or await self._prove(self._wish, rest_s) or rest_s is None:
                    break
                await self._rest(rest_s)
            self._wish = None

    async def _prove(self, wish: _Wish, rest_s: float | None) -> bool:
        """One run for a verdict; tells whether it gave a result. What gave none is no reason for the whole pause."""
        self._next_ns = self._clock() + self._pause_ns
        try:
            await self.run(wish.peer, wish.verdict)
        except BisectError as error:
            self._log.warning("bisection.failed", peer=wish.peer, error=str(error), again_in_s=rest_s)
            if rest_s is not None:
                self._next_ns = self._clock() + int(rest_s * SECOND)
            return False
        return True

    async def run(self, peer: str, verdict: Verdict | None = None) -> BisectResult:
        """One run, told as a fact; a second one waits for the first. Without a verdict an operator has asked.

        Raises:
            BisectError: it was refused, failed or took too long.
        """
        async with self._turn:
            output = await self._spawn(peer, msgspec.json.encode(self._mesh()))
        try:
            result = decode_json(output, BisectResult, Door("bisection"))
        except DecodeError as error:
            raise BisectError(f"bisecting {peer}: its process wrote no result ({error})") from error
        self._tell(fact_of(result, verdict))
        return result


def fact_of(result: BisectResult, verdict: Verdict | None = None) -> PathBisected:
    """What is told of a result, with the verdict that asked for it."""
    return PathBisected(
        pair=-1 if verdict is None else verdict.pair,
        fault="" if verdict is None else verdict.fault.value,
        peer=result.peer,
        place=result.place,
        candidates=result.candidates,
        direction=result.direction,
        flows=result.flows,
        because=result.because,
        duration_ns=result.duration_ns,
    )


def make_spawn(config: Path, settings: BisectSettings) -> Spawn:
    """What runs the process on a configuration file, within the time limit of `[bisect]`."""

    async def spawn(peer: str, mesh: bytes) -> bytes:
        options = ("--config", str(config), "--timeout", format_duration(settings.timeout), "--mesh-stdin", "--", peer)
        return await run_process((sys.executable, "-P", "-m", MODULE, *options), mesh, limit_s=limit_s, what=peer)

    limit_s = settings.timeout / SECOND + SPARE_S
    return spawn


async def run_process(command: tuple[str, ...], data: bytes, *, limit_s: float, what: str) -> bytes:
    """Run a command to its end and return its standard output; nothing of it is left when this returns.

    Raises:
        BisectError: it cannot be started, ended with another status than 0, or was ended at its limit.
    """
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:
        raise BisectError(f"bisecting {what}: {command[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(limit_s):
            output, complaint = await process.communicate(data)
    except TimeoutError:
        raise BisectError(f"bisecting {what}: no result within {limit_s:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if process.returncode:
        reason = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["it ended without a word"]
        raise BisectError(f"bisecting {what}: {reason[0]}")
    return output
