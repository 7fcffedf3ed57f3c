import socket

from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from meshwatchd.adapters.netlink.decode import decode_link, normalise_prefix, protocol_name
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


def test_prefixes_and_protocols_read_as_iproute2_writes_them():
    """For comparison and for people."""
    assert "10.2.0.13/32" == normalise_prefix("10.2.0.13")
    assert "10.244.1.0/24" == normalise_prefix("10.244.1.9/24")
    assert ("static", "99") == (protocol_name(4), protocol_name(99))
