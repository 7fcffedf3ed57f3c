import socket
import struct
from typing import Any

from meshwatchd.adapters.netlink import monitor
from meshwatchd.adapters.netlink.message import Message, encode
from meshwatchd.adapters.netlink.monitor import OVERRUN, Monitor, Overrun, hand_over
from meshwatchd.model.errors import DecodeError


class Pipe(Monitor):
    """A monitor at the end of a socket pair."""

    def __init__(self):
        self.kernel, self._socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._buffer = bytearray(monitor.DATAGRAM_BYTES)


class Failing:
    """A socket that has lost something once, and has nothing more."""

    def __init__(self, number):
        self.errors = [OSError(number, "lost"), BlockingIOError()]

    def recv_into(self, buffer):
        """Fail as told."""
        raise self.errors.pop(0)


def read(watched):
    """What one call hands over."""
    taken: list[object] = []
    watched.read(taken.append)
    return taken


def test_messages_are_handed_over_in_order_and_undecoded():
    """The kernel packs notifications of one operation together."""
    pipe = Pipe()
    pipe.kernel.send(encode(32, 0, 0, b"rule") + encode(33, 0, 0, b"gone"))
    pipe.kernel.send(encode(24, 0x400, 0, b"routed.."))

    assert [
        Message(32, 0, 0, b"rule"),
        Message(33, 0, 0, b"gone"),
        Message(24, 0x400, 0, b"routed.."),
    ] == read(pipe)
    assert [] == read(pipe)
    pipe.kernel.close()
    pipe.close()


def test_the_event_loop_gets_its_turn():
    """A burst is read in parts."""
    watched: Any = Pipe()
    watched._socket.close()

    class Endless:
        def recv_into(self, buffer):
            data = encode(24, 0, 0, b"")
            buffer[: len(data)] = data
            return len(data)

    watched._socket = Endless()
    assert monitor.BATCH == len(read(watched))
    watched.kernel.close()


def test_lost_notifications_are_an_overrun():
    """ENOBUFS is told once, and reading goes on."""
    watched: Any = Pipe()
    for end in (watched.kernel, watched._socket):
        end.close()
    watched._socket = Failing(105)

    assert [OVERRUN] == read(watched)


def test_a_malformed_datagram_is_an_overrun():
    """What it wanted to tell is lost, and it is told what was wrong; what came before it is not."""
    taken: list[object] = []
    hand_over(encode(24, 0, 0, b"") + struct.pack("=IHHII", 3, 33, 0, 0, 0), taken.append)

    assert [Message(24, 0, 0, b""), Overrun(reason="netlink message: length 3 at byte 16 of 32")] == taken


def test_a_message_its_taker_cannot_read_is_an_overrun():
    """The same as if it had been lost."""
    taken: list[object] = []

    def refuse(notification):
        if not isinstance(notification, Overrun):
            raise DecodeError("netlink route", "short")
        taken.append(notification)

    hand_over(encode(24, 0, 0, b""), refuse)

    assert [Overrun(reason="netlink route: short")] == taken


def test_all_groups_of_the_mirror_are_subscribed():
    """Bits of linux/rtnetlink.h: LINK, NEIGH, addresses, routes and rules of both families, NEXTHOP."""
    assert 0x1 | 0x4 | 0x10 | 0x40 | 0x80 | 0x100 | 0x400 | 1 << 18 | 1 << 31 == monitor.GROUPS
