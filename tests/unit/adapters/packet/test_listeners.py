"""Which sockets listen: those that are wanted, as soon as they can."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import contextmanager

from meshwatchd.adapters.packet.listeners import Listeners
from meshwatchd.adapters.poller import Poller
from tests.support.packet_node import free_port, request, udp
from tests.support.pump import pump


@contextmanager
def _listening(*ports, routed_port=0):
    """Sockets, what was heard on which of them, and what was counted."""
    poller, heard, counters = Poller(), [], Counter[str]()

    def hear(fd):
        heard.append(listeners.by_fd[fd])
        listeners.by_fd[fd].socket.recv(2048)

    listeners = Listeners(poller, hear, counters=counters, routed_port=routed_port)
    try:
        listeners.listen(ports)
        yield poller, listeners, heard, counters
    finally:
        listeners.close()
        poller.close()


def test_a_taken_port_is_tried_again():
    """A port that frees itself is listened on at the next round."""
    port = free_port()
    with udp(address="0.0.0.0", port=port) as taken, _listening(port) as (poller, listeners, heard, counters):
        assert 1 == counters["listen-failed"]
        taken.close()
        listeners.listen_again()
        with udp() as plain:
            plain.sendto(request(), ("127.0.0.1", port))
            pump(poller, lambda: bool(heard))

        assert [port] == [listener.port for listener in heard]
        assert 1 == counters["listen-failed"]


def test_ports_that_are_not_wanted_are_closed():
    """A new topology leaves no listener of the old one behind, and those that it has too stay open."""
    first, second = free_port(), free_port()
    with _listening(first) as (_poller, listeners, _heard, _counters):
        before = dict(listeners.by_fd)
        listeners.listen((first, second))
        assert before.items() <= listeners.by_fd.items()
        listeners.listen((second,))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("", first))
        assert {second} == {listener.port for listener in listeners.by_fd.values()}
        listeners.close()
        assert {} == listeners.by_fd


def test_answers_of_one_port_leave_by_the_routing_table():
    """That of effective probes."""
    ports = free_port(), free_port()
    with _listening(*ports, routed_port=ports[1]) as (_poller, listeners, _heard, _counters):
        routed = {listener.port for listener in listeners.by_fd.values() if listener.is_routed}

        assert {ports[1]} == routed
