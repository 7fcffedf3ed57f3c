import socket

import pytest
from pyroute2.netlink.rtnl.fibmsg import fibmsg

from meshwatchd.adapters.netlink.message import HEADER, encode_attribute
from meshwatchd.adapters.netlink.rules import describe_rule, priority_and_protocol
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Rule
from tests.support.fake_rtnl import OURS, STATIC, rule_body

OVERRIDE = Rule(priority=5460, table=7701)
MARKED = rule_body(Rule(priority=100, table=2004), STATIC) + encode_attribute(10, (0x200).to_bytes(4, "little"))
"""One of Cilium's: it selects by a firewall mark."""


def read(fields, attributes):
    """A rule as pyroute2 encodes it, behind its netlink header."""
    encoded = fibmsg()
    for name, value in fields.items():
        encoded[name] = value
    encoded["attrs"] = attributes
    encoded.encode()
    return describe_rule(bytes(encoded.data[HEADER.size :]))


def rule(*attributes, action=1, flags=0):
    """A decoded rule of ours with more attributes."""
    fields = {"family": socket.AF_INET, "table": 252, "action": action, "flags": flags}
    fixed = [("FRA_TABLE", 7701), ("FRA_SUPPRESS_PREFIXLEN", 0xFFFFFFFF), ("FRA_PROTOCOL", 117)]
    return read(fields, [*fixed, ("FRA_PRIORITY", 5411), *attributes])


def test_a_rule_of_ours_is_described():
    """As `ip` would say it."""
    record = describe_rule(rule_body(OVERRIDE))

    assert (OVERRIDE, OURS, 5460, 7701) == (record.rule, record.protocol, record.priority, record.table)
    assert "rule pref 5460 from all lookup 7701" == record.text


def test_a_rule_we_never_ask_for_is_described_by_what_it_selects():
    """Somebody will have to find it."""
    record = describe_rule(MARKED)

    assert (None, STATIC, 100, 2004) == (record.rule, record.protocol, record.priority, record.table)
    assert "rule pref 100 fwmark 512 lookup 2004" == record.text


def test_a_delivery_rule_is_recognised():
    """As the agent itself makes it."""
    assert Rule(priority=5411, table=7701, iif="mw0") == rule(("FRA_IIFNAME", "mw0")).rule


def test_a_selector_of_ports_is_recognised():
    """Ports imply UDP."""
    record = rule(("FRA_IP_PROTO", 17), ("FRA_DPORT_RANGE", "18621:18621"))

    assert Rule(priority=5411, table=7701, dport=(18621, 18621)) == record.rule
    assert "rule pref 5411 from all ipproto udp dport 18621 lookup 7701" == record.text


@pytest.mark.parametrize(
    "attributes",
    [
        [("FRA_FWMARK", 1)],
        [("FRA_OIFNAME", "eth0")],
        [("FRA_IP_PROTO", 6), ("FRA_DPORT_RANGE", "18621:18621")],
        [("FRA_IP_PROTO", 17)],
    ],
    ids=["mark", "oif", "tcp", "no-port"],
)
def test_a_rule_we_never_make_is_not_taken_for_ours(attributes):
    """It has our number and still is somebody else's; it stays visible as text."""
    record = rule(*attributes)

    assert record.rule is None
    assert (5411, 7701, 117) == (record.priority, record.table, record.protocol)
    assert record.text.startswith("rule pref 5411 ")


def test_a_jump_is_recognised():
    """It has no table; the kernel reports table 0."""
    attributes = [("FRA_TABLE", 0), ("FRA_PROTOCOL", 117), ("FRA_PRIORITY", 5410), ("FRA_GOTO", 5480)]
    fields = {"family": socket.AF_INET, "table": 0, "action": 2}
    ports = [("FRA_IP_PROTO", 17), ("FRA_SPORT_RANGE", "10000:29999"), ("FRA_DPORT_RANGE", "18620:18620")]

    record = read(fields, [*attributes, *ports])

    assert Rule(priority=5410, goto=5480, sport=(10000, 29999), dport=(18620, 18620)) == record.rule
    foreign = read(fields, [*attributes, ("FRA_FWMARK", 1)])
    assert "rule pref 5410 fwmark 1 goto 5480" == foreign.text


def test_an_inverted_or_blocking_rule_is_not_ours():
    """`not`, `prohibit` and `goto` are said by flags and action, not by attributes."""
    assert rule(flags=2).rule is None
    assert rule(action=8).rule is None


def test_whatever_a_rule_of_others_selects_is_told():
    """In the words by which it can be found."""
    names = [("FRA_SRC", "10.1.0.0"), ("FRA_DST", "10.2.0.0"), ("FRA_IIFNAME", "eth0"), ("FRA_OIFNAME", "tun0")]
    numbers = [("FRA_FWMARK", 256), ("FRA_IP_PROTO", 6), ("FRA_SPORT_RANGE", "1:2"), ("FRA_DPORT_RANGE", "3:3")]
    selected = "from 10.1.0.0 to 10.2.0.0 iif eth0 oif tun0 fwmark 256 ipproto 6 sport 1:2 dport 3:3"

    assert f"rule pref 5411 {selected} lookup 7701" == rule(*names, *numbers).text


@pytest.mark.parametrize("given", [OVERRIDE, Rule(priority=0, table=255)])
def test_priority_and_protocol_are_read_without_the_rest(given):
    """The rule of the local table has no priority."""
    assert (given.priority, OURS) == priority_and_protocol(rule_body(given))
    assert (0, 0) == priority_and_protocol(bytes((socket.AF_INET, *bytes(11))))


def test_bytes_cut_short_are_refused():
    """Whatever the kernel's reason."""
    with pytest.raises(DecodeError):
        describe_rule(b"\x02")
    with pytest.raises(DecodeError):
        priority_and_protocol(rule_body(OVERRIDE)[:-4])
