"""A hello that makes no sense is refused by the name of its field."""

from __future__ import annotations

import pytest

from meshwatchd.core.membership.validation import complaint, is_report
from meshwatchd.model.discovery import DeviceLayer, Finding, ToldFault
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_report import AdvertisedSilence, AdvertisedVerdict, NodeReport
from tests.support import hellos

B1 = NodeName("b1")


def test_what_nodes_of_the_lab_say_makes_sense():
    """All six, leaders and members."""
    assert [] == [each for each in hellos.whole_mesh().values() if complaint(each)]


@pytest.mark.parametrize(
    ("seen", "more", "words"),
    [
        ({"node": "a 1"}, {}, "node 'a 1' is no name"),
        ({"node": ""}, {}, "node '' is no name"),
        ({"location": "x" * 300}, {}, "is no name"),
        ({"node_ip": "192.168.100"}, {}, "node_ip '192.168.100' is no address"),
        ({"node_ip": "fd00::1"}, {}, "node_ip fd00::1 is IPv6"),
        ({"node_ip": "127.0.0.1"}, {}, "node_ip '127.0.0.1' is no address"),
        ({"overlay_ip": "10.244.1.0/24"}, {}, "overlay_ip '10.244.1.0/24' is no address"),
        ({"leader": "a1"}, {}, "leader 'a1' is no address"),
        ({"node_ip6": "192.168.100.1"}, {}, "node_ip6 '192.168.100.1' is no IPv6 address"),
        ({"pod_cidr": "10.244.1.0"}, {}, "pod_cidr '10.244.1.0' is no IPv4 prefix"),
        ({"pod_cidr": "0.0.0.0/0"}, {}, "pod_cidr '0.0.0.0/0' is no IPv4 prefix"),
        ({"pod_cidr": "10.244.1.0/255.255.255.0"}, {}, "pod_cidr '10.244.1.0/255.255.255.0' is no IPv4 prefix"),
        ({"pod_cidr": "10.244.1.0/024"}, {}, "pod_cidr '10.244.1.0/024' is no IPv4 prefix"),
        ({"pod_cidr": "fd00:1::/64"}, {}, "pod_cidr 'fd00:1::/64' is no IPv4 prefix"),
        ({"pod_cidr": "10.244.1.1/24"}, {}, "pod_cidr '10.244.1.1/24' is no IPv4 prefix"),
        ({"overlay_device": "eth0; reboot"}, {}, "overlay_device 'eth0; reboot' is no device name"),
        ({"node_macs": ("02:4e:00:00:00",)}, {}, "node_macs are more than 8, or one is no MAC"),
        ({"node_macs": ("02:4e:00:00:00:01",) * 9}, {}, "node_macs are more than 8, or one is no MAC"),
        ({"vtep_port": 65_536}, {}, "vtep_port is not from 0 to 65535"),
        ({"vtep_vni": -1}, {}, "vtep_vni is not from 0 to 16777215"),
        ({"vtep_mac": "02:4e:00:00:00:0g"}, {}, "vtep_mac '02:4e:00:00:00:0g' is no MAC"),
        ({"wireguard_mtu_bytes": -1}, {}, "wireguard_mtu_bytes is not from 0 to"),
        ({}, {"tunnel_port": 65_536}, "tunnel_port is not from 0 to 65535"),
        ({}, {"leads_since_ns": 2**63}, "leads_since_ns is not from 0 to"),
        ({"node_ip6": "fe80::1%eth0"}, {}, "node_ip6 'fe80::1%eth0' is no IPv6 address"),
        ({"node_ip6": "::ffff:10.2.0.11"}, {}, "node_ip6 '::ffff:10.2.0.11' is no IPv6 address"),
        ({"overlay_ip": "::ffff:10.2.0.11"}, {}, "overlay_ip '::ffff:10.2.0.11' is no address"),
        ({}, {"faults": (ToldFault("fdb-entry-missing", B1, NodeName("b 2")),)}, "no code at a node"),
        ({}, {"version": "1\n\x1b[2JOK  every layer answers"}, "or not printable: '1\\n\\x1b[2JOK"),
        ({}, {"capabilities": ("taps", "\u202e")}, "or not printable"),
        ({"public_endpoint": "a" * 254}, {}, "a text in it is longer than 253 letters"),
        ({"layers": (DeviceLayer(kind="vxlan", device="\x07", mtu_bytes=1),)}, {}, "or not printable"),
        ({"why": (Finding(source="\x9b", text=""),)}, {}, "or not printable"),
        ({}, {"standby_public_key": "short"}, "standby_public_key is not base64 of 32 bytes"),
        ({}, {"standby_endpoint": "$(reboot)"}, "standby_endpoint '$(reboot)' is no host"),
        ({}, {"standby_endpoint": "a..b"}, "standby_endpoint 'a..b' is no host, whose labels have 1 to 63 letters"),
        ({}, {"standby_endpoint": f"vpn.{'a' * 64}.net"}, "is no host, whose labels have 1 to 63 letters"),
        ({"profiles": ("kilo",) * 17}, {}, "profiles are more than 16"),
        ({"layers": (DeviceLayer(kind="", device="", mtu_bytes=0),) * 17}, {}, "layers are more than 16"),
        ({"traits": ("",) * 17}, {}, "traits are more than 16"),
        ({}, {"capabilities": ("",) * 17}, "capabilities are more than 16"),
        ({}, {"home": "../etc"}, "home '../etc' is no name"),
        ({}, {"faults": (ToldFault("forwarding-off", NodeName("b 1")),)}, "no code at a node"),
        ({}, {"faults": (ToldFault("<script>", B1),)}, "no code at a node"),
        ({}, {"faults": (ToldFault("forwarding-off", B1),) * 17}, "faults are more than 16"),
    ],
)
def test_each_field_is_looked_at(seen, more, words):
    """What is believed ends in routes, in device names and in files."""
    assert words in complaint(hellos.hello("a1", seen=seen, **more))


@pytest.mark.parametrize("host", ["203.0.113.11", "2001:db8::1", "vpn.example.net", f"{'a' * 63}.net"])
def test_an_endpoint_is_an_address_or_a_name(host):
    """The longest label that a resolver takes among them."""
    assert "" == complaint(hellos.hello("a1", standby_endpoint=host))


@pytest.mark.parametrize(
    "report",
    [
        NodeReport(severity="splendid"),
        NodeReport(verdicts=(AdvertisedVerdict("\x1b[2J", "local"),)),
        NodeReport(verdicts=(AdvertisedVerdict("cloud", "LOUD"),)),
        NodeReport(verdicts=(AdvertisedVerdict("cloud", "local", "b 1"),)),
        NodeReport(silences=(AdvertisedSilence("", 1),)),
        NodeReport(silences=(AdvertisedSilence("b1", 99),)),
        NodeReport(silences=(AdvertisedSilence("b1", 1),) * 33),
    ],
)
def test_a_report_that_cannot_be_shown_is_none(report):
    """It goes to a person's terminal."""
    assert not is_report(report)


def test_a_report_of_another_version_can_be_shown():
    """With a code that is not known here."""
    verdicts = (AdvertisedVerdict("", "a-fault-of-tomorrow", ""),)
    assert is_report(NodeReport(severity="ok", verdicts=verdicts, silences=(AdvertisedSilence("b1", 4),)))
