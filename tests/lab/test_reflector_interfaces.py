"""Answers leave by the interface of the request; those to effective probes leave as the routing table says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from meshwatchd.adapters.packet.sockets import open_listener, open_probe
from meshwatchd.adapters.poller import Poller
from tests.support.netns import Space, namespace
from tests.support.packet_node import PacketNode, request, udp
from tests.support.pump import pump

PORT, ROUTED_PORT = 18_620, 18_619


@pytest.fixture
def spaces() -> Iterator[tuple[Space, Space]]:
    """Two namespaces with two cables: requests take the first, the far side's routes the second."""
    with namespace() as near, namespace() as far:
        for number in (0, 1):
            words = ["ip", "link", "add", f"c{number}", "netns", near.name, "type", "veth"]
            subprocess.run([*words, "peer", "name", f"c{number}", "netns", far.name], check=True)
            for space in (near, far):
                space.ip("link", "set", f"c{number}", "up")
                space.ip("address", "add", f"10.9.{number}.{1 if space is near else 2}/24", "dev", f"c{number}")
        near.ip("address", "add", "10.9.9.1/32", "dev", "lo")
        far.ip("address", "add", "10.9.9.2/32", "dev", "lo")
        near.ip("route", "add", "10.9.9.2", "via", "10.9.0.2")
        far.ip("route", "add", "10.9.9.1", "via", "10.9.1.1")
        far.ip("route", "add", "10.9.9.1", "via", "10.9.0.1", "metric", "100")
        for space in (near, far):
            command = ["ip", "netns", "exec", space.name, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0"]
            subprocess.run(command, check=True)
        yield near, far


def _received_packets(space: Space, device: str) -> int:
    statistics = space.ip("-s", "-j", "link", "show", device)
    return int(statistics.partition('"rx":{')[2].partition('"packets":')[2].partition(",")[0])


@pytest.mark.parametrize(("port", "device"), [(PORT, "c0"), (ROUTED_PORT, "c1")])
def test_answer_takes_the_cable_its_port_demands(spaces, port, device):
    """The far side would route everything over the second cable; only effective probes are left to it."""
    near, far = spaces
    poller = Poller()
    node = far.call(lambda: PacketNode("b1", poller, routed_port=ROUTED_PORT))
    far.call(lambda: node.reflector.listeners.listen((PORT, ROUTED_PORT)))
    probe = near.call(lambda: open_probe("10.9.9.1", 20_000))
    try:
        probe.sendto(request(sequence=0), ("10.9.9.2", port))
        pump(poller, lambda: bool(node.events))
        before = _received_packets(near, device)
        for sequence in range(1, 11):
            probe.sendto(request(sequence=sequence), ("10.9.9.2", port))
        pump(poller, lambda: len(node.events) > 10)

        assert {"answers-sent": 11} == node.counters
        assert len(request()) == len(probe.recv(2048))
        assert _received_packets(near, device) - before >= 10
    finally:
        probe.close()
        node.close()
        poller.close()


@pytest.fixture
def overlaid() -> Iterator[tuple[Space, Space]]:
    """Two namespaces; requests cross by VXLAN devices that have no peer of their own, as Cilium's.

    What the near side's routes write into each packet is eBPF's part at Cilium; the far side's lead past the device.
    """
    with namespace() as near, namespace() as far:
        words = ["ip", "link", "add", "c0", "netns", near.name, "type", "veth", "peer", "name", "c0"]
        subprocess.run([*words, "netns", far.name], check=True)
        for number, space in enumerate((near, far), 1):
            other = 3 - number
            space.ip("address", "add", f"10.9.0.{number}/24", "dev", "c0")
            space.ip("address", "add", f"10.9.9.{number}/32", "dev", "lo")
            mac = f"02:00:00:00:00:0{number}"
            space.ip("link", "add", "vx0", "address", mac, "type", "vxlan", "external", "dstport", "8472", "nolearning")
            for device in ("lo", "c0", "vx0"):
                space.ip("link", "set", device, "up")
            space.ip("neighbour", "replace", f"10.9.9.{other}", "lladdr", f"02:00:00:00:00:0{other}", "dev", "vx0")
            encapsulated = ["encap", "ip", "id", "6", "dst", f"10.9.0.{other}", "dev", "vx0"]
            way = encapsulated if space is near else ["via", f"10.9.0.{other}"]
            space.ip("route", "add", f"10.9.9.{other}", *way)
            command = ["ip", "netns", "exec", space.name, "sysctl", "-qw", "net.ipv4.conf.vx0.rp_filter=0"]
            subprocess.run([*command, "net.ipv4.conf.all.rp_filter=0"], check=True)
        yield near, far


def test_answers_to_what_comes_in_by_an_overlay_without_peers_are_routed(overlaid):
    """Out of Cilium's VXLAN by itself a packet has no destination: sending succeeds, and no counter shows the loss."""
    near, far = overlaid
    poller = Poller()
    node = far.call(lambda: PacketNode("b1", poller))
    far.call(lambda: node.reflector.listeners.listen((PORT,)))
    index = int(far.ip("-j", "link", "show", "vx0").partition('"ifindex":')[2].partition(",")[0])
    probe = near.call(lambda: open_probe("10.9.9.1", 20_000))
    try:
        probe.sendto(request(sequence=0), ("10.9.9.2", PORT))
        pump(poller, lambda: bool(node.events))
        with pytest.raises(BlockingIOError):
            probe.recv(2048)

        node.reflector.route_back([index])
        probe.sendto(request(sequence=1), ("10.9.9.2", PORT))
        pump(poller, lambda: len(node.events) > 1)
        assert len(request()) == len(probe.recv(2048))
        assert {"answers-sent": 2} == node.counters
    finally:
        probe.close()
        node.close()
        poller.close()


def test_answers_that_wait_for_neighbours_do_not_keep_others_back():
    """An overlay device that was emptied: answers into it wait for ARP, on the account of the socket they all share.

    The node did not hear its own reflector any more, and took every layer for dead.
    """
    with namespace() as space:
        space.ip("link", "add", "up0", "type", "veth", "peer", "name", "up1")
        space.ip("address", "add", "10.9.9.1/24", "dev", "up0")
        for name in ("up0", "up1"):
            space.ip("link", "set", name, "up")
        with space.call(lambda: open_listener(PORT)) as listener, space.call(udp) as own:
            for number in range(2_000):
                listener.sendto(bytes(300), (f"10.9.9.{2 + number % 4}", PORT))
            listener.sendto(b"heard", own.getsockname())

            assert b"heard" == own.recv(100)
