"""Kernel, clock and networkd, read below a root of the test's own."""

from __future__ import annotations

import os

import pytest

from meshwatchd.adapters.doctor.machine import check_machine, check_networkd, judge_clock
from meshwatchd.adapters.stamp_interop.host import ClockState
from meshwatchd.model.settings import DaemonSettings, Mode, Settings
from meshwatchd.wire.report_tlv import SyncSource


def _write(root, **files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _told(root, *, mode=Mode.OBSERVE):
    checks = check_machine(Settings(daemon=DaemonSettings(mode=mode)), ("kilo0",), root=root)
    return {check.text: (check.state.value, check.remedy) for check in checks if check.area == "kernel"}


def test_wireguard_may_be_loaded_or_a_module(tmp_path):
    """modules.dep names what modprobe finds."""
    release = os.uname().release
    _write(tmp_path, **{f"lib/modules/{release}/modules.dep": "kernel/drivers/net/wireguard/wireguard.ko.xz: x\n"})
    assert {f"Linux {release} has WireGuard": ("ok", "")} == _told(tmp_path)


def test_a_kernel_without_wireguard_is_an_error_where_links_are_wanted(tmp_path, monkeypatch):
    """Observing needs none; wireguard-go will do."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ["warning"] == [state for state, _ in _told(tmp_path).values()]
    assert ["error"] == [state for state, _ in _told(tmp_path, mode=Mode.ENFORCE).values()]
    (tmp_path / "wireguard-go").touch(mode=0o755)
    assert ["note"] == [state for state, _ in _told(tmp_path).values()]


def test_sysctls_that_lose_packets_come_with_the_command(tmp_path):
    """Forwarding off, strict reverse path, a table of connections that is nearly full."""
    _write(
        tmp_path,
        **{
            "proc/sys/net/ipv4/ip_forward": "0",
            "proc/sys/net/ipv4/conf/kilo0/rp_filter": "1",
            "proc/sys/net/netfilter/nf_conntrack_count": "95",
            "proc/sys/net/netfilter/nf_conntrack_max": "100",
        },
    )
    remedies = [remedy for _, remedy in _told(tmp_path).values()]
    assert "sysctl -w net.ipv4.ip_forward=1" in remedies
    assert "sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.kilo0.rp_filter=2" in remedies
    assert "sysctl -w net.netfilter.nf_conntrack_max=200" in remedies


def test_a_clock_that_nobody_disciplines_is_a_warning():
    """Whatever its error is."""
    assert "warning" == judge_clock(ClockState()).state
    assert "ok" == judge_clock(ClockState(source=SyncSource.NTP)).state


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "warning"),
        ("[Network]\nManageForeignRoutes=no\n", "warning"),
        ("[Network]\nManageForeignRoutes = no\nManageForeignRoutingPolicyRules=false\n", "ok"),
    ],
)
def test_networkd_must_leave_rules_and_routes_alone(tmp_path, text, expected):
    """Both of its settings count, and nothing is said where it does not run, though its directory is there."""
    _write(tmp_path, **{"etc/systemd/networkd.conf.d/50-meshwatchd.conf": text})
    (tmp_path / "run/systemd/netif").mkdir(parents=True)
    _write(tmp_path, **{"proc/1/comm": "systemd\n"})
    assert [] == list(check_networkd(tmp_path))
    _write(tmp_path, **{"proc/401/comm": "systemd-network\n"})
    [told] = check_networkd(tmp_path)
    assert expected == told.state
    assert told.remedy.endswith("systemctl try-restart systemd-networkd") or expected == "ok"
