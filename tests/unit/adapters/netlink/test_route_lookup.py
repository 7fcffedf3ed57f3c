"""Where the kernel would send a packet, and which rule decides that."""

from __future__ import annotations

import socket
import struct
import sys

import msgspec
import pytest

from meshwatchd.adapters.netlink import compact
from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.adapters.netlink.route_lookup import RouteLookup
from meshwatchd.adapters.netlink.route_socket import Answer
from meshwatchd.adapters.netlink.tables import Table, apply_to_routes
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion

TO_B2 = RouteQuestion(source="10.244.1.0", destination="10.244.5.0")
FROM_POD = RouteQuestion(source="10.244.1.254", destination="10.244.5.0", iif="cni0")
LOOKUP, UNREACHABLE = 1, 7


def _rule(priority, table=0, *, to="", source="", iif="", action=LOOKUP, extra=b"", flags=0):
    def prefix(kind, text):
        address, _, length = text.partition("/")
        return (encode_attribute(kind, socket.inet_aton(address)), int(length)) if text else (b"", 0)

    (dst, dst_len), (src, src_len) = prefix(1, to), prefix(2, source)
    body = struct.pack("=BBBBB2xBI", socket.AF_INET, dst_len, src_len, 0, table & 0xFF, action, flags)
    body += (
        dst + src + encode_attribute(6, struct.pack("=I", priority)) + encode_attribute(15, struct.pack("=I", table))
    )
    return body + (encode_attribute(3, iif.encode() + b"\0") if iif else b"") + extra


def _route(table, prefix):
    address, _, length = prefix.partition("/")
    body = compact.ROUTE.pack(socket.AF_INET, int(length), 0, 0, 0, 3, 0, 7, 0)
    body += encode_attribute(1, socket.inet_aton(address)) if int(length) else b""
    return compact.pack_route(body + encode_attribute(15, struct.pack("=I", table)))


class Tables:
    """What a mirror holds."""

    def __init__(self, *rules, routes=()):
        self.rules = (_rule(0, 255), *rules, _rule(32766, 254), _rule(32767, 253))
        self.routes = Table(apply_to_routes)
        self.routes.begin()
        for each in routes:
            self.routes.add(each)
        self.routes.finish()

    def devices(self):
        """Those of any node."""
        return {1: "lo", 4: "cni0"}


EVERYTHING = _route(900, "0.0.0.0/0")


def _decides(question, *rules, routes=(EVERYTHING,), table=0):
    lookup = RouteLookup(Tables(*rules, routes=routes))
    try:
        return lookup._decides(question, table)
    finally:
        lookup.close()


TCP, UDP, ICMP = (encode_attribute(22, bytes((number,))) for number in (6, 17, 1))
PORTS = encode_attribute(24, struct.pack("=HH", 443, 443))


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ((), ()),
        ((_rule(100, 900),), ()),
        ((_rule(100, 900, extra=TCP),), (6,)),
        ((_rule(100, 900, extra=UDP), _rule(101, extra=TCP, action=UNREACHABLE)), (6, 17)),
        ((_rule(100, 900, extra=TCP + PORTS), _rule(101, 900, extra=ICMP)), ()),
        ((_rule(100, 900, extra=TCP), _rule(101, 900)[:-3]), ()),
    ],
    ids=["none", "any protocol", "TCP", "both", "ports, and what pods hardly say", "cut short"],
)
def test_protocols_that_rules_single_out_are_known(rules, expected):
    """As in `ip rule add ipproto tcp to 10.244.5.0/24 unreachable`."""
    lookup = RouteLookup(Tables(*rules))
    try:
        assert expected == lookup.protocols == lookup.protocols
    finally:
        lookup.close()


def test_a_rule_by_protocol_decides_for_packets_of_that_protocol_alone():
    """A question of none passes it by."""
    rule = _rule(100, to="10.244.5.0/24", action=UNREACHABLE, extra=TCP)
    of_tcp, of_udp = (msgspec.structs.replace(TO_B2, protocol=number) for number in (6, 17))

    assert "ipproto 6" in _decides(of_tcp, rule, routes=())
    assert "" == _decides(of_udp, rule, routes=()) == _decides(TO_B2, rule, routes=())


def test_the_kernel_is_asked():
    """Loopback is the one way that every machine has; what it cannot be asked has no answer."""
    lookup = RouteLookup(Tables())
    try:
        found = lookup.ask(RouteQuestion(source="127.0.0.1", destination="127.0.0.2"))
        strange = lookup.ask(RouteQuestion(source="127.0.0.1", destination="127.0.0.2", iif="gone0"))
    finally:
        lookup.close()
    assert RouteAnswer(device="lo") == found
    assert RouteAnswer() == strange


