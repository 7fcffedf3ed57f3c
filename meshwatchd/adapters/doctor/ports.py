"""Who has the UDP ports of the daemon, by the kernel's table of sockets.

Source: Documentation/networking/proc_net_tcp.rst; udp4_format_sock() in net/ipv4/udp.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.port_map import RESERVED_PORTS
from meshwatchd.model.settings import Settings
from meshwatchd.model.units import parse_port_range

PROC = Path("/proc")


def open_ports(proc: Path = PROC) -> dict[int, int]:
    """The user of each local UDP port that a socket has, IPv4 and IPv6 alike."""
    found: dict[int, int] = {}
    for name in ("udp", "udp6"):
        try:
            lines = (proc / "net" / name).read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        for words in (line.split() for line in lines[1:]):
            if len(words) > 7 and words[7].isdigit():
                found[int(words[1].rpartition(":")[2], 16)] = int(words[7])
    return found


def check_ports(settings: Settings, used: dict[int, int], *, is_running: bool) -> Iterator[Check]:
    """Whether the daemon that runs has its ports open, or one that starts would get them."""
    first = settings.probe.port
    wanted = {first - 1: "hellos", first: "probes"}
    for port, purpose in wanted.items():
        remedy = f"ss -ulpn 'sport = :{port}'"
        if is_running and port not in used:
            text = f"meshwatchd runs and has not opened UDP port {port} ({purpose})"
            yield Check(area="ports", state=CheckState.ERROR, text=text, remedy="journalctl -u meshwatchd -n 50")
        elif not is_running and port in used:
            text = f"UDP port {port} ({purpose}) is taken by a program of user {used[port]}"
            yield Check(area="ports", state=CheckState.ERROR, text=text, remedy=f"{remedy}, or set probe.port")
        else:
            how = "is open" if is_running else "is free"
            yield Check(area="ports", state=CheckState.OK, text=f"UDP port {port} ({purpose}) {how}")


def check_ephemeral(settings: Settings, proc: Path = PROC) -> Iterator[Check]:
    """Whether the kernel gives ports of ours to programs that ask for any (ip_local_port_range)."""
    try:
        sysctl = (proc / "sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()
        lowest, highest = int(sysctl[0]), int(sysctl[1])
    except (OSError, ValueError, IndexError):
        return
    ranges = {
        "probes": (settings.probe.port - 2, settings.probe.port + RESERVED_PORTS - 1),
        "fresh flows": parse_port_range(settings.probe.source_ports),
    }
    for purpose, (first, last) in ranges.items():
        if first <= highest and lowest <= last:
            text = f"the kernel gives away ports {lowest} to {highest}, and {first} to {last} are for {purpose}"
            remedy = f"sysctl -w net.ipv4.ip_local_port_range='{max(last + 1, 32768)} 60999'"
            yield Check(area="ports", state=CheckState.WARNING, text=text, remedy=remedy)
