import asyncio
import base64
import errno
import socket
import struct

import pytest
from pyroute2.netlink.generic.wireguard import wgmsg

from meshwatchd.adapters.netlink.message import HEADER, NLMSG_DONE, NLMSG_ERROR, encode, encode_attribute
from meshwatchd.adapters.wireguard import genl
from meshwatchd.adapters.wireguard.genl import decode, read
from meshwatchd.adapters.wireguard.state import PeerState
from meshwatchd.model.errors import DecodeError, KernelError

CONTROL = 16
KEY, PUBLIC, PEER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))


def message(*attributes):
    """A message as pyroute2 encodes it, without struct nlmsghdr."""
    encoded = wgmsg()
    encoded["attrs"] = list(attributes)
    encoded.encode()
    return bytes(encoded.data[16:])


def peer(*attributes):
    """The attribute that holds the only peer."""
    return ("WGDEVICE_A_PEERS", [{"attrs": [["WGPEER_A_PUBLIC_KEY", PEER], *attributes]}])


def prefix(address, length):
    """One allowed prefix."""
    attributes = [
        ["WGALLOWEDIP_A_FAMILY", socket.AF_INET],
        ["WGALLOWEDIP_A_IPADDR", socket.inet_aton(address)],
        ["WGALLOWEDIP_A_CIDR_MASK", length],
    ]
    return {"attrs": attributes}


DEVICE = [
    ["WGDEVICE_A_PRIVATE_KEY", KEY],
    ["WGDEVICE_A_PUBLIC_KEY", PUBLIC],
    ["WGDEVICE_A_LISTEN_PORT", 51830],
]


def test_a_device_and_its_peer_are_decoded():
    """The endpoint is a sockaddr, the prefixes are nested lists."""
    details = peer(
        ["WGPEER_A_ENDPOINT", {"addr": "203.0.113.11", "port": 51830}],
        ["WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL", 10],
        ["WGPEER_A_RX_BYTES", 92],
        ["WGPEER_A_TX_BYTES", 148],
        ["WGPEER_A_ALLOWEDIPS", [prefix("10.244.1.0", 24)]],
    )

    state = decode([message(*DEVICE, details)])

    assert (KEY, PUBLIC, 51830) == (state.private_key, state.public_key, state.listen_port)
    expected = PeerState(
        public_key=PEER,
        endpoint="203.0.113.11:51830",
        allowed_ips=("10.244.1.0/24",),
        keepalive_s=10,
        last_handshake_ns=0,
        rx_bytes=92,
        tx_bytes=148,
    )
    assert (expected,) == state.peers


def test_a_peer_split_over_messages_is_one_peer():
    """A location with hundreds of prefixes does not fit into one message; only the first part has the numbers."""
    first = message(*DEVICE, peer(["WGPEER_A_RX_BYTES", 92], ["WGPEER_A_ALLOWEDIPS", [prefix("10.244.1.0", 24)]]))
    second = message(peer(["WGPEER_A_ALLOWEDIPS", [prefix("10.244.2.0", 24)]]))

    state = decode([first, second])

    (joined,) = state.peers
    assert (92, ("10.244.1.0/24", "10.244.2.0/24")) == (joined.rx_bytes, joined.allowed_ips)
    assert (PUBLIC, 51830) == (state.public_key, state.listen_port)


def test_a_new_device_has_neither_key_nor_peer():
    """The kernel reports a key of zeros, or none."""
    zeros = base64.b64encode(bytes(32)).decode()

    state = decode([message(["WGDEVICE_A_PRIVATE_KEY", zeros])])

    assert ("", "", 0, ()) == (state.private_key, state.public_key, state.listen_port, state.peers)


