"""One socket for a source port, as long as it is of use."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.packet.ports import SourcePorts
from meshwatchd.adapters.packet.sockets import filtered_packets, open_probe
from meshwatchd.adapters.poller import Poller
from tests.support.packet_node import ADDRESS, free_port, request, udp
from tests.support.pump import pump

MAX_OPEN = 3


class _Node:
    """Source ports on a poller of their own.

    Attributes:
        heard: descriptors that had something to read.
    """

    def __init__(self) -> None:
        self.poller = Poller()
        self.counters: Counter[str] = Counter()
        self.heard: list[int] = []
        self.ports: SourcePorts[str] = SourcePorts(
            poller=self.poller, reader=self.heard.append, counters=self.counters, max_open=MAX_OPEN
        )

    def close(self) -> None:
        self.ports.close()
        self.poller.close()


@pytest.fixture
def node() -> Iterator[_Node]:
    """No port is open yet."""
    made = _Node()
    with closing(made):
        yield made


def _is_open(port: int) -> bool:
    try:
        open_probe(ADDRESS, port).close()
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False


def test_port_is_opened_once(node):
    """Whoever uses it, and it is found by its descriptor; the same port of another address is another."""
    number = free_port()
    port = node.ports.use(ADDRESS, number, is_kept=False)

    assert port is node.ports.use(ADDRESS, number, is_kept=False)
    assert port is node.ports[port.fd]
    assert port is not node.ports.use("127.0.0.2", number, is_kept=False)
    assert 2 == len(node.ports)


def test_reader_is_told_of_what_comes(node):
    """Until the port is closed."""
    port = node.ports.use(ADDRESS, free_port(), is_kept=False)
    with udp() as plain:
        plain.sendto(request(), port.address)
        pump(node.poller, lambda: bool(node.heard))

    assert {port.fd} == set(node.heard)


def test_noise_at_a_passing_port_is_dropped_in_the_kernel_once_it_has_come(node):
    """One that lasts has the filter at once, and one that turns out to last has it from then on."""
    passing, kept, later = (node.ports.use(ADDRESS, free_port(), is_kept=is_kept) for is_kept in (False, True, False))
    node.ports.use(*later.address, is_kept=True)
    for count in (1, 2):
        with udp() as plain:
            for port in (passing, kept, later):
                plain.sendto(b"noise" * 60, port.address)
        pump(node.poller, lambda: passing.fd in node.heard)
        assert [count - 1, count, count] == [filtered_packets(port._socket) for port in (passing, kept, later)]
        passing.guard()
    passing.guard()
    assert {passing.fd} == set(node.heard)


def test_passing_port_closes_after_its_last_use(node):
    """Use makes it young again; a known flow's port stays, even one that was a passing one first."""
    now_ns = monotonic_ns()
    old, used, known = free_port(), free_port(), free_port()
    for number in (old, used, known):
        node.ports.use(ADDRESS, number, is_kept=False).used_ns = now_ns
    node.ports.use(ADDRESS, known, is_kept=True)
    node.ports.use(ADDRESS, used, is_kept=False).used_ns = now_ns + 10

    node.ports.expire(now_ns)
    assert [True, True, True] == [_is_open(number) for number in (old, used, known)]
    node.ports.expire(now_ns + 10)
    assert [False, True, True] == [_is_open(number) for number in (old, used, known)]
    node.ports.expire(now_ns + 11)
    assert [False, False, True] == [_is_open(number) for number in (old, used, known)]
    node.ports.close()
    assert not _is_open(known)


def test_port_with_something_to_send_is_not_closed(node):
    """However old it is."""
    port = node.ports.use(ADDRESS, free_port(), is_kept=False)
    port.queue.append("a probe")
    node.ports.expire(monotonic_ns() + 1)
    assert 1 == len(node.ports)

    port.queue.clear()
    node.ports.expire(monotonic_ns() + 1)
    assert 0 == len(node.ports)


def test_beyond_the_limit_the_oldest_makes_room(node):
    """And if it cannot, the new one is refused with the errno of too many files."""
    numbers = [free_port() for _ in range(MAX_OPEN + 1)]
    ports = [node.ports.use(ADDRESS, number, is_kept=False) for number in numbers]
    assert [False, True, True, True] == [_is_open(number) for number in numbers]
    assert 1 == node.counters["source-ports-limit"]

    for port in ports[1:]:
        port.queue.append("a probe")
    with pytest.raises(OSError, match=rf"\[Errno {errno.EMFILE}\]"):
        node.ports.use(ADDRESS, numbers[0], is_kept=False)


def test_busy_port_leaves_no_trace(node):
    """It is tried again by whoever asks again."""
    with udp() as other:
        number = other.getsockname()[1]
        with pytest.raises(OSError, match=rf"\[Errno {errno.EADDRINUSE}\]"):
            node.ports.use(ADDRESS, number, is_kept=False)
        assert 0 == len(node.ports)

    node.ports.use(ADDRESS, number, is_kept=False)
    assert 1 == len(node.ports)
