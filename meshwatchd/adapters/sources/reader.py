"""Everything that is read beside the kernel, as one value that is always complete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol, TypeVar

import msgspec

from meshwatchd.adapters.sources import (
    cilium_clusters,
    cilium_nodes,
    files,
    flannel_files,
    http,
    kilo_graph,
    kilo_metrics,
    quick_file,
)
from meshwatchd.adapters.sources.owner import believed
from meshwatchd.adapters.sources.slot import Slot
from meshwatchd.model.settings import SECOND
from meshwatchd.model.sources import CiliumNodes, KiloGraph, QuickFile, Rejection, Sources

AGENT_INTERVAL_NS: Final = 10 * SECOND
"""Who leads shows in the kernel at once; locations change when people move nodes."""

CILIUM_INTERVAL_NS: Final = 30 * SECOND
"""Its answer is long on a large mesh, and nodes come and go slowly."""

CLUSTERS_INTERVAL_NS: Final = 15 * SECOND
"""A control plane that is cut harms nobody at once; the answer has all that the agent does in it."""

ALONE_INTERVAL_NS: Final = 300 * SECOND
"""How often an agent that knows one cluster is asked for others."""

FILE_INTERVAL_NS: Final = 10 * SECOND

Parsed = TypeVar("Parsed")
Listing = TypeVar("Listing", KiloGraph, CiliumNodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the sources are."""

    kilo: http.Address = ("127.0.0.1", 1107)
    cilium: http.Address = field(default=Path("/var/run/cilium/cilium.sock"))
    subnet_files: tuple[Path, ...] = flannel_files.SUBNET_FILES
    configuration_files: tuple[Path, ...] = flannel_files.CONFIGURATION_FILES
    quick_directory: Path = quick_file.DIRECTORY


class _Asked(Protocol):
    """What all slots have in common, whatever they hold."""

    rejection: Rejection | None

    async def refresh(self, now: int, *, is_urgent: bool) -> None: ...


class SourceReader:
    """Reads all sources again and again; call `refresh` every few seconds, each is asked at its own pace.

    Args:
        uids: of users beside root whose programs are asked.

    Attributes:
        sources: as last read.
    """

    def __init__(
        self,
        places: Places | None = None,
        *,
        uids: Collection[int] = (),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._places = places if places is not None else Places()
        self._clock = clock
        kilo, cilium = (partial(_asking, place, believed(uids)) for place in (self._places.kilo, self._places.cilium))
        self._kilo = Slot(kilo_graph.SOURCE, AGENT_INTERVAL_NS, kilo(kilo_graph), kilo_graph.parse)
        self._metrics = Slot(kilo_metrics.SOURCE, AGENT_INTERVAL_NS, kilo(kilo_metrics), kilo_metrics.parse)
        self._cilium = Slot(cilium_nodes.SOURCE, CILIUM_INTERVAL_NS, cilium(cilium_nodes), cilium_nodes.parse)
        self._clusters = Slot(
            cilium_clusters.SOURCE, CLUSTERS_INTERVAL_NS, cilium(cilium_clusters), cilium_clusters.parse
        )
        self._clusters_at: int | None = None
        self._subnets = [_filed(path, flannel_files.parse_subnet) for path in self._places.subnet_files]
        self._backends = [_filed(path, flannel_files.parse_configuration) for path in self._places.configuration_files]
        self._quick: dict[Path, Slot[QuickFile]] = {}
        self.sources = Sources()

    async def refresh(self, *, is_urgent: bool = False) -> Sources:
        """Ask whatever is due, all at once; takes as long as the slowest, two seconds at most.

        And once more as long for other clusters, which Cilium's agent is asked for once it has said that it is there.
        """
        now = self._clock()
        self._find_quick_files()
        slots: tuple[_Asked, ...] = (
            self._kilo,
            self._metrics,
            self._cilium,
            *self._subnets,
            *self._backends,
            *self._quick.values(),
        )
        await asyncio.gather(*(slot.refresh(now, is_urgent=is_urgent) for slot in slots))
        if self._wants_clusters(now):
            await self._clusters.refresh(now, is_urgent=is_urgent)
        self.sources = Sources(
            kilo=_without_pods(self._kilo),
            kilo_metrics=self._metrics.value,
            cilium=_without_pods(self._cilium),
            cilium_clusters=None if self._clusters.is_ended else self._clusters.value,
            flannel=_first(self._subnets),
            flannel_backend=_first(self._backends),
            quick=tuple(slot.value for slot in self._quick.values() if slot.value is not None),
            rejected=_rejections(slot.rejection for slot in (*slots, self._clusters)),
        )
        return self.sources

    def _wants_clusters(self, now: int) -> bool:
        """Whether Cilium's agent is to be asked for other clusters: seldom while it knows of none."""
        nodes, known = self._cilium.value, self._clusters.value
        if nodes is None:
            return False
        is_alone = len({node.cluster for node in nodes.nodes}) < 2 and (known is None or not known.clusters)
        if is_alone and self._clusters_at is not None and now - self._clusters_at < ALONE_INTERVAL_NS:
            return False
        self._clusters_at = now
        return True

    def _find_quick_files(self) -> None:
        found = files.names(self._places.quick_directory, quick_file.SUFFIX, most=quick_file.MAX_FILES)
        self._quick = {path: self._quick.get(path) or _filed(path, quick_file.parse) for path in found}


def _asking(address: http.Address, uids: Collection[int], source: ModuleType) -> Callable[[], Awaitable[bytes | None]]:
    return partial(http.get, address, source.TARGET, source.SOURCE, uids=uids)


def _without_pods(slot: Slot[Listing]) -> Listing | None:
    """What an agent says; of one that is gone without its prefixes, by which traffic is steered."""
    told = slot.value
    if told is None or not slot.is_ended:
        return told
    nodes = tuple(msgspec.structs.replace(node, pod_cidr="") for node in told.nodes)
    return msgspec.structs.replace(told, nodes=nodes)


def _filed(path: Path, parse: Callable[[bytes, Path], Parsed]) -> Slot[Parsed]:
    async def read() -> bytes | None:
        return files.read(path)

    return Slot(str(path), FILE_INTERVAL_NS, read, lambda data: parse(data, path))


def _first(slots: Iterable[Slot[Parsed]]) -> Parsed | None:
    return next((slot.value for slot in slots if slot.value is not None), None)


def _rejections(told: Iterable[Rejection | None]) -> tuple[Rejection, ...]:
    """Each once: an agent that does not answer gives the same reason for all that is asked of it."""
    return tuple(dict.fromkeys(each for each in told if each is not None))
