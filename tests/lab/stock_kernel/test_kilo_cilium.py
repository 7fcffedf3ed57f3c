"""kilo-cilium: the kernel state Kilo leaves beside Cilium, and what a packet really goes through in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from netnslab import Lab
from netnslab.capture import Capture, Packet
from netnslab.cilium import HOST_IDENTITY, POD_IDENTITY
from netnslab.daemons import Daemons
from netnslab.waiting import wait_until

IP_AND_ICMP_BYTES = 28
"""What ping adds to the size it is given."""

OUT, IN = True, False


class Hop(NamedTuple):
    """A packet passing a device: how many bytes larger than at its source, and what is inside what."""

    node: str
    device: str
    is_outgoing: bool
    overhead_bytes: int
    layers: tuple[str, ...]


POD_PING = "icmp 10.244.6.2 > 10.244.3.2"
POD_VXLAN = f"vxlan {POD_IDENTITY} 10.2.0.13 > 192.168.100.13"
CLOUD_IPIP = "ipip 10.244.6.76 > 10.244.4.74"
CLOUD_VXLAN = f"vxlan {HOST_IDENTITY} 10.2.0.13 > 10.2.0.11"
ONPREM_IPIP = "ipip 10.244.1.71 > 10.244.3.73"
ONPREM_VXLAN = f"vxlan {HOST_IDENTITY} 192.168.100.11 > 192.168.100.13"

# Pod on b3 to pod on a3. VXLAN and what it carries adds 50 bytes, IPIP 20. WireGuard's 60 are seen below.
POD_WALK = (
    Hop("b3", "lxc0", IN, 0, (POD_PING,)),
    Hop("b3", "cilium_vxlan", OUT, 0, (POD_PING,)),
    Hop("b3", "tunl0", OUT, 50, (POD_VXLAN, POD_PING)),
    Hop("b3", "cilium_host", OUT, 70, (CLOUD_IPIP, POD_VXLAN, POD_PING)),
    Hop("b3", "cilium_vxlan", OUT, 70, (CLOUD_IPIP, POD_VXLAN, POD_PING)),
    Hop("b3", "eth0", OUT, 120, (CLOUD_VXLAN, CLOUD_IPIP, POD_VXLAN, POD_PING)),
    Hop("b1", "eth0", IN, 120, (CLOUD_VXLAN, CLOUD_IPIP, POD_VXLAN, POD_PING)),
    Hop("b1", "cilium_vxlan", IN, 70, (CLOUD_IPIP, POD_VXLAN, POD_PING)),
    Hop("b1", "tunl0", IN, 50, (POD_VXLAN, POD_PING)),
    Hop("b1", "kilo0", OUT, 50, (POD_VXLAN, POD_PING)),
    Hop("a1", "kilo0", IN, 50, (POD_VXLAN, POD_PING)),
    Hop("a1", "tunl0", OUT, 50, (POD_VXLAN, POD_PING)),
    Hop("a1", "cilium_host", OUT, 70, (ONPREM_IPIP, POD_VXLAN, POD_PING)),
    Hop("a1", "cilium_vxlan", OUT, 70, (ONPREM_IPIP, POD_VXLAN, POD_PING)),
    Hop("a1", "eth0", OUT, 120, (ONPREM_VXLAN, ONPREM_IPIP, POD_VXLAN, POD_PING)),
    Hop("a3", "eth0", IN, 120, (ONPREM_VXLAN, ONPREM_IPIP, POD_VXLAN, POD_PING)),
    Hop("a3", "cilium_vxlan", IN, 70, (ONPREM_IPIP, POD_VXLAN, POD_PING)),
    Hop("a3", "tunl0", IN, 50, (POD_VXLAN, POD_PING)),
    Hop("a3", "cilium_vxlan", IN, 0, (POD_PING,)),
    Hop("a3", "lxc0", OUT, 0, (POD_PING,)),
)

POD_REPLY = "icmp 10.244.3.2 > 10.244.6.2"
REPLY_VXLAN = f"vxlan {POD_IDENTITY} 192.168.100.13 > 10.2.0.13"
REPLY_WALK = (
    Hop(
        "a3",
        "eth0",
        OUT,
        120,
        (
            f"vxlan {HOST_IDENTITY} 192.168.100.13 > 192.168.100.11",
            "ipip 10.244.3.73 > 10.244.1.71",
            REPLY_VXLAN,
            POD_REPLY,
        ),
    ),
    Hop("a1", "kilo0", OUT, 50, (REPLY_VXLAN, POD_REPLY)),
    Hop(
        "b1",
        "eth0",
        OUT,
        120,
        (
            f"vxlan {HOST_IDENTITY} 10.2.0.11 > 10.2.0.13",
            "ipip 10.244.4.74 > 10.244.6.76",
            REPLY_VXLAN,
            POD_REPLY,
        ),
    ),
    Hop("b3", "lxc0", OUT, 0, (POD_REPLY,)),
)

HOST_PING = "icmp 10.2.0.13 > 192.168.100.13"
HOST_WALK = (
    Hop("b3", "tunl0", OUT, 0, (HOST_PING,)),
    Hop("b3", "eth0", OUT, 70, (CLOUD_VXLAN, CLOUD_IPIP, HOST_PING)),
    Hop("b1", "kilo0", OUT, 0, (HOST_PING,)),
    Hop("a1", "eth0", OUT, 70, (ONPREM_VXLAN, ONPREM_IPIP, HOST_PING)),
    Hop("a3", "tunl0", IN, 0, (HOST_PING,)),
)

# kilo.md 3.1 of the design notes, from a live agent, with the route to the node's own pod in place of eBPF.
LEADER_ROUTES = """\
default via 192.168.100.1 dev eth0
10.2.0.11 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.2.0.12 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.2.0.13 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.4.0.0/16 dev kilo0 proto kernel scope link src 10.4.0.2
10.244.1.0/24 via 10.244.1.71 dev cilium_host proto kernel src 10.244.1.71
10.244.1.2 dev lxc0 proto kernel scope link
10.244.1.71 dev cilium_host proto kernel scope link
10.244.2.0/24 via 10.244.1.71 dev cilium_host proto kernel src 10.244.1.71 mtu 1450
10.244.3.0/24 via 10.244.1.71 dev cilium_host proto kernel src 10.244.1.71 mtu 1450
10.244.4.0/24 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.244.5.0/24 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
10.244.6.0/24 via 10.4.0.1 dev kilo0 proto static src 192.168.100.11 onlink
192.168.100.0/24 dev eth0 proto kernel scope link src 192.168.100.11
"""

MEMBER_ROUTES = """\
default via 10.2.0.1 dev eth0
10.2.0.0/24 dev eth0 proto kernel scope link src 10.2.0.13
10.4.0.1 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
10.4.0.2 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
10.244.1.0/24 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
10.244.2.0/24 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
10.244.3.0/24 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
10.244.4.0/24 via 10.244.6.76 dev cilium_host proto kernel src 10.244.6.76 mtu 1450
10.244.5.0/24 via 10.244.6.76 dev cilium_host proto kernel src 10.244.6.76 mtu 1450
10.244.6.0/24 via 10.244.6.76 dev cilium_host proto kernel src 10.244.6.76
10.244.6.2 dev lxc0 proto kernel scope link
10.244.6.76 dev cilium_host proto kernel scope link
192.168.100.11 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
192.168.100.12 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
192.168.100.13 via 10.244.4.74 dev tunl0 proto static src 10.2.0.13 onlink
"""

LEADER_TABLE_1107 = """\
192.168.100.12 via 10.244.2.72 dev tunl0 proto static onlink
192.168.100.13 via 10.244.3.73 dev tunl0 proto static onlink
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """One lab for all tests: each leaves it as it was."""
    with Lab.up("kilo-cilium") as running:
        yield running


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def _show(lab: Lab, node: str, *command: str) -> list[str]:
    return _lines(lab.node(node).run(command, check=True).stdout)


