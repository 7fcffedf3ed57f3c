"""The compact form against pyroute2's decoding of the same bytes."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from meshwatchd.adapters.netlink import compact, message
from meshwatchd.model.errors import DecodeError
from tests.support.fake_rtnl import FakeRoute, fdb_body, neighbour_body, packed, packed_ip

MAC = bytes((2, 0, 0, 0, 0, 1))
V4 = st.ip_addresses(v=4).map(str)
V6 = st.ip_addresses(v=6).map(str)
NUMBER = st.integers(1, 2**32 - 1)


def oracle(kind, body):
    """What pyroute2 reads in a body."""
    decoded = kind(message.encode(24, 0, 0, body))
    decoded.decode()
    return decoded


@st.composite
def routes(draw):
    """A route of either family, with or without gateway, source, metric and further next hops."""
    addresses, size = draw(st.sampled_from([(V4, 32), (V6, 128)]))
    has_gateway, has_source = draw(st.booleans()), draw(st.booleans())
    return FakeRoute(
        dst=f"{draw(addresses)}/{draw(st.integers(0, size))}",
        index=draw(st.integers(1, 2**31 - 1)),
        table=draw(NUMBER),
        protocol=draw(st.integers(0, 255)),
        metric=draw(st.integers(0, 2**32 - 1)),
        via=draw(addresses) if has_gateway else "",
        src=draw(addresses) if has_source else "",
        kind=draw(st.integers(1, 11)),
        also=tuple(draw(st.lists(st.integers(1, 2**31 - 1), max_size=2))),
    )


@given(routes())
def test_a_route_is_read_as_pyroute2_reads_it(route):
    """Every field the model uses; an IPv6 route of several next hops is several values of one."""
    body = route.body()
    decoded = oracle(rtmsg, body)
    key, values = packed(compact.pack_route, body)
    entries = [compact.unpack_route(key, value) for value in values]
    first = entries[0]

    assert decoded["family"] == first.family == compact.family_of(key)
    assert (decoded["dst_len"], decoded["tos"]) == (first.dst_len, first.tos)
    assert (decoded["proto"], decoded["type"], decoded["scope"]) == (first.protocol, first.kind, first.scope)
    assert decoded.get_attr("RTA_TABLE") == first.table == compact.table_of(key)
    assert (decoded.get_attr("RTA_PRIORITY") or 0) == first.metric
    assert first.protocol == compact.protocol_of(values[0])
    assert _bytes(decoded.get_attr("RTA_DST")) == first.dst
    assert _bytes(decoded.get_attr("RTA_PREFSRC")) == first.prefsrc
    hops = [hop for entry in entries for hop in entry.hops]
    expected = decoded.get_attr("RTA_MULTIPATH")
    if expected is None:
        assert [decoded.get_attr("RTA_OIF")] == [hop.ifindex for hop in hops]
        assert [_bytes(decoded.get_attr("RTA_GATEWAY"))] == [hop.gateway for hop in hops]
        assert [bool(route.via)] == [bool(hop.flags & compact.RTNH_F_ONLINK) for hop in hops]
    else:
        assert [each["oif"] for each in expected] == [hop.ifindex for hop in hops]
    assert all(compact.leads_into(value, frozenset({hop.ifindex})) for value, hop in zip(values, hops, strict=False))
    assert any(map(compact.is_multipath, values)) == (len(hops) > len(values))


def _bytes(text):
    return b"" if text is None else packed_ip(text)


@given(V4 | V6, st.integers(1, 2**31 - 1), st.sampled_from([1, 2, 4, 8, 16, 32, 128]), st.binary(max_size=8))
def test_a_neighbour_is_read_as_pyroute2_reads_it(address, index, state, lladdr):
    """The link-layer address may be missing, and need not be a MAC."""
    body = neighbour_body(index, address, lladdr, state=state)
    decoded = oracle(ndmsg, body)

    key, (value,) = packed(compact.pack_neighbour, body)
    entry = compact.unpack_neighbour(key, value)

    assert (decoded["family"], decoded["ifindex"], decoded["state"]) == (entry.family, entry.ifindex, entry.state)
    assert packed_ip(decoded.get_attr("NDA_DST")) == entry.address
    assert lladdr == entry.lladdr
    assert index == compact.index_of_neighbour(key)


@given(V4 | V6, st.integers(1, 2**31 - 1), st.binary(min_size=6, max_size=6))
def test_an_fdb_entry_is_read_as_pyroute2_reads_it(dst, index, mac):
    """A MAC of one has one remote; one of many (multicast, or zeros) has one entry for each."""
    body = fdb_body(index, mac, dst)
    decoded = oracle(ndmsg, body)

    key, (value,) = packed(compact.pack_fdb, body)
    entry = compact.unpack_fdb(key, value)

    assert (decoded["ifindex"], decoded.get_attr("NDA_LLADDR")) == (entry.ifindex, entry.mac.hex(":"))
    assert packed_ip(dst) == entry.dst
    assert index == compact.index_of_fdb(key)
    other_key, _ = packed(compact.pack_fdb, fdb_body(index, mac, "203.0.113.77"))
    is_of_many = bool(mac[0] & 1) or not any(mac)
    assert (is_of_many and dst != "203.0.113.77") == (key != other_key)


def test_what_is_none_of_these_is_left_out():
    """Cached routes, proxies, what the kernel makes for itself, filters of a network card, routes of a bridge."""
    cached = bytearray(FakeRoute(dst="9.0.0.0/8", index=2).body())
    struct.pack_into("=I", cached, 8, compact.RTM_F_CLONED)
    bridge = bytes((7, *FakeRoute(dst="9.0.0.0/8", index=2).body()[1:]))

    assert [None, None] == [compact.pack_route(body) for body in (bytes(cached), bridge)]
    assert compact.pack_neighbour(neighbour_body(2, "9.0.0.1", MAC, flags=compact.NTF_PROXY)) is None
    made = (b"", bytes(6), b"\xff" * 6, bytes.fromhex("01005e000016"))
    bodies = [neighbour_body(2, "9.0.0.1", mac, state=compact.NUD_NOARP) for mac in made]
    assert [None] * 4 == [compact.pack_neighbour(body) for body in bodies]
    assert compact.pack_neighbour(neighbour_body(2, "9.0.0.1", MAC, state=compact.NUD_NOARP)) is not None
    assert compact.pack_fdb(fdb_body(2, MAC, None)) is None


def test_a_gateway_of_another_family_is_kept_as_it_is():
    """RTA_VIA: an IPv4 route over an IPv6 neighbour."""
    via = struct.pack("=H", socket.AF_INET6) + packed_ip("fe80::1")
    body = FakeRoute(dst="9.0.0.0/8", index=2).body() + message.encode_attribute(18, via)

    key, (value,) = packed(compact.pack_route, body)

    assert via == compact.unpack_route(key, value).hops[0].gateway


@pytest.mark.parametrize("pack", [compact.pack_route, compact.pack_neighbour, compact.pack_fdb])
@pytest.mark.parametrize("body", [b"", b"\x02", b"\x02" * 7])
def test_bytes_cut_short_are_refused(pack, body):
    """Whatever the kernel's reason."""
    with pytest.raises(DecodeError):
        pack(body)


def test_next_hops_cut_short_are_refused():
    """The length of each is the sender's word."""
    body = FakeRoute(dst="9.0.0.0/8", index=2).body()
    hops = struct.pack("=HBBi", 20, 0, 0, 3)
    with pytest.raises(DecodeError, match="next hop"):
        compact.pack_route(body + message.encode_attribute(9, hops))
    with pytest.raises(DecodeError, match="route"):
        compact.pack_route(body + message.encode_attribute(15, b"xx"))
