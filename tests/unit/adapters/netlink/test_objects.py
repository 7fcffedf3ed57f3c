"""Links, addresses and routes of ours against pyroute2's decoding of the same bytes."""

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from meshwatchd.adapters.netlink import compact, decode, message, objects
from meshwatchd.adapters.netlink.decode import RouteRecord
from meshwatchd.adapters.netlink.message import encode_attribute
from meshwatchd.adapters.netlink.objects import Address
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Route
from meshwatchd.model.snapshot import Geneve, Vxlan
from tests.support.fake_rtnl import FakeRoute, address_body, link_body, packed, packed_ip

NAMES = st.text("abcdefghijklmnop.0123456789-", min_size=1, max_size=15)
V4 = st.ip_addresses(v=4).map(str)


def oracle(kind, body):
    """What pyroute2 reads in a body."""
    decoded = kind(message.encode(16, 0, 0, body))
    decoded.decode()
    return decoded


LLADDRS = st.sampled_from([b"", bytes((2, 0, 0, 0, 0, 1)), bytes(6)])


@given(NAMES, st.sampled_from(["", "wireguard", "vxlan", "geneve", "mykind"]), st.booleans(), LLADDRS)
def test_a_device_is_read_as_pyroute2_reads_it(name, kind, is_up, lladdr):
    """Physical devices have no kind, layer 3 devices no MAC."""
    body = link_body(7, name, kind=kind, is_up=is_up, mtu=len(name) * 1420, lladdr=lladdr)
    key, (value,) = packed(objects.pack_link, body)

    assert decode.decode_link(oracle(ifinfmsg, body)) == objects.unpack_link(key, value)
    assert 7 == objects.index_of(key)
    assert objects.index_key(7) == key


@given(
    st.integers(0, (1 << 24) - 1),
    st.integers(0, 65535),
    st.sampled_from([("", 0, ""), ("192.168.50.10", 4, "10.244.1.2"), ("fd00::10", 4, "fd00::2"), ("", 0, "10.0.0.1")]),
    st.booleans(),
)
def test_a_vxlan_device_is_read_as_pyroute2_reads_it(vni, port, place, is_external):
    """Its own address is how a node knows itself; the lower device is what flannel runs over."""
    local, lower, remote = place
    data = encode_attribute(1, struct.pack("=I", vni)) + encode_attribute(15, struct.pack("!H", port))
    data += encode_attribute(25, bytes((is_external,))) + encode_attribute(3, struct.pack("=I", lower))
    if local:
        data += encode_attribute(17 if ":" in local else 4, packed_ip(local))
    if remote:
        data += encode_attribute(16 if ":" in remote else 2, packed_ip(remote))
    info = encode_attribute(18, encode_attribute(1, b"vxlan\0") + encode_attribute(2, data))
    body = link_body(7, "flannel.1") + encode_attribute(1, bytes((2, 0, 0, 0, 0, 9))) + info
    key, (value,) = packed(objects.pack_link, body)

    link = objects.unpack_link(key, value)

    assert decode.decode_link(oracle(ifinfmsg, body)) == link
    assert "02:00:00:00:00:09" == link.lladdr
    assert Vxlan(vni=vni, port=port, local=local, lower=lower, is_external=is_external, remote=remote) == link.vxlan


@given(st.integers(0, (1 << 24) - 1), st.integers(0, 65535), st.sampled_from(["", "10.244.1.2", "fd00::2", "0.0.0.0"]))
def test_a_geneve_device_is_read_as_pyroute2_reads_it(vni, port, remote):
    """Liqo's has one far end, Open vSwitch's gets it with each packet."""
    data = encode_attribute(1, struct.pack("=I", vni)) + encode_attribute(5, struct.pack("!H", port))
    if remote:
        data += encode_attribute(7 if ":" in remote else 2, packed_ip(remote))
    info = encode_attribute(18, encode_attribute(1, b"geneve\0") + encode_attribute(2, data))
    body = link_body(7, "liqo.0a1b2c3d4e") + info
    key, (value,) = packed(objects.pack_link, body)

    link = objects.unpack_link(key, value)

    assert decode.decode_link(oracle(ifinfmsg, body)) == link
    assert Geneve(vni=vni, port=port, remote=remote if remote != "0.0.0.0" else "") == link.geneve
    assert None is link.vxlan


@pytest.mark.parametrize("lladdr", [bytes((10, 2, 0, 11)), bytes(16)])
def test_the_ip_address_of_a_tunnel_is_no_mac(lladdr):
    """Tunnels show their local end where others show their MAC."""
    key, (value,) = packed(objects.pack_link, link_body(7, "tunl0", kind="ipip", lladdr=lladdr))

    assert "" == objects.unpack_link(key, value).lladdr


def test_a_bridge_port_is_no_device():
    """RTM_NEWLINK of family AF_BRIDGE tells port attributes, not the device."""
    assert objects.pack_link(link_body(7, "eth0", family=7)) is None


def test_a_device_without_a_name_gets_its_number():
    """Never seen, but no reason to fail."""
    key, (value,) = packed(objects.pack_link, objects.LINK.pack(0, 7, 1, 0))

    assert "#7" == objects.unpack_link(key, value).name


@given(V4 | st.ip_addresses(v=6).map(str), st.integers(0, 255))
def test_an_address_is_read_as_pyroute2_reads_it(text, scope):
    """IPv6 addresses have IFA_ADDRESS only."""
    body = address_body(4, text, length=17, scope=scope)
    decoded = oracle(ifaddrmsg, body)

    key, (value,) = packed(objects.pack_address, body)
    address = objects.unpack_address(key, value)

    assert Address(decoded["index"], decoded["family"], decoded["scope"], packed_ip(text), 17) == address
    assert packed_ip(decoded.get_attr("IFA_ADDRESS")) == packed_ip(objects.render_address(address.address))


