"""What this node tells the others of itself."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

import meshwatchd
from meshwatchd.core.membership.presence import CAPABILITY
from meshwatchd.model.discovery import Hello, LocalView, ToldFault
from meshwatchd.model.errors import ConfigError, KernelError
from meshwatchd.model.settings import Mode, Settings
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.runtime.clocks import Clocks
from meshwatchd.runtime.reflexive import Reflexive, tunnel_of


class OwnHello:
    """Makes it of a view, with what no kernel shows.

    Args:
        settings: the daemon's.
        standby_key: this node's public key on standby links; asked for in enforce mode only, and until there is one.
        reflexive: knows the address that others see.
        clocks: of the machine.
        complain: is told why there is no key.
        leads_since_ns: of the process before this one, by the wall clock; 0 where it did not lead.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        standby_key: Callable[[], str],
        reflexive: Reflexive,
        clocks: Clocks,
        complain: Callable[[str], object],
        leads_since_ns: int = 0,
    ) -> None:
        self._mode, self._endpoint = settings.daemon.mode, settings.discovery.endpoint
        self._make_key = standby_key if self._mode is Mode.ENFORCE else lambda: ""
        self._key: str | None = None
        self._reflexive, self._clocks, self._complain = reflexive, clocks, complain
        self._leads_since_ns = leads_since_ns

    def make(self, view: LocalView, wireguard: tuple[WireGuardState, ...], faults: tuple[ToldFault, ...]) -> Hello:
        """The hello of this moment.

        Args:
            view: this node as it sees itself.
            wireguard: its WireGuard devices.
            faults: what is wrong here.
        """
        if not view.is_leader:
            self._leads_since_ns = 0
        elif not self._leads_since_ns:
            self._leads_since_ns = self._clocks.wall_ns()
        tunnel = tunnel_of(wireguard, view.wireguard_device)
        return Hello(
            view=msgspec.structs.replace(view, candidates=(), why=(), contradictions=()),
            standby_public_key=self._standby_key(),
            standby_endpoint=self._endpoint or view.public_endpoint or self._reflexive.endpoint(),
            version=meshwatchd.__version__,
            mode=self._mode,
            capabilities=(CAPABILITY,),
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
