"""Chains that drop by default and have no word for our ports."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.doctor.firewall import check_firewall, read_ruleset
from meshwatchd.model.settings import Settings

CHAIN = {"chain": {"family": "inet", "table": "filter", "name": "input", "hook": "input", "policy": "drop"}}


def _rule(right):
    dport = {"payload": {"protocol": "udp", "field": "dport"}}
    match = {"match": {"op": "==", "left": dport, "right": right}}
    return {"rule": {"family": "inet", "table": "filter", "chain": "input", "expr": [match, {"accept": None}]}}


@pytest.mark.parametrize(
    ("entries", "state"),
    [
        (None, "note"),
        ([], "ok"),
        ([{"metainfo": {"version": "1.0.6"}}, {"chain": CHAIN["chain"] | {"policy": "accept"}}], "ok"),
        ([CHAIN], "warning"),
        ([CHAIN, _rule(22)], "warning"),
        ([CHAIN, _rule({"range": [1, 1024]})], "warning"),
    ],
)
def test_a_closed_chain_without_our_ports_is_a_warning(entries, state):
    """What cannot be read is none."""
    (check,) = check_firewall(Settings(), entries)
    assert state == check.state
    if state == "warning":
        assert "nft add rule inet filter input udp dport 18616-19129 accept" == check.remedy


@pytest.mark.parametrize("right", [18618, {"range": [18616, 19129]}, {"set": [53, {"range": [18000, 19999]}]}])
def test_a_closed_chain_that_names_our_ports_is_passed_over(right):
    """By number, range or set."""
    assert [] == list(check_firewall(Settings(), [CHAIN, _rule(right)]))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("/nonexistent/nft",), None),
        (("false",), None),
        (("echo", "nonsense"), None),
        (("echo", '{"nftables": [{"chain": {}}]}'), [{"chain": {}}]),
    ],
)
def test_a_ruleset_that_cannot_be_read_is_none(command, expected):
    """No program, no permission, no JSON."""
    assert expected == read_ruleset(command)
