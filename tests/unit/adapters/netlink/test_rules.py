import socket

import pytest

from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.adapters.netlink.rules import describe_rule, priority_and_protocol
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Rule
from tests.support.fake_rtnl import OURS, STATIC, rule_body

OVERRIDE = Rule(priority=5460, table=7701)
MARKED = rule_body(Rule(priority=100, table=2004), STATIC) + encode_attribute(10, (0x200).to_bytes(4, "little"))
"""One of Cilium's: it selects by a firewall mark."""


def test_a_rule_of_ours_is_described_without_pyroute2():
    """As `ip` would say it."""
    record = describe_rule(rule_body(OVERRIDE))

    assert (OVERRIDE, OURS, 5460, 7701) == (record.rule, record.protocol, record.priority, record.table)
    assert "rule pref 5460 from all lookup 7701" == record.text


def test_a_rule_we_never_ask_for_is_described_by_what_it_selects():
    """Somebody will have to find it."""
    record = describe_rule(MARKED)

    assert (None, STATIC, 100, 2004) == (record.rule, record.protocol, record.priority, record.table)
    assert "rule pref 100 fwmark 512 lookup 2004" == record.text


@pytest.mark.parametrize("rule", [OVERRIDE, Rule(priority=0, table=255)])
def test_priority_and_protocol_are_read_without_the_rest(rule):
    """The rule of the local table has no priority."""
    assert (rule.priority, OURS) == priority_and_protocol(rule_body(rule))
    assert (0, 0) == priority_and_protocol(bytes((socket.AF_INET, *bytes(11))))


def test_bytes_cut_short_are_refused():
    """Whatever the kernel's reason."""
    with pytest.raises(DecodeError):
        describe_rule(b"\x02")
    with pytest.raises(DecodeError):
        priority_and_protocol(rule_body(OVERRIDE)[:-4])
