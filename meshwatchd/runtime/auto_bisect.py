"""Proof in the agent: bisections of its own, and taps for those of its peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from meshwatchd.model.frames import FactFrame, KeysFrame
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.outputs import Fact, PathBisected, VerdictChanged
from meshwatchd.model.settings import CONFIG_FILE, MeshSettings, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.runtime.bisecting import Bisections, Spawn, make_spawn
from meshwatchd.runtime.sinks import Warns
from meshwatchd.runtime.tap_listener import TapListener


class Sink(Protocol):
    """Where facts go."""

    def consume(self, frame: FactFrame) -> object:
        """Keep and log a fact."""


class Prover:
    """What the agent has of it."""

    def __init__(
        self,
        settings: Settings,
        config: Path | None,
        *,
        snapshot: Callable[[], Snapshot | None],
        sinks: Sink,
        log: Warns,
        spawn: Spawn | None = None,
    ) -> None:
        self._settings, self._snapshot, self._sinks = settings, snapshot, sinks
        run = spawn or make_spawn(config or Path(CONFIG_FILE), settings.bisect)
        self._bisections = Bisections(run, settings, mesh=self.mesh, tell=self._tell, log=log)
        self.bisect = self._bisections.run
        self._listener = TapListener(settings, mesh=self.mesh, log=log)

    def take(self, fact: Fact) -> None:
        """Look whether a fact of the engine deserves proof."""
        if isinstance(fact, VerdictChanged):
            self._bisections.consider(fact.verdict)

    def bind(self, bindings: Sequence[PairBinding]) -> KeysFrame:
        """Sign and believe questions for taps by the keys of these pairs; returns what tells the engine of them."""
        self._listener.bind(bindings)
        return KeysFrame(bindings=tuple(bindings))

    def duties(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What goes on for ever."""
        return self._bisections.prove_verdicts(), self._listener.serve()

    def mesh(self) -> MeshSettings:
        """The mesh as it is known: found out, or as declared."""
        snapshot = self._snapshot()
        found = snapshot.mesh if snapshot is not None else None
        return found or self._settings.mesh

    def _tell(self, fact: PathBisected) -> None:
        self._sinks.consume(FactFrame(at_ns=time.monotonic_ns(), fact=fact))
