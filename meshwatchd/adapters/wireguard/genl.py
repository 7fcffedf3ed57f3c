"""Reads and configures a WireGuard device of the kernel over generic netlink.

Reading is our own: it is repeated every few seconds, and a device may have a thousand peers. Configuring is pyroute2's.
Source: linux/wireguard.h (WGDEVICE_A_*, WGPEER_A_*, WGALLOWEDIP_A_*), linux/genetlink.h.
"""

from __future__ import annotations

import base64
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic.wireguard import AsyncWireGuard

from meshwatchd.adapters.netlink.compact import Packed
from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.message import attributes, encode_attribute, nested
from meshwatchd.adapters.wireguard.state import LinkConfig, LinkState, PeerState, render_endpoint
from meshwatchd.model.decoding import Door, passable
from meshwatchd.model.errors import KernelError

FAMILY = "wireguard"
_DOOR: Final = Door("WireGuard")

_NETLINK_GENERIC: Final = 16
_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, _CTRL_ID, _CTRL_NAME = 16, 3, 1, 2
_WG_CMD_GET_DEVICE = 0
_IFNAME, _PRIVATE_KEY, _PUBLIC_KEY, _LISTEN_PORT, _PEERS = 2, 3, 4, 6, 8
_PEER_KEY, _ENDPOINT, _KEEPALIVE, _HANDSHAKE, _RX_BYTES, _TX_BYTES, _ALLOWED_IPS = 1, 4, 5, 6, 7, 8, 9
_PREFIX_FAMILY, _PREFIX_ADDRESS, _PREFIX_LENGTH = 1, 2, 3

_GENERIC: Final = struct.Struct("=BB2x")
"""struct genlmsghdr: command, version."""
_TIMESPEC: Final = struct.Struct("=qq")
_SOCKADDR: Final = struct.Struct("=H2s")
_PORT: Final = struct.Struct(">H")
_U16: Final = struct.Struct("=H")
_U64: Final = struct.Struct("=Q")


_families: dict[str, int] = {}
"""Numbers of generic netlink families: the kernel gives them out whenever a module is loaded."""

_OTHERS: Final = frozenset((errno.ENOENT, errno.EOPNOTSUPP))
"""The answers at a number that is nobody's, or another family's, since the module was loaded anew."""


async def read(device: str) -> LinkState:
    """What the device says about itself.

    Raises:
        KernelError: there is no such device, or it is none of WireGuard's.
        DecodeError: the answer is malformed.
    """
    try:
        return await _read(device)
    except KernelError as error:
        if error.errno not in _OTHERS or _families.pop(FAMILY, None) is None:
            raise
        return await _read(device)


async def _read(device: str) -> LinkState:
    dumper = Dumper(_open)
    try:
        family = _families.get(FAMILY) or await _find_family(dumper)
        header = _GENERIC.pack(_WG_CMD_GET_DEVICE, 1) + encode_attribute(_IFNAME, device.encode() + b"\0")
        bodies = await dumper.dump(family, header, f"WireGuard device {device}", _whole)
    finally:
        dumper.close()
    if not bodies:
        raise KernelError(f"read {device}", errno.EOPNOTSUPP, "it is no WireGuard device of the kernel")
    return decode([body for body, _ in bodies])


async def _find_family(dumper: Dumper) -> int:
    """The number of WireGuard's family of generic netlink."""
    for body, _ in await dumper.dump(_GENL_ID_CTRL, _GENERIC.pack(_CTRL_CMD_GETFAMILY, 1), "families", _whole):
        found = attributes(body, _GENERIC.size)
        if found.get(_CTRL_NAME, b"").rstrip(b"\0").decode(errors="replace") == FAMILY:
            with Door("generic netlink"):
                (_families[FAMILY],) = _U16.unpack(found[_CTRL_ID])
            return _families[FAMILY]
    raise KernelError("find WireGuard", errno.ENOENT, "the kernel's wireguard module is not loaded")


def _whole(body: bytes) -> Packed:
    return body, ()


def _open() -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    made = socket.socket(socket.AF_NETLINK, kind, _NETLINK_GENERIC)
    made.bind((0, 0))
    return made


async def configure(device: str, config: LinkConfig, state: LinkState) -> None:
    """Change the device from `state` to `config`; a session with the same peer goes on.

    Raises:
        KernelError: the kernel refuses.
    """
    async with _wireguard(f"configure {device}") as connection:
        # Setting a port opens the UDP socket anew, so an unchanged one is not mentioned.
        if state.private_key != config.private_key:
            await connection.set(device, private_key=config.private_key)
        if state.listen_port != config.listen_port:
            await connection.set(device, listen_port=config.listen_port)
        for stranger in config.strangers(state):
            await connection.set(device, peer={"public_key": stranger, "remove": True})
        await connection.set(device, peer=_peer_request(config))


