"""Reads and configures a WireGuard device of the kernel over generic netlink.

Source: linux/wireguard.h (WGDEVICE_A_*, WGPEER_A_*).
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic.wireguard import AsyncWireGuard

from meshwatchd.adapters.wireguard.state import LinkConfig, LinkState, PeerState
from meshwatchd.adapters.wireguard.uapi import render_endpoint
from meshwatchd.model.errors import KernelError


async def read(device: str) -> LinkState:
    """What the device says about itself.

    Raises:
        KernelError: there is no such device, or it is none of WireGuard's.
    """
    async with _wireguard(f"read {device}") as connection:
        return decode([message async for message in await connection.info(device)])
    raise AssertionError


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


def decode(messages: list[Any]) -> LinkState:
    """Turn the answer to WG_CMD_GET_DEVICE into a LinkState.

    A peer whose allowed addresses do not fit into one message is continued in the next one, repeated by its public key
    alone (wg_get_device_dump() in drivers/net/wireguard/netlink.c); its parts are put together here.
    """
    private = public = ""
    port = 0
    peers: dict[str, PeerState] = {}
    for message in messages:
        private = _key(message.get_attr("WGDEVICE_A_PRIVATE_KEY")) or private
        public = _key(message.get_attr("WGDEVICE_A_PUBLIC_KEY")) or public
        port = int(message.get_attr("WGDEVICE_A_LISTEN_PORT") or port)
        for entry in message.get_attr("WGDEVICE_A_PEERS") or ():
            peer = _decode_peer(entry)
            earlier = peers.get(peer.public_key)
            peers[peer.public_key] = peer if earlier is None else _joined(earlier, peer)
    return LinkState(private_key=private, public_key=public, listen_port=port, peers=tuple(peers.values()))


def _decode_peer(entry: Any) -> PeerState:
    handshake = entry.get_attr("WGPEER_A_LAST_HANDSHAKE_TIME") or {"tv_sec": 0, "tv_nsec": 0}
    endpoint = entry.get_attr("WGPEER_A_ENDPOINT")
    return PeerState(
        public_key=_key(entry.get_attr("WGPEER_A_PUBLIC_KEY")),
        endpoint=None if endpoint is None else render_endpoint(str(endpoint["addr"]), int(endpoint["port"])),
        allowed_ips=tuple(str(each["addr"]) for each in entry.get_attr("WGPEER_A_ALLOWEDIPS") or ()),
        keepalive_s=int(entry.get_attr("WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL") or 0),
        last_handshake_ns=int(handshake["tv_sec"]) * 10**9 + int(handshake["tv_nsec"]),
        rx_bytes=int(entry.get_attr("WGPEER_A_RX_BYTES") or 0),
        tx_bytes=int(entry.get_attr("WGPEER_A_TX_BYTES") or 0),
    )


def _joined(first: PeerState, continuation: PeerState) -> PeerState:
    return PeerState(
        public_key=first.public_key,
        endpoint=first.endpoint,
        allowed_ips=first.allowed_ips + continuation.allowed_ips,
        keepalive_s=first.keepalive_s,
        last_handshake_ns=first.last_handshake_ns,
        rx_bytes=first.rx_bytes,
        tx_bytes=first.tx_bytes,
    )


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


def _key(value: Any) -> str:
    """A key in base64; empty for none and for the key of zeros."""
    text = value.decode() if isinstance(value, bytes) else str(value or "")
    return "" if text.startswith("A" * 43) else text


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
