"""Rules in bytes: what is packed is what the kernel's header files say, and reads back."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.netlink import fibrule
from meshwatchd.adapters.netlink.fibrule import KernelRule, decode_rule, encode_rule
from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Rule

PORTS = st.none() | st.tuples(st.integers(1, 65535), st.integers(1, 65535))
RULES = st.builds(
    Rule,
    priority=st.integers(1, 32765),
    table=st.integers(0, 2**32 - 1),
    goto=st.none() | st.integers(1, 2**32 - 1),
    iif=st.none() | st.from_regex(r"[a-z][a-z0-9.]{0,14}", fullmatch=True),
    sport=PORTS,
    dport=PORTS,
)


@given(RULES, st.integers(0, 255))
def test_rules_read_back(rule, protocol):
    """Whatever `Rule` can say survives the way to bytes and back, with its owner."""
    assert KernelRule(rule, protocol) == decode_rule(encode_rule(rule, protocol))


@given(st.binary(max_size=120))
def test_bytes_are_a_rule_or_an_error(data):
    """Nothing but DecodeError comes out of nonsense."""
    with contextlib.suppress(DecodeError):
        decode_rule(data)


@given(RULES, st.data())
def test_cut_rules_are_refused_or_read_without_the_rest(rule, data):
    """A message that ends early does not raise anything else."""
    packed = encode_rule(rule, 117)
    with contextlib.suppress(DecodeError):
        decode_rule(packed[: data.draw(st.integers(0, len(packed)))])


def test_cut_priority_is_refused():
    """Two bytes where four must be."""
    packed = encode_rule(Rule(priority=1, table=2), 117)[:12] + encode_attribute(6, b"\1\2")

    with pytest.raises(DecodeError, match="requires a buffer of 4 bytes"):
        decode_rule(packed)


def test_attributes_are_where_the_kernel_looks_for_them():
    """`ip rule add pref 5411 ipproto udp dport 18621 lookup 7701 protocol 117`, byte for byte."""
    expected = bytes.fromhex(
        "02000000 00000001 00000000"  # AF_INET, table unspecified, to table
        "0800 0600 23150000"  # FRA_PRIORITY 5411
        "0800 0f00 151e0000"  # FRA_TABLE 7701
        "0500 1500 75000000"  # FRA_PROTOCOL 117
        "0500 1600 11000000"  # FRA_IP_PROTO udp
        "0800 1800 bd48bd48"  # FRA_DPORT_RANGE 18621-18621
    )

    assert expected == encode_rule(Rule(priority=5411, table=7701, dport=(18621, 18621)), 117)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (1, b"\x0a\0\0\1"),  # FRA_DST
        (10, b"\1\0\0\0"),  # FRA_FWMARK
        (fibrule.FRA_IP_PROTO, b"\x06"),
        (fibrule.FRA_SPORT_RANGE, b"\1\0\2\0"),  # ports of no protocol
        (14, b"\0\0\0\0"),  # FRA_SUPPRESS_PREFIXLEN
    ],
)
def test_rules_that_say_more_are_none_of_ours(attribute, value):
    """A rule with a destination, a mark, TCP, ports without UDP or a suppressor equals no rule of ours."""
    body = encode_rule(Rule(priority=1, table=2), 117) + encode_attribute(attribute, value)

    assert decode_rule(body) is None
