"""Datagrams of rtnetlink, packed as linux/rtnetlink.h has them, and what is read out of them."""

import socket
import struct

from netnslab.kilo_writes import decode

MAIN, KILO = 254, 1107
STATIC, OURS = 4, 117


def _message(kind, header, *attributes):
    body = header + b"".join(
        struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4) for number, value in attributes
    )
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def _route(kind, prefix, *, protocol=STATIC, table=MAIN, gateway=None):
    address, _, length = prefix.partition("/")
    header = struct.pack("=8BI", socket.AF_INET, int(length), 0, 0, min(table, 252), protocol, 0, 1, 0)
    via = () if gateway is None else ((5, socket.inet_aton(gateway)),)
    return _message(kind, header, (15, struct.pack("=I", table)), (1, socket.inet_aton(address)), *via)


def _rule(kind, to, table):
    header = struct.pack("=8BI", socket.AF_INET, 32, 0, 0, min(table, 252), 0, 0, 1, 0)
    return _message(kind, header, (15, struct.pack("=I", table)), (1, socket.inet_aton(to)))


def _link(name, flags):
    return _message(16, struct.pack("=BxHiII", 0, 65534, 7, flags, 0), (3, name.encode() + b"\0"))


def _address(name):
    header = struct.pack("=4BI", socket.AF_INET, 16, 0, 0, 7)
    return _message(20, header, (2, socket.inet_aton("10.4.0.1")), (3, name.encode() + b"\0"))


def test_an_agent_s_routes_and_rules_are_told_in_their_order():
    """One datagram may hold several messages."""
    data = (
        _route(25, "10.244.1.0/24", gateway="10.244.4.0")
        + _route(24, "10.2.0.12/32", gateway="10.244.5.0", table=KILO)
        + _rule(32, "10.2.0.12", KILO)
        + _rule(33, "10.2.0.13", KILO)
    )

    assert [
        "route del 10.244.1.0/24 via 10.244.4.0 table 254",
        "route add 10.2.0.12/32 via 10.244.5.0 table 1107",
        "rule add to 10.2.0.12 table 1107",
        "rule del to 10.2.0.13 table 1107",
    ] == list(decode(data))


def test_kilo0_is_told_with_its_state_and_its_address():
    """The flag says whether the node leads."""
    data = _link("kilo0", 0x1041) + _link("kilo0", 0x1040) + _address("kilo0")

    assert ["link set kilo0 up", "link set kilo0 down", "address add 10.4.0.1/16 dev kilo0"] == list(decode(data))


def test_what_others_write_is_passed_over():
    """Ours, the kernel's, another device's, rules into other tables, other messages."""
    data = (
        _route(24, "10.244.1.0/24", protocol=OURS, table=118)
        + _rule(32, "10.2.0.12", MAIN)
        + _link("eth0", 1)
        + _address("eth0")
        + _message(28, bytes(12))
    )

    assert [] == list(decode(data))


def test_a_datagram_that_is_cut_off_is_no_endless_one():
    """A length of nothing goes on by a header at least."""
    assert [] == list(decode(bytes(64)))