def test_the_route_that_is_taken_is_asked_for_by_its_prefix():
    """All of 127.0.0.0/8 is this machine's, by one entry of the table local."""
    lookup = RouteLookup(Tables())
    try:
        found = lookup.ask(RouteQuestion(source="127.0.0.1", destination="127.0.0.2", is_for_entry=True))
    finally:
        lookup.close()
    assert ("lo", "127.0.0.0/8") == (found.device, found.prefix)


@pytest.mark.parametrize(("gateway", "via"), [({}, ""), ({5: bytes((10, 8, 0, 3))}, "10.8.0.3")])
def test_an_answer_has_the_router_that_packets_go_to(gateway, via):
    """RTA_GATEWAY beside RTA_OIF and RTA_TABLE; none where the destination is on the link."""
    lookup = RouteLookup(Tables())
    try:
        attributes = {4: (4).to_bytes(4, sys.byteorder), 15: (254).to_bytes(4, sys.byteorder), **gateway}
        found = lookup._answer(TO_B2, Answer(0, attributes))
    finally:
        lookup.close()
    assert RouteAnswer(device="cni0", via=via) == found


@pytest.mark.parametrize(
    ("question", "rule", "text"),
    [
        (TO_B2, _rule(100, 900, to="10.244.5.0/24"), "100: from all to 10.244.5.0/24 lookup 900"),
        (TO_B2, _rule(100, 900, source="10.244.1.0/24"), "100: from 10.244.1.0/24 lookup 900"),
        (TO_B2, _rule(100, 900, iif="lo"), "100: from all iif lo lookup 900"),
        (FROM_POD, _rule(100, 900, iif="cni0"), "100: from all iif cni0 lookup 900"),
        (TO_B2, _rule(7, to="10.244.0.0/16", action=UNREACHABLE), "7: from all to 10.244.0.0/16 unreachable"),
    ],
)
def test_the_rule_that_leads_nowhere_is_named(question, rule, text):
    """As `ip rule` has it; the rules that everybody has are none."""
    assert text == _decides(question, rule)


@pytest.mark.parametrize(
    "rule",
    [
        _rule(100, 900, to="10.244.6.0/24"),
        _rule(100, 900, source="10.244.2.0/24"),
        _rule(100, 900, iif="kilo0"),
        _rule(100, 900, extra=encode_attribute(10, struct.pack("=I", 0x200))),
        _rule(100, 900, extra=encode_attribute(22, b"\x11")),
        _rule(100, 900, to="10.244.5.0/24", flags=2),
        _rule(100, 901),
        _rule(100, action=4),
    ],
)
def test_a_rule_that_does_not_take_the_packet_is_innocent(rule):
    """Of other prefixes, devices, marks or protocols, inverted, with an empty table, or of another action."""
    assert not _decides(TO_B2, rule)


def test_the_first_rule_that_takes_the_packet_decides():
    """And a table that has no route to it hands it on to the next."""
    rules = _rule(90, 901), _rule(100, 900, to="10.244.5.0/24"), _rule(110, 900)
    routes = _route(901, "10.9.0.0/16"), _route(900, "10.244.4.0/22")
    assert _decides(TO_B2, *rules, routes=routes).startswith("100: ")


def test_where_the_kernel_names_a_table_its_rule_is_told():
    """Whatever other rules there are."""
    rules = _rule(90, 901), _rule(100, 900, to="10.244.5.0/24")
    assert _decides(TO_B2, *rules, table=900).startswith("100: ")
    assert not _decides(TO_B2, *rules, table=254)


def test_the_version_tells_changes_of_rules_and_routes():
    """By which the audit knows when to ask again."""
    tables = Tables()
    lookup = RouteLookup(tables)
    try:
        before = lookup.version
        tables.rules = (*tables.rules, _rule(100, 900))
        with_rule = lookup.version
        tables.routes.version += 1
        assert 3 == len({before, with_rule, lookup.version})
    finally:
        lookup.close()


def test_the_table_that_a_packet_with_ports_takes_is_asked_for():
    """Loopback's is the local one, or the main one while the kernel keeps both in one; no route at all is none."""
    lookup = RouteLookup(Tables())
    try:
        local = lookup.table(RouteQuestion(source="127.0.0.1", destination="127.0.0.2", sport=10000, dport=18621))
        nowhere = lookup.table(RouteQuestion(source="127.0.0.1", destination="0.0.0.1", sport=10000, dport=18621))
    finally:
        lookup.close()

    assert local in (254, 255)
    assert 0 == nowhere
