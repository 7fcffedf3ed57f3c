"""What the kernel does with a packet, with the rule that decides."""

from __future__ import annotations

import errno
import socket
import struct

from meshwatchd.adapters.netlink import fibrule
from meshwatchd.adapters.netlink.route_socket import Answer
from meshwatchd.adapters.netlink.rule_text import read_rule
from meshwatchd.adapters.netlink.way import Way, find_way, read_way
from meshwatchd.model.plan import Rule

MAIN = read_rule(fibrule.encode_rule(Rule(priority=32766, table=254), 2))
OVERRIDE = read_rule(fibrule.encode_rule(Rule(priority=5460, table=7701), 117))
OF_PROBES = read_rule(fibrule.encode_rule(Rule(priority=5410, table=7701, dport=(18621, 18621)), 117))


def _answer(table):
    found = {
        4: struct.pack("=I", 7),
        5: socket.inet_aton("10.244.5.0"),
        7: socket.inet_aton("10.2.0.13"),
        15: struct.pack("=I", table),
    }
    return Answer(0, found)


def test_the_first_rule_that_takes_it_to_the_table_decides():
    """Selectors of probes take no ordinary packet; a rule whose table has no route is passed over."""
    rules = (OF_PROBES, OVERRIDE, MAIN)
    assert Way(
        address="10.244.3.7",
        rule="5460: from all lookup 7701",
        rule_protocol=117,
        table=7701,
        device="flannel.1",
        via="10.244.5.0",
        source="10.2.0.13",
    ) == read_way("10.244.3.7", _answer(7701), rules, {7: "flannel.1"})
    assert "32766: from all lookup main" == read_way("10.244.3.7", _answer(254), rules, {}).rule


def test_a_packet_that_goes_nowhere_says_why():
    """With the rule that sends it there, where it is one."""
    body = struct.pack("=BBBBB2xBI", socket.AF_INET, 0, 0, 0, 0, 7, 0)
    body += struct.pack("=HHI", 8, 6, 100)
    found = read_way("10.9.9.9", Answer(errno.EHOSTUNREACH, {}), (read_rule(body), MAIN), {})
    assert ("No route to host", "100: from all unreachable") == (found.problem, found.rule)


def test_gateways_of_the_other_family_are_told():
    """Struct rtvia: an IPv4 route by an IPv6 gateway."""
    via = struct.pack("=H", socket.AF_INET6) + socket.inet_pton(socket.AF_INET6, "fe80::1")
    assert "fe80::1" == read_way("10.9.9.9", Answer(0, {18: via}), (), {}).via


def test_the_kernel_is_asked():
    """Loopback is the way that every machine has; IPv6 has no rules here.

    A kernel without rules of anybody's keeps both tables in one trie, and names main (fib_unmerge() in net/ipv4).
    """
    found = find_way("127.0.0.1")
    assert "lo" == found.device
    assert (found.table, found.rule) in {(255, "0: from all lookup local"), (254, "32766: from all lookup main")}
    assert "" == find_way("::1").rule