def test_an_address_is_the_one_of_this_end():
    """On point-to-point links IFA_ADDRESS is the peer's."""
    ends = encode_attribute(1, packed_ip("10.4.0.1")) + encode_attribute(2, packed_ip("10.4.0.2"))
    key, (value,) = packed(objects.pack_address, objects.ADDRESS.pack(socket.AF_INET, 32, 0, 0, 7) + ends)

    assert packed_ip("10.4.0.2") == objects.unpack_address(key, value).address


def test_addresses_of_other_families_are_left_out():
    """MPLS has some, and so may the next kernel."""
    assert objects.pack_address(objects.ADDRESS.pack(28, 32, 0, 0, 7) + encode_attribute(2, bytes(4))) is None


def as_pyroute2_reads_it(decoded, devices):
    """A RouteRecord of pyroute2's message."""
    attributes = dict(decoded["attrs"])
    table, index = attributes.get("RTA_TABLE", decoded["table"]), attributes.get("RTA_OIF", 0)
    dst = f"{attributes.get('RTA_DST', '0.0.0.0')}/{decoded['dst_len']}"
    via, metric = attributes.get("RTA_GATEWAY"), attributes.get("RTA_PRIORITY", 0)
    ours = Route(dst=dst, table=table, dev=devices.get(index, f"#{index}"), via=via, src=attributes.get("RTA_PREFSRC"))
    is_plain = decoded["type"] == 1 and index != 0 and metric == 0 and decoded["tos"] == 0
    has_our_shape = is_plain and bool(decoded["flags"] & 4) == (via is not None)
    return RouteRecord(
        dst=dst,
        table=table,
        protocol=decoded["proto"],
        metric=metric,
        kind=decoded["type"],
        route=ours if has_our_shape else None,
        text=f"route {ours.render() if has_our_shape else f'{dst} table {table}'}",
    )


@given(
    st.builds(
        FakeRoute,
        dst=st.tuples(V4, st.integers(0, 32)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
        index=st.sampled_from([4, 5]),
        table=st.integers(1, 8000),
        protocol=st.sampled_from([4, 117]),
        metric=st.sampled_from([0, 100]),
        via=st.sampled_from(["", "10.4.0.1"]),
        src=st.sampled_from(["", "10.2.0.1"]),
        kind=st.sampled_from([1, 6]),
        also=st.sampled_from([(), (5,)]),
    )
)
def test_a_route_becomes_the_same_record_by_both_ways(route):
    """Also where it has a shape we never ask for."""
    names = {4: "mw0"}
    key, (value,) = packed(compact.pack_route, route.body())

    assert as_pyroute2_reads_it(oracle(rtmsg, route.body()), names) == objects.describe_route(key, value, names)


def test_a_route_without_onlink_flag_or_device_is_none_of_ours():
    """An unreachable destination has no next hop at all."""
    body = compact.ROUTE.pack(socket.AF_INET, 0, 0, 0, 254, 117, 0, 7, 0)
    key, (value,) = packed(compact.pack_route, body)

    record = objects.describe_route(key, value, {})

    assert (None, "0.0.0.0/0", 7) == (record.route, record.dst, record.kind)


def test_an_address_of_odd_length_is_shown_as_it_is():
    """A gateway of another family."""
    assert "0a:00" == objects.render_address(b"\x0a\0")


@pytest.mark.parametrize("pack", [objects.pack_link, objects.pack_address])
def test_bytes_cut_short_are_refused(pack):
    """Whatever the kernel's reason."""
    with pytest.raises(DecodeError):
        pack(b"\x00\x01")


def route(*attributes, flags=0, kind=1):
    """The record of a route of ours with more attributes, from the bytes that pyroute2 makes of them."""
    encoded = rtmsg()
    fields = {"family": socket.AF_INET, "dst_len": 24, "table": 252, "proto": 117, "type": kind, "flags": flags}
    for name, value in fields.items():
        encoded[name] = value
    encoded["attrs"] = [("RTA_TABLE", 7701), ("RTA_DST", "10.244.1.0"), *attributes]
    encoded.encode()
    key, (value,) = packed(compact.pack_route, bytes(encoded.data[message.HEADER.size :]))
    return objects.describe_route(key, value, {4: "mw0"})


def test_a_gateway_route_is_ours_only_if_onlink():
    """That is how we make them; the flag decides whether the kernel checks the gateway."""
    attributes = [("RTA_GATEWAY", "10.244.6.0"), ("RTA_OIF", 4), ("RTA_PREFSRC", "10.2.0.12")]

    onlink = route(*attributes, flags=4)

    assert Route(dst="10.244.1.0/24", table=7701, dev="mw0", via="10.244.6.0", src="10.2.0.12") == onlink.route
    assert route(*attributes).route is None


def test_a_device_route_is_recognised_and_an_unknown_device_has_its_index_for_a_name():
    """The device may be gone before its routes are decoded."""
    known = route(("RTA_OIF", 4)).route
    unknown = route(("RTA_OIF", 9)).route

    assert known is not None
    assert unknown is not None
    assert ("mw0", "#9") == (known.dev, unknown.dev)


def test_unreachable_and_metric_routes_are_no_shape_of_ours():
    """Their fields are still there for deletion."""
    blocking = route(kind=7)
    ranked = route(("RTA_OIF", 4), ("RTA_PRIORITY", 9))

    assert (None, 7, 0) == (blocking.route, blocking.kind, blocking.metric)
    assert (None, 1, 9) == (ranked.route, ranked.kind, ranked.metric)
