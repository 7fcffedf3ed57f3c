"""Makes WireGuard devices equal to StandbyLinks.

    no device                 record, make (kernel, else wireguard-go), record its index, configure, up
    a device of ours          configure only what differs: the session of an unchanged peer goes on
    ours, does not answer     KernelError; it may be carrying traffic, so it is not replaced
    somebody else's device    KernelError; it is not touched

A device of ours is of a WireGuard kind, and it has the recorded index or our private key (records may be lost, the key
tells). A name proves nothing: one without an index is on record from an attempt that a crash cut short, and somebody
else may have made a device of that name since.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
from collections.abc import Coroutine
from pathlib import Path

from meshwatchd.adapters.host.proc import read_host, read_text
from meshwatchd.adapters.netlink.decode import normalise_prefix
from meshwatchd.adapters.netlink.ports import DeviceKernel
from meshwatchd.adapters.wireguard import conffile, genl, process, uapi
from meshwatchd.adapters.wireguard.files import write_privately
from meshwatchd.adapters.wireguard.identity import find_private_key, load_private_key, public_key
from meshwatchd.adapters.wireguard.registry import Registry
from meshwatchd.adapters.wireguard.state import LinkConfig, LinkState
from meshwatchd.model.errors import ConfigError, DecodeError, KernelError
from meshwatchd.model.host import STRICT
from meshwatchd.model.plan import StandbyLink
from meshwatchd.model.settings import LinkImplementation, StandbySettings
from meshwatchd.model.snapshot import Link

RESOLVE_TIMEOUT_S = 2.0
MAKE_TIMEOUT_S = process.START_TIMEOUT_S
"""How long a stop waits for a device that is being made."""

PROC = Path("/proc")

KERNEL_KIND = "wireguard"
USERSPACE_KIND = "tun"


class Devices:
    """The standby devices of this node.

    Args:
        state_dir: holds links.json and the configuration files.
    """

    def __init__(self, kernel: DeviceKernel, settings: StandbySettings, state_dir: Path) -> None:
        self._kernel = kernel
        self._settings = settings
        self._key_file = Path(settings.private_key_file)
        self._directory = state_dir / "links"
        self._has_kernel_wireguard = settings.implementation is not LinkImplementation.USERSPACE
        self.registry = Registry(state_dir)
        self._making: set[str] = set()

    async def ensure(self, wanted: StandbyLink) -> None:
        """Make the device of that name equal to `wanted`.

        Raises:
            KernelError: the device is somebody else's, or a step was refused.
            ConfigError: the private key is unusable.
        """
        config = await self._config(wanted)
        link = await self._kernel.find_link(wanted.device)
        if link is not None and not await self.is_ours(link):
            text = "a device of that name exists and was not made by meshwatchd; remove it or set kernel.device_prefix"
            raise KernelError(f"make device {wanted.device}", errno.EEXIST, text)
        if link is None:
            link = await _to_its_end(self._make(wanted.device))
        else:
            self.adopt(link)
        await self._configure(link, config, wanted.peer)
        await self._dress(link, config.mtu_bytes)

    def adopt(self, link: Link) -> None:
        """Record a device of ours whose record is lost.

        Raises:
            KernelError: the record cannot be written.
        """
        record = self.registry.find(link.name)
        if record is None or record.index != link.index:
            self.registry.put(link.name, index=link.index, process=record.process if record else None)

    async def remove(self, device: str) -> None:
        """Remove a recorded device and the process behind it.

        Raises:
            KernelError: the kernel refuses, or the record cannot be written.
        """
        record = self.registry.find(device)
        if record is None:
            return
        link = await self._kernel.find_link(device)
        # Before its process ends: that answers for the key of a device without a recorded index.
        is_ours = link is not None and await self.is_ours(link)
        if record.process is not None:
            await process.end(record.process)
            link = await self._kernel.find_link(device)
        if link is not None and is_ours:
            await self._kernel.delete_link(link)
        # A file that stays, as on a disk that is read-only, is compared with what the next device of that name needs.
        with contextlib.suppress(OSError):
            (self._directory / f"{device}.conf").unlink()
        self.registry.forget(device)

    async def is_ours(self, link: Link) -> bool:
        """Whether we made this device."""
        if link.kind not in {KERNEL_KIND, USERSPACE_KIND}:
            return False
        record = self.registry.find(link.name)
        # A device is seen before what makes it has returned with its index.
        if link.name in self._making or (record is not None and record.index == link.index):
            return True
        try:
            state = await self.read(link)
            return state.private_key == find_private_key(self._key_file)
        except (KernelError, DecodeError, ConfigError):
            return False

    async def read(self, link: Link) -> LinkState:
        """What a device says about itself.

        Raises:
            KernelError: nobody answers for it.
            DecodeError: the answer is malformed.
        """
        return await (genl.read(link.name) if link.kind == KERNEL_KIND else uapi.read(link.name))

    def recorded(self) -> tuple[str, ...]:
        """Names of the devices that we made and that may still stand."""
        return tuple(record.device for record in self.registry.records())

    def public_key(self) -> str:
        """This node's public key on standby links, base64.

        Raises:
            ConfigError: the private key is unusable.
        """
        return public_key(load_private_key(self._key_file))

    async def _make(self, device: str) -> Link:
        self.registry.put(device)
        self._making.add(device)
        carrier = None
        try:
            if not await self._make_in_kernel(device):
                carrier = await process.start(device)
                self.registry.put(device, process=carrier)
            link = await self._find_made(device)
        except KernelError:
            # What was not made is not on record: the next device of that name is somebody else's.
            if carrier is not None:
                await process.end(carrier)
            self.registry.forget(device)
            raise
        finally:
            self._making.discard(device)
        self.registry.put(device, index=link.index, process=carrier)
        return link

    async def _find_made(self, device: str) -> Link:
        link = await self._kernel.find_link(device)
        if link is None:
            raise KernelError(f"make device {device}", errno.ENODEV, "it vanished as soon as it was made")
        return link

    async def _make_in_kernel(self, device: str) -> bool:
        """Try the kernel's implementation; remembers when there is none."""
        if not self._has_kernel_wireguard:
            return False
        try:
            await self._kernel.add_wireguard(device)
        except KernelError as error:
            is_optional = self._settings.implementation is LinkImplementation.AUTO
            if error.errno == errno.EOPNOTSUPP and is_optional:
                self._has_kernel_wireguard = False
                return False
            raise
        return True

    async def _configure(self, link: Link, config: LinkConfig, peer: str) -> None:
        """Apply what differs. The file tells a changed endpoint setting from a peer that roamed."""
        path = self._directory / f"{link.name}.conf"
        text = conffile.render(link.name, peer, config)
        state = await self.read(link)
        if not config.is_in_effect(state) or read_text(path) != text:
            configure = genl.configure if link.kind == KERNEL_KIND else uapi.configure
            await configure(link.name, config, state)
            write_privately(path, text)

    async def _dress(self, link: Link, mtu_bytes: int) -> None:
        """No addresses, no reverse path filter, the right MTU, up."""
        if link.is_up and link.mtu_bytes == mtu_bytes:
            return
        await self._kernel.keep_without_addresses(link)
        try:
            (PROC / "sys/net/ipv4/conf" / link.name / "rp_filter").write_text("0")
        except OSError as error:
            # A container may not write here, and need not where the filter in force is not strict: that one would drop
            # packets of the other location, whose way back is still the mesh's own.
            if read_host((link.name,), 0, proc=PROC).rp_filter.get(link.name, STRICT) == STRICT:
                text = f"{error.strerror}; standby paths would lose packets"
                raise KernelError(f"set rp_filter of {link.name} to 0", error.errno or 0, text) from error
        await self._kernel.bring_up(link, mtu_bytes)

    async def _config(self, wanted: StandbyLink) -> LinkConfig:
        return LinkConfig(
            private_key=load_private_key(self._key_file),
            listen_port=wanted.listen_port,
            peer_public_key=wanted.peer_public_key,
            endpoint=None if wanted.endpoint is None else await _resolve(wanted.endpoint),
            allowed_ips=tuple(normalise_prefix(prefix) for prefix in wanted.allowed_ips),
            keepalive_s=wanted.keepalive_s,
            mtu_bytes=wanted.mtu_bytes,
        )


