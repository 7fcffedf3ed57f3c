"""Configurations are what wg(8) reads."""

from netnslab.wireguard import Peer, render_configuration


def test_configuration_leaves_out_what_a_peer_does_not_have():
    """No endpoint behind NAT, no keepalive when it is off."""
    silent = Peer(public_key="KEY", allowed_ips=("10.0.0.0/8", "10.4.0.1/32"))

    assert (
        "[Interface]\nPrivateKey = SECRET\nListenPort = 51820\n"
        "[Peer]\nPublicKey = KEY\nAllowedIPs = 10.0.0.0/8, 10.4.0.1/32\n"
    ) == render_configuration(private_key="SECRET", port=51820, peers=[silent])