def _watch(stack: ExitStack, lab: Lab, walk: Sequence[Hop]) -> dict[tuple[str, str], Capture]:
    places = dict.fromkeys((hop.node, hop.device) for hop in walk)
    return {(node, device): stack.enter_context(Capture(lab.node(node), device)) for node, device in places}


def _unseen(walk: Sequence[Hop], seen: dict[tuple[str, str], list[Packet]], length_bytes: int) -> list[Hop]:
    return [
        hop
        for hop in walk
        if Packet(is_outgoing=hop.is_outgoing, length_bytes=length_bytes + hop.overhead_bytes, layers=hop.layers)
        not in seen[hop.node, hop.device]
    ]


def _ping(lab: Lab, size_bytes: int) -> bool:
    """One echo request between the pods of b3 and a3, as an IP packet of that size; true when answered."""
    ping = ["ping", "-n", "-c", "1", "-W", "5", "-s", str(size_bytes - IP_AND_ICMP_BYTES), lab.pod("a3").ip]
    return lab.pod("b3").run(ping).returncode == 0


def test_leader_has_the_state_kilo_leaves(lab):
    """Routes over kilo0, and table 1107 with rules right before Cilium's rule for the local table."""
    assert _lines(LEADER_ROUTES) == _show(lab, "a1", "ip", "-4", "route")
    assert _lines(LEADER_TABLE_1107) == _show(lab, "a1", "ip", "-4", "route", "show", "table", "1107")
    assert [
        "9: from all fwmark 0x200/0xf00 lookup 2004",
        "98: from all to 192.168.100.13 iif kilo0 lookup 1107",
        "99: from all to 192.168.100.12 iif kilo0 lookup 1107",
        "100: from all lookup local",
    ] == _show(lab, "a1", "ip", "-4", "rule")[:4]


