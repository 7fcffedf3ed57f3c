"""What this node can tell of itself, kept up to date: the sources read, the profiles asked, the role steadied."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Self

from meshwatchd.adapters.sources import SourceReader, plugins
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Rejection, Sources
from meshwatchd.profiles import compose
from meshwatchd.profiles.steady import CarrierMemory, Steady


class OwnView:
    """Looks at one node.

    Args:
        uids: of users beside root whose programs it asks.
        looks: the profiles; None takes the built-in and the installed ones.
    """

    def __init__(
        self,
        declared: MeshSettings,
        node: NodeName,
        *,
        reader: SourceReader | None = None,
        uids: Collection[int] = (),
        looks: Mapping[str, compose.Look] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._declared, self._node, self._clock = declared, node, clock
        self._reader = reader if reader is not None else SourceReader(uids=uids)
        self._looks = looks if looks is not None else plugins.load().looks
        self._steady, self._carrier = Steady(), CarrierMemory()

    @classmethod
    def open(cls, settings: Settings, refused: Callable[..., object]) -> Self:
        """The view of a configured node; `refused` takes `source` and `problem` of each third party's profile that
        cannot be used.
        """
        loaded = plugins.load()
        for source, problem in loaded.problems.items():
            refused(source=source, problem=problem)
        node, uids = NodeName(settings.daemon.node), settings.discovery.source_uids
        return cls(settings.mesh, node, uids=uids, looks=loaded.looks)

    @property
    def sources(self) -> Sources:
        """What the sources last said."""
        return self._reader.sources

    async def refresh(self, *, is_urgent: bool = False) -> tuple[bool, tuple[Rejection, ...]]:
        """Read what is due of the sources.

        Returns:
            Whether anything has changed, and what is rejected that was not before.
        """
        before = self._reader.sources
        after = await self._reader.refresh(is_urgent=is_urgent)
        return after != before, tuple(each for each in after.rejected if each not in before.rejected)

    def look(self, snapshot: Snapshot) -> LocalView:
        """The view of this node by a snapshot and what the sources said last; a role that is due counts from now on."""
        view = compose.look(snapshot, self._reader.sources, self._declared, self._node, looks=self._looks)
        return self._steady.observe(self._carrier.observe(view, snapshot), self._clock())

    def deadline(self) -> int | None:
        """When to look again although nothing has changed, on the clock; None for no such need."""
        return self._steady.deadline()
