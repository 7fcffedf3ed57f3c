"""A glance at the peers of a WireGuard device, for the engine: 0.1 ms, and they say whether Kilo is at work.

    kernel     WG_CMD_GET_DEVICE over generic netlink: the dump waits in the socket when sendto() returns
    process    get=1 on its socket: the answer comes when the process is run

The agent reads the same at leisure, but is an ordinary process: on a busy node it is run when all is decided. A device
of hundreds of peers takes too long for the engine and is left to the agent.

Source: linux/wireguard.h, linux/genetlink.h;
https://www.wireguard.com/xplatform/#cross-platform-userspace-implementation
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from meshwatchd.adapters.netlink.message import (
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
    attributes,
    encode,
    encode_attribute,
    nested,
    split,
)
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.wireguard.listener import check_listener
from meshwatchd.model.decoding import Door, passable
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.snapshot import WireGuardPeer

SOCKETS: Final = Path("/var/run/wireguard")
FAMILY: Final = "wireguard"
_DOOR: Final = Door("WireGuard")

MAX_PIECES: Final = 4
PIECE_BYTES: Final = 32 * 1024
"""A dump that is not over by then is of hundreds of peers: it is broken off, and none is asked for again."""

_NETLINK_GENERIC: Final = 16
_GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, _CTRL_ID, _CTRL_NAME = 16, 3, 1, 2
_WG_CMD_GET_DEVICE: Final = 0
_IFNAME, _PEERS = 2, 8
_PEER_KEY, _HANDSHAKE, _RX_BYTES, _TX_BYTES = 1, 6, 7, 8
_GENERIC: Final = struct.Struct("=BB2x")
_TIMESPEC: Final = struct.Struct("=qq")
_U16: Final = struct.Struct("=H")
_U64: Final = struct.Struct("=Q")

Peers = tuple[WireGuardPeer, ...]


class Glance:
    """Asks one device at a time; who asked is told when the answer is here.

    Args:
        take: is told a device and its peers: key in hexadecimal, counters, handshake as wall clock in nanoseconds.

    Attributes:
        too_large: devices that are left to the agent.
    """

    def __init__(
        self,
        *,
        poller: Poller,
        take: Callable[[str, Peers], None],
        sockets: Path = SOCKETS,
        generic: Callable[[], socket.socket] | None = None,
    ) -> None:
        self._poller, self._take, self._sockets = poller, take, sockets
        self._generic = generic or _open
        self._family = 0
        self._process: socket.socket | None = None
        self._asked = ""
        self._answer = bytearray()
        self.too_large: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        """Whether a process has not answered yet; asked again it is waited for anew."""
        return self._process is not None

    def ask(self, device: str) -> None:
        """Look at a device; one that gives no answer is as if nobody had asked."""
        if device in self.too_large:
            return
        path = self._sockets / f"{device}.sock"
        if path.exists():
            self._ask_process(device, path)
        else:
            self._ask_kernel(device)

    def close(self) -> None:
        """Wait for nobody."""
        if self._process is not None:
            self._poller.forget(self._process.fileno())
            self._process.close()
            self._process = None

    def _ask_process(self, device: str, path: Path) -> None:
        self.close()
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            asking.connect(str(path))
            check_listener(asking)
            asking.send(b"get=1\n\n")
        except OSError:
            asking.close()
            return
        self._process, self._asked, self._answer = asking, device, bytearray()
        self._poller.add(asking.fileno(), self._on_readable)

    def _on_readable(self, _fd: int) -> None:
        assert self._process is not None, "nobody is listened to who was not asked"
        with contextlib.suppress(OSError):
            piece = self._process.recv(PIECE_BYTES)
            self._answer += piece
            if piece and not self._answer.endswith(b"\n\n"):
                if len(self._answer) < MAX_PIECES * PIECE_BYTES:
                    return
                self.too_large.add(self._asked)
            elif piece:
                with contextlib.suppress(DecodeError):
                    peers = parse(self._answer.decode("ascii", errors="replace"))
                    self.close()
                    self._take(self._asked, peers)
                    return
        self.close()

    def _ask_kernel(self, device: str) -> None:
        with contextlib.suppress(OSError, DecodeError), self._generic() as connection:
            self._family = self._family or _find_family(connection)
            body = _GENERIC.pack(_WG_CMD_GET_DEVICE, 1) + encode_attribute(_IFNAME, device.encode() + b"\0")
            connection.send(encode(self._family, NLM_F_REQUEST | NLM_F_DUMP, 1, body))
            bodies: list[bytes] = []
            for _ in range(MAX_PIECES):
                for message in split(connection.recv(PIECE_BYTES)):
                    if message.kind == NLMSG_DONE:
                        self._take(device, decode(bodies))
                        return
                    if message.kind == NLMSG_ERROR:
                        # The family has another number once its module has been loaded anew.
                        self._family = 0
                        return
                    bodies.append(message.body)
            self.too_large.add(device)


@_DOOR
def parse(reply: str) -> Peers:
    """The peers in the answer to get=1.

    Raises:
        DecodeError: a figure is none, or the process reports an error.
    """
    found: list[dict[str, str]] = []
    for line in reply.splitlines():
        key, _, value = line.partition("=")
        if key == "public_key":
            found.append({})
        elif key == "errno" and int(value):
            raise ValueError(line)
        if found:
            found[-1][key] = value
    peers = tuple(
        WireGuardPeer(
            public_key=bytes.fromhex(peer["public_key"]).hex(),
            handshake_ns=int(peer.get("last_handshake_time_sec", 0)) * 10**9
            + int(peer.get("last_handshake_time_nsec", 0)),
            rx_bytes=int(peer.get("rx_bytes", 0)),
            tx_bytes=int(peer.get("tx_bytes", 0)),
        )
        for peer in found
    )
    return passable(peers, _DOOR)


@_DOOR
def decode(bodies: Iterable[bytes]) -> Peers:
    """The peers in the messages of a dump, which are without struct nlmsghdr.

    Raises:
        DecodeError: the bytes are cut short.
    """
    peers: dict[str, WireGuardPeer] = {}
    for body in bodies:
        for entry in nested(attributes(body, _GENERIC.size).get(_PEERS, b"")):
            found = attributes(entry, 0)
            key = found.get(_PEER_KEY, b"").hex()
            seconds, nanoseconds = _TIMESPEC.unpack(found.get(_HANDSHAKE, bytes(_TIMESPEC.size)))
            # One whose prefixes take several messages is repeated by its key alone.
            peers.setdefault(
                key,
                WireGuardPeer(
                    public_key=key,
                    handshake_ns=seconds * 10**9 + nanoseconds,
                    rx_bytes=_U64.unpack(found.get(_RX_BYTES, bytes(8)))[0],
                    tx_bytes=_U64.unpack(found.get(_TX_BYTES, bytes(8)))[0],
                ),
            )
    return passable(tuple(peers.values()), _DOOR)


def _find_family(connection: socket.socket) -> int:
    """The number of WireGuard's family; OSError or DecodeError where its module is not loaded."""
    name = encode_attribute(_CTRL_NAME, FAMILY.encode() + b"\0")
    connection.send(encode(_GENL_ID_CTRL, NLM_F_REQUEST, 1, _GENERIC.pack(_CTRL_CMD_GETFAMILY, 1) + name))
    for message in split(connection.recv(PIECE_BYTES)):
        if message.kind == _GENL_ID_CTRL:
            with Door("generic netlink"):
                return int(_U16.unpack(attributes(message.body, _GENERIC.size).get(_CTRL_ID, b""))[0])
    raise DecodeError("generic netlink", f"no family {FAMILY}")


def _open() -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    return socket.socket(socket.AF_NETLINK, kind, _NETLINK_GENERIC)
