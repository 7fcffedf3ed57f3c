import base64
import socket

from pyroute2.netlink.generic.wireguard import wgmsg

from meshwatchd.adapters.wireguard.genl import decode
from meshwatchd.adapters.wireguard.state import PeerState

KEY, PUBLIC, PEER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))


def message(*attributes):
    """A message that went through its bytes, as the kernel's do."""
    encoded = wgmsg()
    encoded["attrs"] = list(attributes)
    encoded.encode()
    decoded = wgmsg(encoded.data)
    decoded.decode()
    return decoded


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