def test_member_has_the_state_kilo_leaves(lab):
    """Everything of the other location by way of the leader's cilium_host address, over tunl0; kilo0 is down."""
    assert _lines(MEMBER_ROUTES) == _show(lab, "b3", "ip", "-4", "route")
    assert ["kilo0 DOWN 10.4.0.1/16"] == _show(lab, "b3", "ip", "-4", "-br", "address", "show", "kilo0")


def test_overlay_device_is_a_collect_metadata_vxlan(lab):
    """cilium_vxlan knows no peer: no address, no remote, no FDB, which is how it looks when it is healthy."""
    detail = " ".join(_show(lab, "b3", "ip", "-d", "link", "show", "cilium_vxlan"))

    assert "vxlan external id 0" in detail
    assert "dstport 8472 nolearning" in detail
    assert [] == _show(lab, "b3", "ip", "-4", "-o", "address", "show", "dev", "cilium_vxlan")
    assert [] == _show(lab, "b3", "bridge", "fdb", "show", "dev", "cilium_vxlan")


def test_pod_packet_crosses_vxlan_ipip_vxlan_wireguard_ipip_vxlan(lab):
    """The packet from pod to pod is seen, with its layers and its size, on every device of its way, and back."""
    assert _ping(lab, 84), "the way is open before anybody looks"
    with ExitStack() as stack:
        captures = _watch(stack, lab, (*POD_WALK, *REPLY_WALK))
        assert _ping(lab, 84)
        seen = {place: capture.packets() for place, capture in captures.items()}

    assert [] == _unseen((*POD_WALK, *REPLY_WALK), seen, 84)


def test_between_leaders_there_is_only_wireguard(lab):
    """b1 sends the packet to a1's public address as WireGuard: padded to 16, and 60 bytes of header."""
    with Capture(lab.node("b1"), "eth0") as capture:
        assert _ping(lab, 84)
        sent = [packet for packet in capture.packets() if packet.is_outgoing]

    # 84 + 50 by VXLAN is 134, padded 144; IPv4 20, UDP 8, WireGuard 32 (whitepaper 5.4.6: 16, and tag 16).
    assert Packet(is_outgoing=OUT, length_bytes=204, layers=("wireguard 10.2.0.11 > 203.0.113.11",)) in sent


