from dataclasses import replace

from meshwatchd.adapters.wireguard.state import LinkConfig, LinkState, PeerState, render_endpoint

PEER = PeerState(
    public_key="peer",
    endpoint="203.0.113.11:51830",
    allowed_ips=("10.244.1.0/24", "192.168.100.11/32"),
    keepalive_s=10,
    last_handshake_ns=0,
    rx_bytes=0,
    tx_bytes=0,
)
STATE = LinkState(private_key="secret", public_key="public", listen_port=51830, peers=(PEER,))
CONFIG = LinkConfig(
    private_key="secret",
    listen_port=51830,
    peer_public_key="peer",
    endpoint=("203.0.113.11", 51830),
    allowed_ips=("192.168.100.11/32", "10.244.1.0/24"),
    keepalive_s=10,
    mtu_bytes=1420,
)


def test_order_of_prefixes_and_a_roamed_peer_make_no_difference():
    """The device sorts prefixes its own way and knows better where the peer is."""
    roamed = replace(STATE, peers=(replace(PEER, endpoint="198.51.100.7:40000"),))

    assert CONFIG.is_in_effect(roamed)


def test_every_other_difference_counts():
    """Each alone is a reason to configure."""
    different = [
        replace(STATE, private_key="other"),
        replace(STATE, listen_port=1),
        replace(STATE, peers=()),
        replace(STATE, peers=(PEER, replace(PEER, public_key="second"))),
        replace(STATE, peers=(replace(PEER, allowed_ips=("10.244.1.0/24",)),)),
        replace(STATE, peers=(replace(PEER, keepalive_s=0),)),
    ]

    assert [False] * 6 == [CONFIG.is_in_effect(state) for state in different]


def test_strangers_are_all_peers_but_ours():
    """They are removed one by one: replacing all peers would end our session, too."""
    state = replace(STATE, peers=(replace(PEER, public_key="old"), PEER))

    assert ("old",) == CONFIG.strangers(state)


def test_private_keys_do_not_show_in_logs():
    """A representation ends up in messages sooner or later."""
    assert "secret" not in repr(STATE) + repr(CONFIG)


def test_an_ipv6_endpoint_stands_in_brackets():
    """Otherwise the port could not be told from the address."""
    assert "[2001:db8::1]:51830" == render_endpoint("2001:db8::1", 51830)
    assert "203.0.113.11:51830" == render_endpoint("203.0.113.11", 51830)