@_DOOR
def decode(bodies: list[bytes]) -> LinkState:
    """Turn the answer to WG_CMD_GET_DEVICE into a LinkState.

    A peer whose allowed addresses do not fit into one message is continued in the next one, repeated by its public key
    alone (wg_get_device_dump() in drivers/net/wireguard/netlink.c); its parts are put together here.

    Args:
        bodies: messages without struct nlmsghdr, in order.

    Raises:
        DecodeError: the bytes are cut short.
    """
    private = public = ""
    port = 0
    peers: dict[str, PeerState] = {}
    for body in bodies:
        found = attributes(body, _GENERIC.size)
        private = _key(found.get(_PRIVATE_KEY)) or private
        public = _key(found.get(_PUBLIC_KEY)) or public
        if _LISTEN_PORT in found:
            (port,) = _U16.unpack(found[_LISTEN_PORT])
        for entry in nested(found.get(_PEERS, b"")):
            peer = _decode_peer(attributes(entry, 0))
            earlier = peers.get(peer.public_key)
            if earlier is not None:
                peer = replace(earlier, allowed_ips=earlier.allowed_ips + peer.allowed_ips)
            peers[peer.public_key] = peer
    state = LinkState(private_key=private, public_key=public, listen_port=port, peers=tuple(peers.values()))
    return passable(state, _DOOR)


def _decode_peer(found: dict[int, bytes]) -> PeerState:
    seconds, nanoseconds = _TIMESPEC.unpack(found.get(_HANDSHAKE, bytes(16)))
    (keepalive,) = _U16.unpack(found.get(_KEEPALIVE, bytes(2)))
    (received,) = _U64.unpack(found.get(_RX_BYTES, bytes(8)))
    (sent,) = _U64.unpack(found.get(_TX_BYTES, bytes(8)))
    return PeerState(
        public_key=_key(found.get(_PEER_KEY)),
        endpoint=_decode_endpoint(found.get(_ENDPOINT, b"")),
        allowed_ips=tuple(_decode_prefix(attributes(each, 0)) for each in nested(found.get(_ALLOWED_IPS, b""))),
        keepalive_s=keepalive,
        last_handshake_ns=seconds * 10**9 + nanoseconds,
        rx_bytes=received,
        tx_bytes=sent,
    )


def _decode_endpoint(data: bytes) -> str | None:
    """The text of a struct sockaddr_in or sockaddr_in6; the port is in network order."""
    if len(data) < _SOCKADDR.size:
        return None
    family, port = _SOCKADDR.unpack_from(data)
    (port,) = _PORT.unpack(port)
    address = data[4:8] if family == socket.AF_INET else data[8:24]
    return render_endpoint(socket.inet_ntop(family, address), port)


def _decode_prefix(found: dict[int, bytes]) -> str:
    (family,) = _U16.unpack(found.get(_PREFIX_FAMILY, b""))
    return f"{socket.inet_ntop(family, found.get(_PREFIX_ADDRESS, b''))}/{found.get(_PREFIX_LENGTH, bytes(1))[0]}"


def _peer_request(config: LinkConfig) -> dict[str, object]:
    request: dict[str, object] = {
        "public_key": config.peer_public_key,
        "persistent_keepalive": config.keepalive_s,
        "replace_allowed_ips": True,
        "allowed_ips": list(config.allowed_ips),
    }
    if config.endpoint is None:
        return request
    address, port = config.endpoint
    return request | {"endpoint_addr": address, "endpoint_port": port}


def _key(data: bytes | None) -> str:
    """A key in base64; empty for none and for the key of zeros."""
    return base64.b64encode(data).decode() if data and any(data) else ""


@asynccontextmanager
async def _wireguard(operation: str) -> AsyncIterator[Any]:
    """A connection to the wireguard family of generic netlink, closed at the end; errors are translated."""
    connection = AsyncWireGuard()
    try:
        await connection.setup_endpoint()  # looks the family up; ENOENT when the module is not loaded
        yield connection
    except NetlinkError as error:
        raise KernelError(operation, error.code, os.strerror(error.code)) from error
    except OSError as error:
        number = error.errno or errno.EIO
        raise KernelError(operation, number, os.strerror(number)) from error
    finally:
        connection.close()
