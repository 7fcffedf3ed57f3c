import socket

import pytest
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from meshwatchd.adapters.netlink.decode import (
    decode_link,
    decode_rule,
    normalise_prefix,
    protocol_name,
)
from meshwatchd.model.plan import Rule
from meshwatchd.model.snapshot import Link


def message(kind, fields, attributes):
    """A message that went through its bytes, as the kernel's do."""
    encoded = kind()
    for name, value in fields.items():
        encoded[name] = value
    encoded["attrs"] = attributes
    encoded.encode()
    decoded = kind(encoded.data)
    decoded.decode()
    return decoded


def rule(*attributes, action=1, flags=0):
    """A decoded rule of ours with more attributes."""
    fields = {"family": socket.AF_INET, "table": 252, "action": action, "flags": flags}
    fixed = [("FRA_TABLE", 7701), ("FRA_SUPPRESS_PREFIXLEN", 0xFFFFFFFF), ("FRA_PROTOCOL", 117)]
    return decode_rule(message(fibmsg, fields, [*fixed, ("FRA_PRIORITY", 5411), *attributes]))


def test_a_device_has_its_kind_and_its_administrative_state():
    """The kind is nested in IFLA_LINKINFO; IFF_UP is what makes a Kilo node a leader."""
    info = {"attrs": [("IFLA_INFO_KIND", "wireguard")]}
    fields = {"family": socket.AF_UNSPEC, "index": 4, "flags": 1}
    attributes = [("IFLA_IFNAME", "mw0"), ("IFLA_MTU", 1420), ("IFLA_LINKINFO", info)]

    link = decode_link(message(ifinfmsg, fields, attributes))

    assert Link(name="mw0", index=4, kind="wireguard", is_up=True, mtu_bytes=1420) == link


def test_a_device_without_kind_is_down_when_no_flag_says_otherwise():
    """Physical devices have no IFLA_LINKINFO."""
    link = decode_link(message(ifinfmsg, {"index": 2, "flags": 0}, [("IFLA_IFNAME", "eth0"), ("IFLA_MTU", 1500)]))

    assert Link(name="eth0", index=2, kind="", is_up=False, mtu_bytes=1500) == link


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

    record = decode_rule(message(fibmsg, fields, [*attributes, *ports]))

    assert Rule(priority=5410, goto=5480, sport=(10000, 29999), dport=(18620, 18620)) == record.rule
    foreign = decode_rule(message(fibmsg, fields, [*attributes, ("FRA_FWMARK", 1)]))
    assert "rule pref 5410 fwmark 1 goto 5480" == foreign.text


def test_an_inverted_or_blocking_rule_is_not_ours():
    """`not`, `prohibit` and `goto` are said by flags and action, not by attributes."""
    assert rule(flags=2).rule is None
    assert rule(action=8).rule is None


def test_prefixes_and_protocols_read_as_iproute2_writes_them():
    """For comparison and for people."""
    assert "10.2.0.13/32" == normalise_prefix("10.2.0.13")
    assert "10.244.1.0/24" == normalise_prefix("10.244.1.9/24")
    assert ("static", "99") == (protocol_name(4), protocol_name(99))
