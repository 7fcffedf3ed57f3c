"""What of a rule's bytes says whether it takes what a failover moves."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Network

import pytest

from meshwatchd.adapters.netlink import compact
from meshwatchd.adapters.netlink.foreign_rules import (
    MAX_DESTINATIONS,
    Destinations,
    describe_destinations,
    describe_foreign,
    routes_of,
)
from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.rule_window import Prefix
from meshwatchd.model.snapshot import DestinationRule
from tests.support.rules import rule_body

INVERT = 2


@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        (rule_body(100, 100), True),
        (rule_body(100, 255), False),
        (rule_body(100, 100, mark=0x200, mask=0xF00), False),
        (rule_body(100, 100, mark=0x200, mask=0xF00, flags=INVERT), True),
        (rule_body(100, 100, mark=0x200, mask=0), True),
        (rule_body(100, 100, extra=encode_attribute(22, b"\x11")), False),
        (rule_body(100, 100, iif="eth0"), True),
        (rule_body(100, 0, action=6), True),
        (rule_body(100, 0, action=2, extra=encode_attribute(4, struct.pack("=I", 9000))), True),
        (rule_body(100, 0, action=3), False),
        (rule_body(100, 100, protocol=117), False),
        (rule_body(32_766, 254), False),
    ],
)
def test_rules_that_take_traffic_nobody_has_singled_out_are_told(body, is_told):
    """Marks and ports single out; local addresses are nobody's route."""
    rules, _ = describe_foreign([body], 117)

    assert is_told == bool(rules)


def test_a_rule_is_told_with_what_decides():
    """Destination, suppression and its words; a goto leads past whatever follows."""
    (rule, jump), taken = describe_foreign(
        [
            rule_body(105, 254, to="10.244.0.0/16", suppress=0),
            rule_body(106, 0, action=2, extra=encode_attribute(4, struct.pack("=I", 9000))),
            rule_body(5400, 7799, protocol=117),
        ],
        117,
    )

    assert (105, 254, Prefix(0x0AF40000, 16), 0) == (rule.priority, rule.table, rule.to, rule.suppressed)
    assert "105" in rule.text
    assert (None, -1) == (jump.table, jump.suppressed)
    assert {105, 106} == taken


def test_a_body_that_is_cut_short_is_refused():
    """Behind the same door as everything foreign."""
    with pytest.raises(DecodeError):
        describe_foreign([rule_body(105, 254)[:6]], 117)


def test_a_throw_ends_no_search():
    """Calico has them for what is not encrypted."""

    def packed(prefix, kind, table=7):
        network = IPv4Network(prefix)
        body = compact.ROUTE.pack(socket.AF_INET, network.prefixlen, 0, 0, 0, 80, 0, kind, 0)
        body += encode_attribute(1, network.network_address.packed)
        return compact.pack_route(body + encode_attribute(15, struct.pack("=I", table)))

    entries = dict([packed("10.1.0.0/16", 1), packed("10.2.0.0/16", 9), packed("10.3.0.0/16", 1, table=8)])

    assert {Prefix(0x0A010000, 16): True, Prefix(0x0A020000, 16): False} == routes_of(entries, 7)


TO = "10.71.0.0/16"


@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        (rule_body(32765, 1_862_403_329, to=TO), True),
        (rule_body(32765, 7, to=TO), True),
        (rule_body(32765, 7, to=TO, extra=encode_attribute(28, b"\xff\xff")), True),
        (rule_body(32765, 7), False),
        (rule_body(32765, 7, to=TO, iif="kilo0"), False),
        (rule_body(32765, 7, to=TO, mark=1), False),
        (rule_body(32765, 7, to=TO, suppress=0), False),
        (rule_body(32765, 7, to=TO, flags=INVERT), False),
        (rule_body(32765, 7, to=TO, protocol=117), False),
        (rule_body(32765, 0, to=TO, action=6), False),
        (rule_body(32765, 7, to=TO, extra=encode_attribute(28, b"\xff\x00")), False),
    ],
)
def test_rules_that_select_by_destination_alone_are_told(body, is_told):
    """As Liqo has them: neither Kilo's for its own device, nor what is singled out."""
    assert is_told == bool(describe_destinations([body], 117))


def test_a_rule_by_destination_is_told_with_table_and_prefix():
    """In the order in which the kernel asks, and no more than a bounded number."""
    bodies = [rule_body(32764, 1_862_403_329, to="10.80.0.1/32"), rule_body(32765, 7, to=TO)]

    assert (
        DestinationRule(priority=32764, to="10.80.0.1/32", table=1_862_403_329),
        DestinationRule(priority=32765, to=TO, table=7),
    ) == describe_destinations(bodies, 117)
    assert MAX_DESTINATIONS == len(describe_destinations(bodies * MAX_DESTINATIONS, 117))


def test_rules_by_destination_are_taken_apart_once_for_each_change():
    """A body that is cut short is refused, and none is told."""
    told, bodies = Destinations(117), (rule_body(32765, 7, to=TO),)
    first = told.of(bodies)

    assert 1 == len(first)
    assert told.of(bodies) is first
    assert () == told.of((bodies[0][:9],))
    assert () == told.of(())
