"""Cilium's nodes, as its agent's API has them."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources.cilium_nodes import MAX_NODES, parse
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import CiliumNode, CiliumNodes


def element(name, node_ip, number):
    """A node as the agent tells of it."""
    return {
        "name": name,
        "source": "custom-resource",
        "primary-address": {
            "ipv4": {"enabled": True, "ip": node_ip, "alloc-range": f"10.244.{number}.0/24"},
            "ipv6": {"enabled": False},
        },
        "secondary-addresses": [{"ip": "fd00::1"}, {"ip": "172.31.0.9"}, {"ip": f"10.244.{number}.7{number}"}],
        "health-endpoint-address": {"ipv4": {"enabled": True, "ip": f"10.244.{number}.200"}},
    }


def answer(*nodes, own="default/a1"):
    """The answer with these nodes."""
    return json.dumps({"client-id": 42, "nodes-added": list(nodes), "nodes-removed": None, "self": own}).encode()


A1, B1 = element("default/a1", "192.168.100.11", 1), element("default/b1", "10.2.0.11", 4)


def test_nodes_are_read_with_their_addresses():
    """The secondary address inside the pod CIDR is that of cilium_host."""
    told = parse(answer(B1, A1))

    first, second = told.nodes
    wanted = CiliumNode(
        name="a1",
        cluster="default",
        node_ip="192.168.100.11",
        pod_cidr="10.244.1.0/24",
        router_ip="10.244.1.71",
        health_ip="10.244.1.200",
    )
    assert wanted == first == told.own
    assert ("b1", "10.244.4.74") == (second.name, second.router_ip)


def test_a_node_is_known_by_its_plain_name_as_well():
    """Without a cluster's name there is no prefix."""
    own = parse(answer(element("a1", "192.168.100.11", 1), own="a1")).own

    assert own is not None
    assert ("", "a1") == (own.cluster, own.name)


def test_an_agent_that_knows_little_is_no_error():
    """Just started, or IPv6 only."""
    assert CiliumNodes(own_name="", nodes=()) == parse(b"{}")
    assert CiliumNodes(own_name="", nodes=(CiliumNode(name="a1"),)) == parse(b'{"nodes-added":[{"name":"a1"}]}')
    disabled = {"name": "a1", "primary-address": {"ipv4": {"enabled": False, "ip": "1.2.3.4"}}}
    assert (CiliumNode(name="a1"),) == parse(answer(disabled)).nodes


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"nodes-added":[{}]}', "name"),
        (b'{"nodes-added":[{"name":1}]}', "Expected `str`"),
        (answer({"name": "a b"}), "is no name"),
        (answer({"name": "a1", "primary-address": {"ipv4": {"ip": "::1"}}}), "'::1' is no IPv4 address"),
        (answer({"name": "a1", "primary-address": {"ipv4": {"alloc-range": "x"}}}), "'x' is no IPv4 prefix"),
        (answer(own="a\nb"), "self"),
        (answer(*({"name": f"n{number}"} for number in range(MAX_NODES + 1))), "more than"),
        (b"[" * 100_000, ""),
    ],
)
def test_other_answers_are_refused(data, reason):
    """With the place in them."""
    with pytest.raises(DecodeError, match="cilium agent") as refused:
        parse(data)

    assert reason in refused.value.reason


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "primary-address", "ipv4", "ip", "alloc-range", "secondary-addresses", "enabled"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps({"nodes-added": [value], "self": "a"}).encode()))
def test_no_bytes_make_it_fail_otherwise(data):
    """Nodes, or a reason."""
    with contextlib.suppress(DecodeError):
        parse(data)
