"""The socket of the tap desk, of the UDP port `model.port_map.tap_port`, and what it is made of on a real node."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Final

from meshwatchd.adapters.storage.mesh_secrets import read_secrets
from meshwatchd.adapters.tap.filter import Wanted
from meshwatchd.adapters.tap.questions import Kernel
from meshwatchd.adapters.tap.taps import Taps
from meshwatchd.model.errors import ConfigError, KernelError
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.port_map import tap_port
from meshwatchd.model.settings import AuthSettings, MeshSettings, Settings
from meshwatchd.model.topology import Node
from meshwatchd.runtime.remote_tap import TapDesk
from meshwatchd.runtime.sinks import Warns
from meshwatchd.wire.auth import MeshKeys, MeshSecret, Purpose
from meshwatchd.wire.tap_request import MAX_BYTES

RETRY_S: Final = 30.0
TURN_S: Final = 0.2
"""Between readings of open taps: their buffers hold what passes in many times that."""
KEYS_S: Final = 5.0
"""How long keys are used before the files are read again: a rotation is followed within that."""
FALLBACK_VXLAN_PORT: Final = 8472


class TapListener:
    """Hears questions and answers them, for as long as it is served."""

    def __init__(
        self, settings: Settings, *, mesh: Callable[[], MeshSettings], log: Warns, desk: TapDesk | None = None
    ) -> None:
        self._port = tap_port(settings.probe.port)
        self._log = log
        self._keys = KeyFiles(settings.daemon.node, settings.auth, mesh)
        self._desk = desk or TapDesk(
            settings.daemon.node,
            mesh=mesh,
            keys=self._keys.read,
            open_taps=lambda asker, ssid: open_taps(asker, ssid, mesh().overlay_device, settings.probe.port),
        )
        self._has_begun = asyncio.Event()

    def bind(self, bindings: Sequence[PairBinding]) -> None:
        """Take over how questions of some nodes are signed."""
        self._keys.bind(bindings)

    async def serve(self) -> None:
        """Listen for ever; a port that is taken is tried again."""
        while True:
            try:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as opened:
                    opened.bind(("", self._port))
                    await self._serve(opened)
            except OSError as error:
                self._log.warning("taps.unheard", port=self._port, error=error.strerror or str(error))
            await asyncio.sleep(RETRY_S)

    async def _serve(self, opened: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(opened, self._receive, opened)
        try:
            while True:
                await self._has_begun.wait()
                await asyncio.sleep(TURN_S)
                self._desk.read()
                if not self._desk.is_open:
                    self._has_begun.clear()
        finally:
            loop.remove_reader(opened)
            self._desk.close()

    def _receive(self, opened: socket.socket) -> None:
        try:
            datagram, asker = opened.recvfrom(MAX_BYTES + 1)
            answer = self._desk.take(datagram)
            if self._desk.is_open:
                self._has_begun.set()
            if answer is not None:
                opened.sendto(answer, asker)
        except OSError:
            # An ICMP error about an earlier answer, or a way back that is gone: the asker asks again.
            return


class KeyFiles:
    """The keys of one purpose: mesh keys as the files have them, read again every few seconds at most."""

    def __init__(
        self,
        node: str,
        auth: AuthSettings,
        mesh: Callable[[], MeshSettings],
        clock: Callable[[], float] = time.monotonic,
        *,
        purpose: Purpose = Purpose.TAPS,
    ) -> None:
        self._node, self._auth, self._mesh, self._clock, self._purpose = node, auth, mesh, clock, purpose
        self._keys: MeshKeys | None = None
        self._bindings: dict[str, PairBinding] = {}
        self._until_s = float("-inf")

    def bind(self, bindings: Iterable[PairBinding]) -> None:
        """Sign and believe by these from here on; peers that are not among them stay as they are."""
        self._bindings |= {each.peer: each for each in bindings}
        self._until_s = float("-inf")

    def read(self) -> MeshKeys | None:
        """The keys; None where there are none that can be used."""
        if self._clock() >= self._until_s:
            self._until_s = self._clock() + KEYS_S
            try:
                self._keys = self._make(read_secrets(self._auth))
            except (ConfigError, ValueError):
                self._keys = None
        return self._keys

    def _make(self, secrets: Sequence[MeshSecret]) -> MeshKeys:
        keys = MeshKeys(self._node, secrets, self._purpose)
        names = [node.name for node in self._mesh().node if node.name != self._node]
        for name in names:
            keys.admit(name)
        keys.bind(self._bindings[name] for name in names if name in self._bindings)
        return keys


def open_taps(asker: Node, ssid: int, overlay_device: str, port: int) -> Taps:
    """Taps for another node's probes: on the overlay device, and on the one that leads to that node.

    Raises:
        KernelError: no CAP_NET_RAW, or the kernel does not answer.
    """
    try:
        with closing(Kernel()) as kernel:
            devices = kernel.devices()
            hop = kernel.hop(socket.inet_aton(asker.node_ip))
    except OSError as error:
        raise KernelError("ask for devices", error.errno or 0, str(error)) from error
    overlay = next((device for device in devices.values() if device.name == overlay_device), None)
    wanted = Wanted(
        addresses=(socket.inet_aton(asker.node_ip), socket.inet_aton(asker.overlay_ip)),
        port=port,
        vxlan_port=(overlay.port if overlay is not None else 0) or FALLBACK_VXLAN_PORT,
    )
    return Taps(overlay, devices.get(hop.index), wanted, ssid=ssid)
