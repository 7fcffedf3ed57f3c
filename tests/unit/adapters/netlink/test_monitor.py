import socket
import struct

import pytest
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from meshwatchd.adapters.netlink.monitor import (
    AddressEvent,
    LinkEvent,
    RouteEvent,
    RuleEvent,
    decode_datagram,
)
from meshwatchd.model.plan import Rule

OURS = 117


def packed(kind, number, fields, attributes):
    """A notification as the kernel sends it."""
    message = kind()
    message["header"]["type"] = number
    for name, value in fields.items():
        message[name] = value
    message["attrs"] = attributes
    message.encode()
    return bytes(message.data)


def route(number, *, protocol, table, family=socket.AF_INET):
    """A notification about a route."""
    fields = {"family": family, "dst_len": 24, "proto": protocol, "type": 1, "table": table if table < 256 else 252}
    attributes = [("RTA_TABLE", table), ("RTA_OIF", 4)]
    if family == socket.AF_INET:
        attributes.append(("RTA_DST", "10.244.1.0"))
    return packed(rtmsg, number, fields, attributes)


def rule(number):
    """A notification about an override of ours."""
    fields = {"family": socket.AF_INET, "table": 252, "action": 1}
    attributes = [("FRA_TABLE", 7701), ("FRA_PROTOCOL", OURS), ("FRA_PRIORITY", 5460)]
    return packed(fibmsg, number, fields, attributes)


def test_a_removed_rule_is_told():
    """RTM_DELRULE carries the whole rule."""
    (event,) = decode_datagram(rule(33), OURS)

    assert isinstance(event, RuleEvent)
    assert event.is_gone
    assert Rule(priority=5460, table=7701) == event.record.rule


def test_several_messages_in_one_datagram_are_all_read():
    """The kernel packs notifications of one operation together."""
    events = list(decode_datagram(rule(32) + rule(33) + rule(32), OURS))

    assert [False, True, False] == [event.is_gone for event in events if isinstance(event, RuleEvent)]


@pytest.mark.parametrize(
    ("protocol", "table", "family", "is_told"),
    [
        (OURS, 7701, socket.AF_INET, True),
        (4, 7701, socket.AF_INET, True),
        (4, 254, socket.AF_INET, False),
        (OURS, 254, socket.AF_INET, True),
        (OURS, 7701, socket.AF_INET6, False),
    ],
    ids=["ours", "stranger-in-high-table", "main", "ours-in-main", "ipv6"],
)
def test_only_routes_that_may_concern_us_are_decoded(protocol, table, family, is_told):
    """A busy node changes thousands of routes a second; hardly any is ours."""
    events = list(decode_datagram(route(25, protocol=protocol, table=table, family=family), OURS))

    assert is_told == bool(events)
    assert all(isinstance(event, RouteEvent) and event.is_gone for event in events)


def test_links_and_addresses_are_told_and_bridge_ports_are_not():
    """RTM_NEWLINK of family AF_BRIDGE tells port attributes, not the device."""
    device = [("IFLA_IFNAME", "mw0"), ("IFLA_MTU", 1420)]
    address = [("IFA_LOCAL", "10.2.0.12")]
    datagram = (
        packed(ifinfmsg, 16, {"family": 0, "index": 4, "flags": 1}, device)
        + packed(ifinfmsg, 16, {"family": 7, "index": 4, "flags": 1}, device)
        + packed(ifaddrmsg, 21, {"family": socket.AF_INET, "index": 4}, address)
    )

    events = list(decode_datagram(datagram, OURS))

    assert [LinkEvent, AddressEvent] == [type(event) for event in events]
    assert AddressEvent(index=4, address="10.2.0.12", is_gone=True) == events[1]


def test_a_torn_datagram_ends_the_reading():
    """A length below the header's own would loop for ever."""
    assert [] == list(decode_datagram(struct.pack("=IHHII", 3, 33, 0, 0, 0) + b"rest of it", OURS))
