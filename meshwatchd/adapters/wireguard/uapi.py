r"""Reads and configures a userspace WireGuard device over its UNIX socket.

The protocol is text: `get=1` or `set=1`, `key=value` lines, an empty line; keys are hexadecimal.
Source: https://www.wireguard.com/xplatform/#cross-platform-userspace-implementation
"""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from meshwatchd.adapters.wireguard.identity import public_key
from meshwatchd.adapters.wireguard.listener import check_listener
from meshwatchd.adapters.wireguard.state import LinkConfig, LinkState, PeerState, render_endpoint
from meshwatchd.model.decoding import Door, passable
from meshwatchd.model.errors import DecodeError, KernelError

SOCKET_DIRECTORY = Path("/var/run/wireguard")
REPLY_TIMEOUT_S = 2.0
REPLY_BYTES = 8 << 20
"""How long an answer may be: a peer has some 400 bytes, and more for each of its prefixes."""

DOOR = Door("uapi", "restart the wireguard-go that serves the device, or remove its socket")
_NO_KEY = "0" * 64
_END = b"\n\n"
_PIECE_BYTES = 1 << 16


def socket_path(device: str) -> Path:
    """Where an implementation listens that serves this device."""
    return SOCKET_DIRECTORY / f"{device}.sock"


async def read(device: str) -> LinkState:
    """What the device says about itself.

    Raises:
        KernelError: nobody serves the device, or it refuses.
        DecodeError: the answer is not in the protocol's form.
    """
    return parse(await _exchange(device, "get=1\n\n", f"read {device}"))


async def configure(device: str, config: LinkConfig, state: LinkState) -> None:
    """Change the device from `state` to `config`; a session with the same peer goes on.

    Raises:
        KernelError: nobody serves the device, or it refuses.
        DecodeError: the answer is not in the protocol's form.
    """
    await _exchange(device, render(config, state), f"configure {device}")


def render(config: LinkConfig, state: LinkState) -> str:
    """The `set` request that leads from `state` to `config`.

    An unchanged private key or port is not mentioned: setting a port opens the UDP socket anew.
    """
    lines = ["set=1"]
    if state.private_key != config.private_key:
        lines.append(f"private_key={_hex(config.private_key)}")
    if state.listen_port != config.listen_port:
        lines.append(f"listen_port={config.listen_port}")
    for stranger in config.strangers(state):
        lines += [f"public_key={_hex(stranger)}", "remove=true"]
    lines.append(f"public_key={_hex(config.peer_public_key)}")
    if config.endpoint is not None:
        lines.append(f"endpoint={render_endpoint(*config.endpoint)}")
    lines += [f"persistent_keepalive_interval={config.keepalive_s}", "replace_allowed_ips=true"]
    lines += [f"allowed_ip={prefix}" for prefix in config.allowed_ips]
    return "\n".join(lines) + "\n\n"


@DOOR
def parse(reply: str) -> LinkState:
    """Turn the answer to `get=1` into a LinkState.

    Raises:
        DecodeError: a line is no assignment, or a value is not what its key promises.
    """
    device: dict[str, list[str]] = {}
    peers: list[dict[str, list[str]]] = []
    for key, value in _assignments(reply):
        if key == "public_key":
            peers.append({})
        target = peers[-1] if peers and key != "errno" else device
        target.setdefault(key, []).append(value)
    private = _base64(device.get("private_key", [_NO_KEY])[0])
    state = LinkState(
        private_key=private,
        public_key=public_key(private) if private else "",
        listen_port=int(device.get("listen_port", ["0"])[0]),
        peers=tuple(_parse_peer(peer) for peer in peers),
    )
    return passable(state, DOOR)


def _parse_peer(peer: dict[str, list[str]]) -> PeerState:
    def number(key: str) -> int:
        return int(peer.get(key, ["0"])[0])

    return PeerState(
        public_key=_base64(peer["public_key"][0]),
        endpoint=peer.get("endpoint", [None])[0],
        allowed_ips=tuple(peer.get("allowed_ip", ())),
        keepalive_s=number("persistent_keepalive_interval"),
        last_handshake_ns=number("last_handshake_time_sec") * 10**9 + number("last_handshake_time_nsec"),
        rx_bytes=number("rx_bytes"),
        tx_bytes=number("tx_bytes"),
    )


def _assignments(reply: str) -> Iterator[tuple[str, str]]:
    for line in reply.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            yield key, value
        elif line:
            raise DecodeError("uapi", f"no assignment: {line[:40]!r}")


async def _exchange(device: str, request: str, operation: str) -> str:
    try:
        async with asyncio.timeout(REPLY_TIMEOUT_S):
            reply = (await _ask(socket_path(device), request.encode("ascii"))).decode("ascii", errors="replace")
    except TimeoutError as error:
        text = f"nothing answers on {socket_path(device)}"
        raise KernelError(operation, errno.ETIMEDOUT, text) from error
    except asyncio.IncompleteReadError as error:
        text = f"{socket_path(device)} closed before its answer was complete"
        raise KernelError(operation, errno.ECONNRESET, text) from error
    except asyncio.LimitOverrunError as error:
        text = f"{socket_path(device)} answers with more than {REPLY_BYTES} bytes"
        raise KernelError(operation, errno.EMSGSIZE, text) from error
    except OSError as error:
        number = error.errno or errno.EIO
        text = f"{socket_path(device)}: {error.strerror or os.strerror(number)}"
        raise KernelError(operation, number, text) from error
    with DOOR:
        number = abs(int(dict(_assignments(reply)).get("errno", "0")))
        text = os.strerror(number)
    if number:
        raise KernelError(operation, number, text)
    return reply


async def _ask(path: Path, request: bytes) -> bytes:
    """The answer up to its empty line.

    Every device is asked every other second, and asyncio's streams cost three times what the question does.

    Raises:
        OSError: nobody listens, or nobody who is trusted.
        IncompleteReadError, LimitOverrunError: the answer has no end, or not within REPLY_BYTES.
    """
    loop, reply = asyncio.get_running_loop(), bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
        await loop.sock_connect(asking, str(path))
        check_listener(asking)
        await loop.sock_sendall(asking, request)
        while (end := reply.find(_END, max(0, len(reply) - _PIECE_BYTES - 1))) < 0:
            if len(reply) > REPLY_BYTES:
                raise asyncio.LimitOverrunError("", len(reply))
            piece = await loop.sock_recv(asking, _PIECE_BYTES)
            if not piece:
                raise asyncio.IncompleteReadError(bytes(reply), None)
            reply += piece
    return bytes(reply[: end + len(_END)])


def _hex(key: str) -> str:
    return base64.b64decode(key).hex()


def _base64(key: str) -> str:
    """A key in base64; empty for the key of zeros, which stands for none."""
    return "" if key == _NO_KEY else base64.b64encode(bytes.fromhex(key)).decode()
