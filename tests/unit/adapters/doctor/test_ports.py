"""Who has our ports."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.doctor.ports import check_ephemeral, check_ports, open_ports
from meshwatchd.model.settings import Settings

HEADER = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
PROBES = "  137: 0100007F:48BA 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 21 2 0000 0\n"
HELLOS = (
    "  9: 00000000000000000000000000000000:48B9 00000000000000000000000000000000:0000 07"
    " 00000000:00000000 00:00000000 00000000     0        0 22 2 0000 0\n"
)


def test_ports_of_both_families_are_read(tmp_path):
    """By the user who has them; a line that is cut short is none."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/udp").write_text(HEADER + PROBES + "  138: 0100\n")
    (tmp_path / "net/udp6").write_text(HEADER + HELLOS)
    assert {18618: 1000, 18617: 0} == open_ports(tmp_path)
    assert {} == open_ports(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("used", "is_running", "states"),
    [
        ({}, False, ["ok", "ok"]),
        ({18618: 1000}, False, ["ok", "error"]),
        ({18617: 0, 18618: 0}, True, ["ok", "ok"]),
        ({18617: 0}, True, ["ok", "error"]),
    ],
)
def test_ports_are_open_while_the_daemon_runs_and_free_while_it_does_not(used, is_running, states):
    """Whoever else has one is named by his number."""
    checks = list(check_ports(Settings(), used, is_running=is_running))
    assert states == [check.state for check in checks]
    if used.get(18618):
        assert "taken by a program of user 1000" in checks[1].text
        assert checks[1].remedy.startswith("ss -ulpn 'sport = :18618'")


@pytest.mark.parametrize(("sysctl", "complaints"), [("32768\t60999", 0), ("15000 60999", 2), ("25000 60999", 1)])
def test_ports_that_the_kernel_gives_to_anybody_are_a_warning(tmp_path, sysctl, complaints):
    """Reflectors' and those of fresh flows."""
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/ip_local_port_range").write_text(sysctl)
    assert complaints == len(list(check_ephemeral(Settings(), tmp_path)))