async def _to_its_end(making: Coroutine[object, object, Link]) -> Link:
    """The device that is made, or its error; a stop comes after that.

    A device that is there and not on record, without a key yet, would be a stranger's for the next daemon, which could
    only watch.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(making)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        until_s = loop.time() + MAKE_TIMEOUT_S
        while not task.done() and (left_s := until_s - loop.time()) > 0:
            # Whoever stops may do so twice.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((task,), timeout=left_s)
        # Nobody wants to know any more why it could not be made; asyncio logs what nobody has asked for.
        if not task.cancel() and not task.cancelled():
            task.exception()
        raise


async def _resolve(endpoint: str) -> tuple[str, int]:
    """Address and port of "host:port"; a name is looked up.

    Raises:
        KernelError: the name cannot be resolved in time.
    """
    host, _, port = endpoint.rpartition(":")
    host = host.strip("[]")
    try:
        return str(ipaddress.ip_address(host)), int(port)
    except ValueError:
        pass
    loop = asyncio.get_running_loop()
    try:
        lookup = loop.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
        answers = await asyncio.wait_for(lookup, RESOLVE_TIMEOUT_S)
    # UnicodeError: Python looks up no name with a label that is empty or longer than 63 letters.
    except (OSError, TimeoutError, UnicodeError) as error:
        raise KernelError(f"resolve {host}", errno.EHOSTUNREACH, str(error) or "no answer in time") from error
    address = answers[0][4]
    return str(address[0]), int(address[1])
