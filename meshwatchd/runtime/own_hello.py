"""What this node tells of itself: its view, the operator's word, and what it remembers of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

import meshwatchd
from meshwatchd.core.membership import presence
from meshwatchd.model.discovery import Hello, LocalView, ToldFault
from meshwatchd.model.errors import ConfigError, KernelError
from meshwatchd.model.host_mesh import HOST_MESH_KINDS
from meshwatchd.model.settings import Mode, Settings
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.runtime import short_hellos
from meshwatchd.runtime.reflexive import tunnel_of

CAPABILITIES: Final = (presence.CAPABILITY, short_hellos.CAPABILITY)
"""What peers may expect of this version."""


class OwnHello:
    """Makes this node's hello.

    Args:
        standby_key: this node's public key on standby links; asked for in enforce mode only.
        former: what an earlier process has told last, if any.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        standby_key: Callable[[], str],
        complain: Callable[[str], None],
        wall_ns: Callable[[], int],
        former: Hello | None = None,
    ) -> None:
        self._settings, self._complain, self._wall_ns = settings, complain, wall_ns
        self._make_key = standby_key if settings.daemon.mode is Mode.ENFORCE else lambda: ""
        self._key: str | None = None
        self._capabilities = CAPABILITIES
        self._leads_since_ns = former.leads_since_ns if former is not None else 0

    def make(
        self, view: LocalView, tunnels: tuple[WireGuardState, ...], *, endpoint: str, faults: tuple[ToldFault, ...]
    ) -> Hello:
        """The hello of this moment; the roster adds the location."""
        if not view.is_leader:
            self._leads_since_ns = 0
        elif not self._leads_since_ns:
            self._leads_since_ns = self._wall_ns()
        tunnel = tunnel_of(tunnels, view.wireguard_device)
        # There is room for four layers; a host mesh's is the node's own business, and what is over it names it.
        layers = tuple(layer for layer in view.layers if layer.kind not in HOST_MESH_KINDS)
        return Hello(
            view=msgspec.structs.replace(view.told(), layers=layers),
            standby_public_key=self._standby_key(),
            standby_endpoint=self._settings.discovery.endpoint or view.public_endpoint or endpoint,
            version=meshwatchd.__version__,
            mode=self._settings.daemon.mode,
            capabilities=self._capabilities,
            leads_since_ns=self._leads_since_ns,
            tunnel_public_key=tunnel.public_key if tunnel is not None else "",
            tunnel_port=tunnel.listen_port if tunnel is not None else 0,
            faults=faults,
        )

    def _standby_key(self) -> str:
        """Made when it is first told; some milliseconds of arithmetic, once. Without a key this node relays nothing."""
        if self._key is None:
            try:
                self._key = self._make_key()
            except (ConfigError, KernelError) as error:
                self._complain(str(error))
                return ""
        return self._key