def test_host_packet_crosses_ipip_vxlan_wireguard_ipip_vxlan(lab):
    """From node address to node address it is the same way without the pods' own VXLAN."""
    with ExitStack() as stack:
        captures = _watch(stack, lab, HOST_WALK)
        lab.node("b3").run(["ping", "-n", "-c", "1", "-W", "5", lab.node("a3").ip], check=True)
        seen = {place: capture.packets() for place, capture in captures.items()}

    assert [] == _unseen(HOST_WALK, seen, 84)


@pytest.mark.parametrize(("size_bytes", "is_whole"), [(1370, True), (1371, False), (1450, False)])
def test_pod_packets_up_to_1370_bytes_stay_whole(lab, size_bytes, is_whole):
    """kilo0's 1420 bytes are the narrowest place; what is larger crosses in fragments of its VXLAN packet."""
    with Capture(lab.node("a1"), "kilo0") as capture:
        assert _ping(lab, size_bytes), "pods may send up to 1450 bytes"
        received = [packet.layers for packet in capture.packets() if not packet.is_outgoing]

    has_fragments = any(layer.startswith("fragment") for layers in received for layer in layers)
    assert is_whole == (not has_fragments)


def test_leader_overlay_fault_bites_both_directions(lab):
    """What the leader cannot send by VXLAN is lost for pods of both sides, while its LAN and WireGuard are fine."""
    drop = "add rule netdev probe out udp sport 1-65535 udp dport 8472 drop"
    hook = "add chain netdev probe out { type filter hook ingress device b1-eth0 priority 0; }"
    lab.wan.run(["nft", f"add table netdev probe; {hook}; {drop}"], check=True)
    try:
        assert not _ping(lab, 84)
        lab.node("b3").run(["ping", "-n", "-c", "1", "-W", "5", lab.node("b1").ip], check=True)
        lab.node("a1").run(["ping", "-n", "-c", "1", "-W", "5", "10.4.0.1"], check=True)
    finally:
        lab.wan.run(["nft", "delete table netdev probe"], check=True)
    wait_until(lambda: _ping(lab, 84), timeout_s=30, what="the pods to reach each other again")


IPIP_LAYER = 3
PROBE = ("vxlan 6 10.2.0.13 > 10.2.0.11", CLOUD_IPIP, "udp 10.244.6.76 > 10.244.4.74")
ANSWER = ("vxlan 6 10.2.0.11 > 10.2.0.13", "ipip 10.244.4.74 > 10.244.6.76", "udp 10.244.4.74 > 10.244.6.76")


def test_ipip_probes_and_their_answers_are_ipip_on_the_wire(lab, tmp_path):
    """As the packets of b3's traffic on their way to b1: IPIP in VXLAN, both ways."""
    quiet = {"daemon": {"mode": "observe"}, "probe": {"profile": "wan"}}

    def state() -> str:
        status = daemons.status("b3")
        sessions = status["sessions"] if status else ()
        return next((each["state"] for each in sessions if each["layer"] == IPIP_LAYER), "none")

    seen: set[tuple[bool, tuple[str, ...]]] = set()

    def are_up_and_seen() -> bool:
        # What nobody takes out of the socket soon fills it, and the probes come last of all.
        seen.update((packet.is_outgoing, packet.layers) for packet in wire.packets())
        return state() == "up" and {(IN, PROBE), (OUT, ANSWER)} <= seen

    with Daemons(lab, tmp_path, settings=quiet, nodes=("b1", "b3")) as daemons, Capture(lab.node("b1"), "eth0") as wire:
        wait_until(are_up_and_seen, timeout_s=120, what="b3's session to be up and IPIP on the wire", poll_s=0.5)
