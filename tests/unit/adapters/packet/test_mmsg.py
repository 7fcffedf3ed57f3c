"""Batches carry what was put into them, and an error costs one datagram."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from meshwatchd.adapters.packet.address import pack_name
from meshwatchd.adapters.packet.mmsg import ReceiveBatch, SendBatch
from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS, STAMP_BYTES, arrival_wall_ns
from tests.support.packet_node import ADDRESS, udp

SLOTS = 4


def _name(plain: socket.socket) -> bytes:
    return pack_name(*plain.getsockname()[:2])


@pytest.mark.parametrize("address", [ADDRESS, "::1"])
def test_datagrams_arrive_in_order_with_their_senders(address):
    """Of different lengths, and each slot used again with another one."""
    sending, receiving = SendBatch(SLOTS, 64), ReceiveBatch(SLOTS, 64, 0)
    with udp(address) as near, udp(address) as far:
        for packets in ([b"a", b"bb" * 30, b"", b"ccc"], [b"dddd", b"e", b"f" * 64]):
            for packet in packets:
                sending.add(packet, _name(far))
            assert len(packets) == len(sending)
            assert [] == sending.send(near.fileno())
            assert 0 == len(sending)

            assert [(packet, _name(near), b"") for packet in packets] == receiving.receive(far.fileno())
        assert [] == receiving.receive(far.fileno())


def test_one_call_takes_what_fits_and_the_next_the_rest():
    """Fewer than asked for mean that the socket is empty."""
    receiving = ReceiveBatch(SLOTS, 64, 0)
    with udp() as near, udp() as far:
        for number in range(SLOTS + 1):
            near.sendto(bytes((number,)), far.getsockname())

        assert [0, 1, 2, 3] == [data[0] for data, _name, _control in receiving.receive(far.fileno())]
        assert [4] == [data[0] for data, _name, _control in receiving.receive(far.fileno())]


def test_long_datagram_is_cut_off_and_leaves_its_neighbours_alone():
    """A slot has so much room and no more."""
    receiving = ReceiveBatch(SLOTS, 16, 0)
    with udp() as near, udp() as far:
        for packet in (b"first", b"x" * 100, b"last"):
            near.sendto(packet, far.getsockname())

        assert [b"first", b"x" * 16, b"last"] == [packet for packet, *_ in receiving.receive(far.fileno())]


def test_stamp_comes_with_each_datagram():
    """Also with the second of a batch, and in the second batch, whose headers the kernel had shortened."""
    receiving = ReceiveBatch(SLOTS, 16, STAMP_BYTES)
    with udp() as near, udp() as far:
        far.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        for count in (1, 3):
            for _ in range(count):
                near.sendto(b"?", far.getsockname())
            stamps = [arrival_wall_ns(control, 0) for *_, control in receiving.receive(far.fileno())]

            assert count == len(stamps)
            assert all(stamps)


@pytest.mark.parametrize("bad", [0, 1, SLOTS - 1])
def test_error_costs_only_its_own_datagram(bad):
    """Wherever it stands in the batch, those before and behind it are sent, and its own errno is told."""
    sending, receiving = SendBatch(SLOTS, 64), ReceiveBatch(SLOTS, 64, 0)
    with udp() as near, udp() as far:
        for number in range(SLOTS):
            sending.add(bytes((number,)), pack_name("240.0.0.1", 9) if number == bad else _name(far))
        [(position, error)] = sending.send(near.fileno())
        received = [data[0] for data, *_ in receiving.receive(far.fileno())]

    assert bad == position
    assert error in {errno.ENETUNREACH, errno.EINVAL, errno.EHOSTUNREACH}
    assert [number for number in range(SLOTS) if number != bad] == received


def test_each_failure_has_its_own_errno():
    """Two kinds of failure in one batch are told apart."""
    sending = SendBatch(SLOTS, 64)
    with udp() as near, udp() as far:
        sending.add(b"1", pack_name("255.255.255.255", 9))
        sending.add(b"2", _name(far))
        sending.add(b"3", pack_name("::1", 9))
        failed = dict(sending.send(near.fileno()))

    assert {0: errno.EACCES, 2: errno.EAFNOSUPPORT} == failed


def test_full_send_buffer_fails_what_did_not_fit():
    """A blocking probe would stop the loop: what does not fit is EAGAIN, at once."""
    sending = SendBatch(2, 60_000)
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_608)
        failures: list[tuple[int, int]] = []
        for _ in range(64):
            sending.add(b"x" * 512, b"")
            failures.extend(sending.send(near.fileno()))
            if failures:
                break

    assert [(0, errno.EAGAIN)] == failures


def test_dead_descriptor_is_an_error_of_its_own():
    """Nothing to read and nobody there are told apart."""
    receiving = ReceiveBatch(SLOTS, 64, 0)
    reader, writer = os.pipe()
    os.close(writer)
    with pytest.raises(OSError, match=rf"\[Errno {errno.ENOTSOCK}\]"):
        receiving.receive(reader)
    os.close(reader)