def test_a_thousand_peers_over_many_messages_are_a_thousand():
    """Each datagram ends in the middle of a peer, which the next one continues."""
    keys = [base64.b64encode(number.to_bytes(2, "big") * 16).decode() for number in range(1, 1001)]

    def one(key, *attributes):
        return {"attrs": [["WGPEER_A_PUBLIC_KEY", key], *attributes]}

    bodies = []
    for first in range(0, 1000, 50):
        entries = [one(key, ["WGPEER_A_TX_BYTES", 7]) for key in keys[first : first + 50]]
        if first:
            entries.insert(0, one(keys[first - 1], ["WGPEER_A_ALLOWEDIPS", [prefix("10.9.0.0", 16)]]))
        bodies.append(message(("WGDEVICE_A_PEERS", entries)))

    state = decode(bodies)

    assert keys == [each.public_key for each in state.peers]
    assert {7} == {each.tx_bytes for each in state.peers}
    assert 19 == sum(each.allowed_ips == ("10.9.0.0/16",) for each in state.peers)


def test_endpoints_and_prefixes_may_be_ipv6():
    """A sockaddr_in6 has its address behind the flow label."""
    address = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    endpoint = struct.pack("=H", socket.AF_INET6) + struct.pack(">H", 51820) + bytes(4) + address + bytes(4)
    allowed = encode_attribute(1, struct.pack("=H", socket.AF_INET6)) + encode_attribute(2, address)
    entry = encode_attribute(1, bytes([3]) * 32) + encode_attribute(4, endpoint)
    entry += encode_attribute(9, encode_attribute(0, allowed + encode_attribute(3, bytes([128]))))

    (found,) = decode([bytes(4) + encode_attribute(8, encode_attribute(0, entry))]).peers

    assert ("[2001:db8::1]:51820", ("2001:db8::1/128",)) == (found.endpoint, found.allowed_ips)


def test_bytes_cut_short_are_refused():
    """A port of one byte, a prefix without its family."""
    with pytest.raises(DecodeError):
        decode([bytes(4) + encode_attribute(6, b"x")])
    with pytest.raises(DecodeError):
        decode([bytes(4) + encode_attribute(8, encode_attribute(0, encode_attribute(9, encode_attribute(0, b""))))])


class Kernel:
    """A netlink socket whose WireGuard family has a number; at any other nobody answers, or another family does."""

    def __init__(self, family, refusal):
        self.family, self.refusal, self.asked, self.pending = family, refusal, [], []

    def send(self, request):
        """Take a request."""
        _, kind, _, sequence, _ = HEADER.unpack_from(request)
        self.asked.append(kind)
        found = encode_attribute(1, struct.pack("=H", self.family)) + encode_attribute(2, b"wireguard\0")
        bodies = {CONTROL: bytes(4) + found, self.family: message(*DEVICE)}
        if kind in bodies:
            self.pending = [encode(kind, 2, sequence, bodies[kind]), encode(NLMSG_DONE, 2, sequence, bytes(4))]
        else:
            self.pending = [encode(NLMSG_ERROR, 0, sequence, struct.pack("=i", -self.refusal))]

    def recv(self, _size):
        """The next part."""
        return self.pending.pop(0)

    def close(self):
        """It is opened again."""


@pytest.mark.parametrize("refusal", [errno.ENOENT, errno.EOPNOTSUPP])
def test_a_module_that_was_loaded_anew_is_looked_up_anew(monkeypatch, refusal):
    """Its family has another number, and the former one may be another's."""
    kernel = Kernel(34, refusal)
    monkeypatch.setattr(genl, "_open", lambda: kernel)
    monkeypatch.setitem(genl._families, "wireguard", 33)

    assert (51830, 51830) == tuple(asyncio.run(read("mw0")).listen_port for _ in range(2))
    assert [33, CONTROL, 34, 34] == kernel.asked


def test_a_device_that_is_gone_is_asked_for_once(monkeypatch):
    """The number is right."""
    kernel = Kernel(34, errno.ENODEV)
    monkeypatch.setattr(genl, "_open", lambda: kernel)
    monkeypatch.setitem(genl._families, "wireguard", 33)

    with pytest.raises(KernelError, match="No such device"):
        asyncio.run(read("mw0"))
    assert [33] == kernel.asked


def test_a_device_of_no_kind_is_refused():
    """The loopback device, or any device where the kernel has no WireGuard."""
    with pytest.raises(KernelError):
        asyncio.run(read("lo"))
