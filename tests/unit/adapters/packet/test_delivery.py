"""How a request came is read from what a real kernel says, and its answer goes back the same way."""

from __future__ import annotations

import socket

import pytest

from meshwatchd.adapters.packet.address import pack_name
from meshwatchd.adapters.packet.delivery import ANSWER_CONTROL_BYTES, REQUEST_CONTROL_BYTES, Delivery, read_delivery
from meshwatchd.adapters.packet.mmsg import ReceiveBatch, SendBatch
from meshwatchd.adapters.packet.sockets import PACKET_BYTES, open_listener
from meshwatchd.adapters.packet.stamps import STAMP_BYTES
from tests.support.packet_node import free_port, request, udp

EF, ECT_1 = 46, 1
LOOPBACK = 1
"""Index of the loopback device in every network namespace."""


def _deliver(address: str, traffic_class: int) -> tuple[bytes, bytes, socket.socket]:
    """A request's sender and ancillary data, and the socket it came from."""
    port = free_port()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    plain = udp(address)
    if family == socket.AF_INET6:
        plain.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, traffic_class)
    else:
        plain.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, traffic_class)
    with open_listener(port, family) as listener:
        plain.sendto(request(), (address, port))
        [(_data, name, control)] = ReceiveBatch(1, PACKET_BYTES, REQUEST_CONTROL_BYTES).receive(listener.fileno())
    return name, control, plain


@pytest.mark.parametrize("address", ["127.0.0.7", "::1"])
@pytest.mark.parametrize("traffic_class", [0, EF << 2 | ECT_1])
def test_way_of_a_request_is_read(address, traffic_class):
    """TTL, address, DSCP and ECN are those it was sent with."""
    name, control, plain = _deliver(address, traffic_class)
    with plain:
        delivery = read_delivery(control[STAMP_BYTES:])
        family = plain.family
        asked = delivery.asked(name, port=7, count=3)

        packed = socket.inet_pton(family, address)
        assert (64, traffic_class, packed) == (delivery.ttl, delivery.traffic_class, delivery.destination)
        assert frozenset((packed,)) == delivery.reflector.addresses == asked.addresses
        arrival = asked.arrival
        assert (packed, plain.getsockname()[1], packed, 7) == (
            arrival.source,
            arrival.source_port,
            arrival.destination,
            arrival.destination_port,
        )
        assert (traffic_class >> 2, traffic_class & 3, 3, 3) == (
            arrival.dscp,
            arrival.ecn,
            arrival.rx_count,
            arrival.tx_count,
        )


def _answered(delivery: Delivery, control: bytes, name: bytes, plain: socket.socket) -> tuple[str, int]:
    """From where, and with which traffic class, an answer comes."""
    family = plain.family
    level = socket.IPPROTO_IPV6 if family == socket.AF_INET6 else socket.IPPROTO_IP
    option = socket.IPV6_RECVTCLASS if family == socket.AF_INET6 else socket.IP_RECVTOS
    plain.setsockopt(level, option, 1)
    sending = SendBatch(1, PACKET_BYTES, ANSWER_CONTROL_BYTES)
    with socket.socket(family, socket.SOCK_DGRAM) as answering:
        sending.add(b"!", name, control)
        assert [] == sending.send(answering.fileno())
    _data, [(_level, _kind, value)], _flags, address = plain.recvmsg(16, 64)
    return address[0], value[0]


@pytest.mark.parametrize("address", ["127.0.0.7", "::1"])
@pytest.mark.parametrize("is_routed", [False, True])
def test_answer_leaves_from_the_address_asked_with_the_dscp_of_the_request(address, is_routed):
    """The ECN bits are the network's, not ours to repeat."""
    name, control, plain = _deliver(address, EF << 2 | ECT_1)
    with plain:
        delivery = read_delivery(control[STAMP_BYTES:])
        answer = delivery.routed_answer if is_routed else delivery.answer

        assert (address, EF << 2) == _answered(delivery, answer, name, plain)


def test_answer_leaves_by_the_interface_of_the_request():
    """Unless it is to be routed: then no interface is named."""
    name, control, plain = _deliver("127.0.0.1", 0)
    plain.close()
    delivery = read_delivery(control[STAMP_BYTES:])

    assert LOOPBACK == int.from_bytes(delivery.answer[16:20], "little")
    assert 0 == int.from_bytes(delivery.routed_answer[16:20], "little")
    assert pack_name("127.0.0.1", 1)[:2] == name[:2]


def test_same_way_is_read_once():
    """All packets of a flow, and of the next, come with the same bytes."""
    _name, control, plain = _deliver("127.0.0.1", 0)
    plain.close()

    assert read_delivery(bytes(control[STAMP_BYTES:])) is read_delivery(bytes(bytearray(control[STAMP_BYTES:])))


@pytest.mark.parametrize("cut", [0, 7, 15, 17])
def test_cut_ancillary_data_is_not_read_beyond_its_end(cut):
    """What the buffer had no room for is unknown."""
    _name, control, plain = _deliver("127.0.0.1", 0)
    plain.close()
    delivery = read_delivery(control[STAMP_BYTES : STAMP_BYTES + cut])

    assert (0, None, bytes(4)) == (delivery.ttl, delivery.traffic_class, delivery.destination)
