"""Questions to a running lab: does this packet get there, and which devices does it cross?

Sockets are made in the namespaces of nodes and pods by a thread of the test, so a flow costs no process.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from netnslab import Inhabitant

ANSWER_WAIT_S = 0.25
"""A round trip takes 1 ms natively and some 20 ms under emulation."""

LOOPS = 3

Datagram = tuple[bytes, tuple[str, int]]
"""Payload and sender."""


def pings(source: Inhabitant, address: str) -> bool:
    """Whether one ICMP echo is answered within a second."""
    return source.run(["ping", "-n", "-q", "-c", "1", "-W", "1", address]).returncode == 0


def udp_socket(place: Inhabitant, port: int = 0) -> socket.socket:
    """A UDP socket that lives where `place` lives, bound to its own address, with a receive timeout."""
    return place.space.call(partial(_bound_udp_socket, place.ip, port))


def _bound_udp_socket(address: str, port: int) -> socket.socket:
    endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((address, port))
    endpoint.settimeout(ANSWER_WAIT_S)
    return endpoint


def received(endpoint: socket.socket) -> Datagram | None:
    """The next datagram and who sent it, or None when none comes in time."""
    try:
        return endpoint.recvfrom(2048)
    except (TimeoutError, ConnectionRefusedError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One UDP 5-tuple between two places; each call sends one datagram there and one back."""

    near: socket.socket
    far: socket.socket
    destination: tuple[str, int]

    def arrives(self) -> bool:
        """Whether a datagram gets there; nothing is sent back."""
        self.near.sendto(b"there", self.destination)
        return received(self.far) is not None

    def echoes(self) -> bool:
        """Whether a datagram gets there and its answer comes back."""
        self.near.sendto(b"there", self.destination)
        request = received(self.far)
        if request is None:
            return False
        self.far.sendto(b"back", request[1])
        return received(self.near) is not None

    def echoes_eventually(self) -> bool:
        """Whether one of a few tries echoes: the first may meet an unresolved neighbour or a handshake."""
        return any(self.echoes() for _ in range(LOOPS))


@contextmanager
def flow(near: Inhabitant, far: Inhabitant, *, via: str | None = None, port: int = 0) -> Iterator[Flow]:
    """A new flow from a fresh source port.

    Args:
        near: who sends first.
        far: who answers.
        via: the address to send to, when it is not `far`'s own (behind NAT).
        port: destination port; 0 for any free one.
    """
    with udp_socket(near) as one, udp_socket(far, port) as other:
        yield Flow(near=one, far=other, destination=(via or far.ip, other.getsockname()[1]))


def fresh_flows_alive(near: Inhabitant, far: Inhabitant, count: int) -> int:
    """How many of `count` flows that never were before get an answer; all are tried at once."""
    with ExitStack() as stack:
        flows = [stack.enter_context(flow(near, far)) for _ in range(count)]
        for each in flows:
            each.near.sendto(b"there", each.destination)
        requests = _received_by_all([each.far for each in flows])
        for each, request in zip(flows, requests, strict=True):
            if request is not None:
                each.far.sendto(b"back", request[1])
        return sum(answer is not None for answer in _received_by_all([each.near for each in flows]))


def _received_by_all(endpoints: list[socket.socket]) -> list[Datagram | None]:
    """The next datagram of each; all of them share the time one would have."""
    deadline = time.monotonic() + ANSWER_WAIT_S
    datagrams = []
    for endpoint in endpoints:
        endpoint.settimeout(max(0.0001, deadline - time.monotonic()))
        datagrams.append(received(endpoint))
        endpoint.settimeout(ANSWER_WAIT_S)
    return datagrams


def tcp_exchanges(near: Inhabitant, far: Inhabitant) -> bool:
    """Whether a TCP connection is made and carries more than one segment each way."""
    payload = bytes(8000)
    with far.space.call(partial(socket.create_server, (far.ip, 0))) as server:
        server.settimeout(2.0)
        with near.space.call(partial(_connect, server.getsockname())) as client:
            accepted, _ = server.accept()
            with accepted:
                accepted.settimeout(2.0)
                client.sendall(payload)
                there = _read(accepted, len(payload))
                accepted.sendall(there)
                return _read(client, len(payload)) == payload


def _connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=2.0)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (chunk := connection.recv(size - len(data))):
        data += chunk
    return data


def packets(node: Inhabitant, device: str) -> tuple[int, int]:
    """Packets a device of a node has received and sent."""
    (link,) = json.loads(node.run(["ip", "-j", "-s", "link", "show", device], check=True).stdout)
    return link["stats64"]["rx"]["packets"], link["stats64"]["tx"]["packets"]
