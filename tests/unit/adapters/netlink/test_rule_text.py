"""Policy rules in the words of `ip rule`."""

from __future__ import annotations

import socket
import struct

import pytest

from meshwatchd.adapters.netlink import fibrule
from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.adapters.netlink.rule_text import read_rule
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Rule


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Rule(priority=5460, table=7701), "5460: from all lookup 7701"),
        (Rule(priority=5400, table=7799, iif="mw0"), "5400: from all iif mw0 lookup 7799"),
        (Rule(priority=5411, table=7741, dport=(18621, 18621)), "5411: from all ipproto 17 dport 18621 lookup 7741"),
        (Rule(priority=5411, table=7741, sport=(1, 9)), "5411: from all ipproto 17 sport 1-9 lookup 7741"),
        (Rule(priority=5410, table=0, goto=5480), "5410: from all goto 5480"),
    ],
)
def test_rules_of_ours_are_told_with_their_selectors(rule, text):
    """And by their protocol they are ours."""
    found = read_rule(fibrule.encode_rule(rule, 117))
    assert (text, rule.priority, 117) == (found.text, found.priority, found.protocol)
    assert found.table == (0 if rule.goto else rule.table)


def test_rules_of_others_are_told_as_well():
    """Prefixes, marks, inversion, dead ends."""
    body = struct.pack("=BBBBB2xBI", socket.AF_INET, 24, 16, 0, 0, 7, 2)
    body += encode_attribute(1, socket.inet_aton("10.244.5.0")) + encode_attribute(2, socket.inet_aton("10.1.0.0"))
    body += encode_attribute(6, struct.pack("=I", 100)) + encode_attribute(10, struct.pack("=I", 0xE00))
    assert "100: not from 10.1.0.0/16 to 10.244.5.0/24 fwmark 0xe00 unreachable" == read_rule(body).text


def test_a_rule_that_is_cut_short_is_refused():
    """As bytes of the kernel never are."""
    with pytest.raises(DecodeError):
        read_rule(b"\2\0\0")
