"""The state of all WireGuard devices, asked for again and again.

Devices of kind `wireguard` are the kernel's; one of kind `tun` is a process's if that listens below /var/run/wireguard.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter

from meshwatchd.adapters.wireguard import genl, uapi
from meshwatchd.adapters.wireguard.device import KERNEL_KIND, USERSPACE_KIND
from meshwatchd.adapters.wireguard.state import LinkState, PeerState
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.snapshot import Link, WireGuardPeer, WireGuardState


class Poll:
    """Asks devices, and puts their answers on one clock.

    A device tells its last handshake by the wall clock, which may be stepped. So the instant on CLOCK_MONOTONIC is
    computed when a handshake is seen for the first time, and kept while the device tells the same.

    Attributes:
        problems: devices that gave no answer last time, and why.
    """

    def __init__(
        self,
        read: Callable[[Link], Awaitable[LinkState]] | None = None,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        wall_clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._read = read or _read
        self._clock, self._wall_clock = clock, wall_clock
        self._handshakes: dict[tuple[str, str], tuple[int, int]] = {}
        self.problems: dict[str, str] = {}

    async def states(self, links: Iterable[Link]) -> tuple[WireGuardState, ...]:
        """What each WireGuard device among the links says, by name; a device that gives no answer is left out."""
        found, problems = [], {}
        for link in sorted(filter(is_wireguard, links), key=lambda link: link.name):
            try:
                found.append(self._translate(link.name, await self._read(link)))
            except (KernelError, DecodeError) as error:
                problems[link.name] = str(error)
        self.problems = problems
        present = {(state.device, peer.public_key) for state in found for peer in state.peers}
        self._handshakes = {key: seen for key, seen in self._handshakes.items() if key in present or key[0] in problems}
        return tuple(found)

    def _translate(self, device: str, state: LinkState) -> WireGuardState:
        # wireguard-go tells them in another order each time; what is compared with what was good must stand still.
        peers = sorted(state.peers, key=attrgetter("public_key"))
        return WireGuardState(
            device=device,
            public_key=state.public_key,
            listen_port=state.listen_port,
            at_ns=self._clock(),
            peers=tuple(self._translate_peer(device, peer) for peer in peers),
        )

    def _translate_peer(self, device: str, peer: PeerState) -> WireGuardPeer:
        return WireGuardPeer(
            public_key=peer.public_key,
            endpoint=peer.endpoint or "",
            allowed_ips=tuple(sorted(peer.allowed_ips)),
            keepalive_s=peer.keepalive_s,
            handshake_ns=self._instant((device, peer.public_key), peer.last_handshake_ns),
            rx_bytes=peer.rx_bytes,
            tx_bytes=peer.tx_bytes,
        )

    def _instant(self, key: tuple[str, str], wall_ns: int) -> int:
        if wall_ns == 0:
            return 0
        told, instant = self._handshakes.get(key, (0, 0))
        if told != wall_ns:
            instant = max(1, self._clock() - max(0, self._wall_clock() - wall_ns))
            self._handshakes[key] = wall_ns, instant
        return instant


def is_wireguard(link: Link) -> bool:
    """Whether a device speaks WireGuard, as far as can be told from outside."""
    return link.kind == KERNEL_KIND or (link.kind == USERSPACE_KIND and uapi.socket_path(link.name).exists())


async def _read(link: Link) -> LinkState:
    return await (genl.read(link.name) if link.kind == KERNEL_KIND else uapi.read(link.name))
