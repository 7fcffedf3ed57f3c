"""Discovery that begins with the first mesh key: at the start of the agent, or with the reload that brings one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from meshwatchd.core.membership.mesh_builder import is_whole
from meshwatchd.core.membership.node_list import list_nodes
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.settings import Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Knowledge, Status
from meshwatchd.runtime.discovery import Discovery
from meshwatchd.runtime.sinks import Log
from meshwatchd.wire.auth import MeshSecret


class LateDiscovery:
    """Discovery, or the wait for a key.

    Attributes:
        discovery: None while there is no key, and where discovery is disabled.
    """

    def __init__(self, settings: Settings, make: Callable[[Sequence[MeshSecret]], Discovery]) -> None:
        self._settings, self._make = settings, make
        self.discovery: Discovery | None = None
        self._has_begun = asyncio.Event()

    def use_secrets(self, secrets: Sequence[MeshSecret], snapshot: Snapshot | None = None) -> None:
        """Exchange hellos by these secrets from here on; the first ones begin discovery.

        Raises:
            ValueError: they cannot be used together, and nothing has changed.
        """
        if self.discovery is not None:
            self.discovery.use_secrets(secrets)
        elif secrets and self._settings.discovery.enabled:
            self.discovery = self._make(secrets)
            if snapshot is not None:
                self.discovery.observe(snapshot)
            self._has_begun.set()

    def reload(self, config: Path, snapshot: Snapshot | None, log: Log) -> None:
        """The engine has read its keys again and found them good; the first ones begin discovery."""
        # What reads configurations weighs 3 MiB, which most agents never need.
        from meshwatchd.config.load import load  # noqa: PLC0415
        from meshwatchd.runtime.main import secrets_of  # noqa: PLC0415

        try:
            self.use_secrets(secrets_of(load(config)), snapshot)
        except (ConfigError, ValueError) as error:
            log.error("hello.keys_refused", error=str(error))  # noqa: TRY400  # the text says it all

    def forget(self, node: str) -> bool:
        """Accept whatever identity a node of this name has next; whether one was remembered."""
        return self.discovery is not None and self.discovery.forget(node)

    def confess(self, status: Status) -> None:
        """Tell others what the engine finds wrong with this node, where there is discovery."""
        if self.discovery is not None:
            self.discovery.confess(status)

    async def run(self) -> None:
        """Wait for a key, then exchange hellos for ever."""
        await self._has_begun.wait()
        assert self.discovery is not None, "it has begun"
        await self.discovery.run()

    def duplicates(self) -> Iterator[AuditFinding]:
        """Nodes that share a name."""
        if self.discovery is not None:
            yield from self.discovery.duplicates()

    def unheard(self) -> frozenset[str]:
        """The nodes that are taken for dead."""
        return self.discovery.unheard() if self.discovery is not None else frozenset()

    def nodes(self) -> tuple[NodeStatus, ...]:
        """Every node that is known; without discovery, those that are declared."""
        if self.discovery is not None:
            return self.discovery.nodes()
        return list_nodes(self._settings.mesh, None, {}, 0)

    def knowledge(self) -> Knowledge | None:
        """Where the mesh is known from, for operators; None where it is declared and nothing is to be found out."""
        if self.discovery is not None:
            return self.discovery.knowledge()
        if is_whole(self._settings.mesh):
            return None
        key = self._settings.auth.key_file
        problem = (
            f"there is no mesh key; copy {key} from another node, or make the first one (umask 077; head -c 32"
            f" /dev/urandom | base64 > {key}), then run: systemctl reload meshwatchd"
            if self._settings.discovery.enabled
            else "discovery.enabled is false and [mesh] declares no mesh; declare its locations and nodes, or enable"
            " discovery, then run: systemctl restart meshwatchd"
        )
        return Knowledge(origin="nothing", nodes=1, problems=(problem,))
