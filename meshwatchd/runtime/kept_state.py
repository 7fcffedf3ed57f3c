"""What the next process of this node has to know: read once when the agent starts, written without waiting."""

from __future__ import annotations

from pathlib import Path

from meshwatchd.adapters.storage.background_writer import BackgroundWriter
from meshwatchd.adapters.storage.policy_file import StateFile
from meshwatchd.model.events import StateRestored
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.runtime.sinks import Log


class KeptState:
    """The state file of one node."""

    def __init__(self, folder: Path, log: Log) -> None:
        self._file, self._log = StateFile(folder), log
        self._writer = BackgroundWriter(self._file.save, lambda problem: log.warning("state.unwritten", error=problem))

    def restore(self) -> StateRestored | None:
        """What an earlier process has left; None where there is nothing, or nothing that can be used."""
        state, problem = self._file.load()
        if problem:
            self._log.warning("state.refused", error=problem)
        return None if state is None else StateRestored(state=state)

    def keep(self, state: PolicyState) -> None:
        """Write this, in place of what is there."""
        self._writer.keep(state)

    async def close(self) -> None:
        """Wait until everything is written."""
        await self._writer.close()
