"""Rules, read anew as a whole."""

import asyncio
import socket

import pytest

from meshwatchd.adapters.netlink.decode import RuleRecord
from meshwatchd.adapters.netlink.rule_table import RuleTable
from meshwatchd.model.errors import KernelError

NEAR, FAR, OLD6 = b"near", b"far", b"six"


class Source:
    """A kernel's dumps of rules; one is refused where that is said."""

    def __init__(self):
        self.rules = {socket.AF_INET: [NEAR, FAR], socket.AF_INET6: [OLD6]}
        self.refusal = None

    async def dump(self, _kind, header, _name, pack):
        """As `Dumper.dump`."""
        if self.refusal is not None:
            raise self.refusal
        return [pack(data) for data in self.rules[header[0]]]


class Described:
    """Describes what is near, and counts how often it is asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, body):
        """As `View.describe_rule`."""
        self.asked.append(body)
        return (
            None if body == FAR else RuleRecord(priority=5400, table=7799, protocol=117, rule=None, text=body.decode())
        )


def test_rules_of_both_families_are_read_and_those_of_ip4_described_once():
    """IPv6 has none of ours; a rule that is still there is not taken apart again."""
    source, described = Source(), Described()
    table = RuleTable(source, described)
    assert table.is_stale

    asyncio.run(table.read())
    assert ((NEAR, FAR, OLD6), ["near"], False) == (
        table.bodies,
        [each.text for each in table.records()],
        table.is_stale,
    )
    source.rules[socket.AF_INET] = [NEAR, b"new"]
    asyncio.run(table.read())
    assert ["near", "new"] == [each.text for each in table.records()]
    assert 1 == described.asked.count(NEAR)


def test_a_refused_dump_leaves_what_was_known_and_is_tried_again():
    """The caller hears of it; the rules stay stale."""
    source = Source()
    table = RuleTable(source, Described())
    asyncio.run(table.read())
    source.refusal = KernelError("read rules", 1, "not permitted")

    with pytest.raises(KernelError, match="read rules"):
        asyncio.run(table.read())
    assert table.is_stale
    assert ["near"] == [each.text for each in table.records()]
