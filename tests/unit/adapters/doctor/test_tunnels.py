"""wg-quick's files against the devices."""

from __future__ import annotations

import base64

from meshwatchd.adapters.doctor.tunnels import check_tunnels, compare
from meshwatchd.model.snapshot import WireGuardPeer, WireGuardState
from meshwatchd.model.sources import QuickFile, QuickPeer

ONE, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
FILE = QuickFile(
    path="/etc/wireguard/wg0.conf",
    device="wg0",
    listen_port=51820,
    peers=(QuickPeer(public_key=ONE, allowed_ips=("10.0.0.1/32", "10.244.1.0/24")),),
)


def _device(*peers, port=51820):
    return WireGuardState(device="wg0", public_key="", listen_port=port, at_ns=0, peers=peers)


def test_a_device_that_is_as_its_file_says_is_ok():
    """Whatever the order of its prefixes and wherever its peers have gone."""
    peer = WireGuardPeer(public_key=ONE, endpoint="192.0.2.9:1", allowed_ips=("10.244.1.0/24", "10.0.0.1/32"))
    assert ["ok"] == [check.state for check in compare(FILE, _device(peer))]


def test_each_difference_is_named():
    """Port, peers on one side alone, prefixes on one side alone; one command mends all of it."""
    peers = (WireGuardPeer(public_key=ONE, allowed_ips=("10.0.0.1/32", "10.9.0.0/16")), WireGuardPeer(public_key=OTHER))
    (check,) = compare(FILE, _device(*peers, port=51999))
    assert "warning" == check.state
    assert (
        f"wg0 is not as /etc/wireguard/wg0.conf says: port 51999 instead of 51820; peer {OTHER[:8]}... is in the kernel"
        f" alone; peer {ONE[:8]}... without 10.244.1.0/24 and with 10.9.0.0/16 besides"
    ) == check.text
    assert check.remedy.startswith("wg syncconf wg0")
    (check,) = compare(FILE, _device())
    assert f"peer {ONE[:8]}... is missing" in check.text


def test_files_are_read_with_their_faults(tmp_path):
    """One that is wrong, one whose device does not exist; without files nothing is said."""
    assert [] == list(check_tunnels(117, tmp_path))
    (tmp_path / "mwx1.conf").write_text("nonsense\n")
    (tmp_path / "mwx2.conf").write_text("[Interface]\nListenPort = 51820\n")
    found = list(check_tunnels(117, tmp_path))
    assert ["warning", "warning"] == [check.state for check in found]
    assert ["wg-quick up mwx2"] == [check.remedy for check in found if "mwx2" in check.text]
