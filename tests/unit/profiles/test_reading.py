"""What every profile asks of a snapshot."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.profiles import reading
from meshwatchd.profiles.reading import lan_macs
from tests.support import node_states


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("203.0.113.11", True),
        ("10.2.0.11", False),
        ("172.31.0.1", False),
        ("192.168.100.11", False),
        ("100.64.0.1", False),
        ("169.254.1.1", False),
        ("0.0.0.0", False),
        ("gw.example.net", False),
        ("", False),
    ],
)
def test_who_can_be_reached_from_outside(address, is_public):
    """Carrier-grade NAT is NAT."""
    assert is_public == reading.is_public(address)


def test_texts_are_taken_apart():
    """Endpoints and prefixes."""
    assert ["203.0.113.11", "fd00::1", ""] == [reading.host_of(text) for text in ("203.0.113.11:1", "[fd00::1]:1", "")]
    prefixes = ("10.2.0.11/32", "10.2.0.11", "10.2.0.0/24", "fd00::1/128")
    assert ["10.2.0.11", "10.2.0.11", "", ""] == [reading.host_address(prefix) for prefix in prefixes]
    assert ["10.2.0.11", "10.2.0.11"] == list(reading.hosts_in(prefixes))


def test_an_address_is_in_a_prefix_or_not():
    """Whatever is missing is in nothing."""
    assert reading.is_in("10.2.0.11", "10.2.0.0/24")
    for address, prefix in (
        ("", "10.2.0.0/24"),
        ("10.2.0.11", ""),
        ("fd00::1", "10.2.0.0/24"),
        ("10.3.0.1", "10.2.0.0/24"),
    ):
        assert not reading.is_in(address, prefix)


def test_a_node_knows_its_lan_and_its_network_card():
    """By the prefix of its address, and by the default route."""
    snapshot = node_states.kilo_flannel("b2")
    uplink = snapshot.underlay()

    assert "10.2.0.0/24" == reading.lan_of(snapshot, "10.2.0.12")
    assert "" == reading.lan_of(snapshot, "10.244.5.0")
    assert uplink is not None
    assert "eth0" == uplink.name == reading.by_index(snapshot, uplink.index)
    assert msgspec.structs.replace(snapshot, default_routes=()).underlay() is None
    assert "" == reading.by_index(snapshot, 0)


def test_what_kilo_routes_one_by_one_is_elsewhere():
    """Flannel's table has no single addresses, and what a leader delivers at home is in another table."""
    remote = {"10.2.0.11", "10.2.0.12", "10.2.0.13"}

    assert remote == reading.hosts_beyond(node_states.kilo_flannel("a1"))
    assert remote | {"10.4.0.1", "10.4.0.2"} == reading.hosts_beyond(node_states.kilo_flannel("a3"))


def test_userspace_wireguard_is_known_by_its_answers():
    """Its device is a tun like any other."""
    snapshot = node_states.kilo_flannel("a1")
    links = {link.name: msgspec.structs.replace(link, kind="tun") for link in snapshot.links}

    assert reading.is_wireguard(snapshot, links["kilo0"])
    assert not reading.is_wireguard(snapshot, links["eth0"])
    assert 1 == len(reading.peers_of(snapshot, "kilo0"))
    assert () == reading.peers_of(snapshot, "eth0")


def test_every_network_card_may_answer_arp():
    """Linux answers on each of a LAN's; loopback has no MAC, pods' bridges are another LAN, and tunnels are none."""

    def link(name, lladdr, *addresses, kind="", is_up=True):
        return Link(
            name=name,
            index=2,
            kind=kind,
            is_up=is_up,
            mtu_bytes=1500,
            lladdr=lladdr,
            addresses=addresses,
            prefix_lengths=(24,) * len(addresses),
        )

    card = link("eth1", "02:4e:00:00:00:02", "10.2.0.11")
    others = (
        link("lo", "00:00:00:00:00:00", "127.0.0.1"),
        link("eth0", "02:4e:00:00:00:01"),
        link("eth2", "02:4e:00:00:00:03", is_up=False),
        link("macvlan0", "02:4e:00:00:00:04", "10.2.0.12", kind="macvlan"),
        link("cni0", "02:4e:00:00:00:05", "10.244.1.1", kind="bridge"),
    )
    seen = Snapshot(links=(*others, card))

    assert ("02:4e:00:00:00:02", "02:4e:00:00:00:01", "02:4e:00:00:00:04") == lan_macs(seen, card)
    assert () == lan_macs(seen, link("wg0", "", "10.8.0.1", kind="wireguard"))
    assert () == lan_macs(seen, None)


def test_a_node_without_pods_has_its_address_in_the_tunnel():
    """A border router's kernel shows that, as it shows the network of a bridge; another device's is nobody's pods."""
    links = (
        Link(name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("192.168.1.5",)),
        Link(name="wg0", index=3, kind="wireguard", is_up=True, mtu_bytes=1420, addresses=("10.8.0.3",)),
    )
    shown = [
        reading.shows_own_pods(Snapshot(links=links), prefix, "192.168.7.7")
        for prefix in ("10.8.0.3/32", "10.8.0.4/32", "192.168.1.5/32")
    ]
    assert [True, False, False] == shown
