"""Sysctls and counters that decide over packets without a trace, read from /proc.

Whatever cannot be read is left out: a kernel without connection tracking, a container that may not see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from meshwatchd.model.host import HostState

PROC = Path("/proc")


def read_host(
    devices: Iterable[str],
    at_ns: int,
    *,
    forwarders: Iterable[str] = (),
    counted: Iterable[str] = (),
    proc: Path = PROC,
) -> HostState:
    """Look once at the host and at these devices, of which those that do not exist are left out.

    Args:
        devices: whose settings are wanted.
        at_ns: CLOCK_MONOTONIC.
        forwarders: beside these, whose forwarding is wanted.
        counted: whose packets are wanted.
        proc: for tests.

    Source: Documentation/networking/ip-sysctl.rst (rp_filter, ip_forward), nf_conntrack-sysctl.rst; ct_cpu_seq_show()
    in net/netfilter/nf_conntrack_standalone.c, one line for each CPU in hexadecimal; snmp_seq_show() in
    net/ipv4/proc.c; dev_seq_printf_stats() in net/core/net-procfs.c, where packets received are the second number of a
    line and packets sent the tenth.
    """
    ipv4 = proc / "sys/net/ipv4"
    named = tuple(devices)
    conntrack = _conntrack(proc)
    return HostState(
        at_ns=at_ns,
        is_forwarding=_flag(ipv4 / "ip_forward"),
        rp_filter=_rp_filter(ipv4 / "conf", named),
        unforwarding=tuple(
            name for name in (*named, *forwarders) if _flag(ipv4 / "conf" / name / "forwarding") is False
        ),
        conntrack_count=_number(proc / "sys/net/netfilter/nf_conntrack_count") or 0,
        conntrack_max=_number(proc / "sys/net/netfilter/nf_conntrack_max") or 0,
        # Two flows that clash when they are entered count as both; that is no want of room.
        conntrack_drops=conntrack.get("drop", 0) - conntrack.get("insert_failed", 0),
        conntrack_invalid=conntrack.get("invalid", 0),
        udp_checksum_errors=_snmp(proc / "net/snmp", "Udp").get("InCsumErrors", 0),
        packets=_packets(proc / "net/dev", frozenset(counted)),
    )


def read_forwarding(proc: Path = PROC) -> bool | None:
    """Whether the host forwards IPv4 packets (net.ipv4.ip_forward); None where that cannot be read."""
    return _flag(proc / "sys/net/ipv4/ip_forward")


def _rp_filter(conf: Path, devices: Iterable[str]) -> dict[str, int]:
    of_all = _number(conf / "all/rp_filter") or 0
    found = {name: _number(conf / name / "rp_filter") for name in devices}
    return {name: max(of_all, value) for name, value in found.items() if value is not None}


def _conntrack(proc: Path) -> dict[str, int]:
    """Sums over all CPUs by the names in the first line."""
    lines = read_text(proc / "net/stat/nf_conntrack").splitlines()
    if not lines:
        return {}
    names, sums = lines[0].split(), dict.fromkeys(lines[0].split(), 0)
    for line in lines[1:]:
        for name, word in zip(names, line.split(), strict=False):
            sums[name] += int(word, 16)
    return sums


def _snmp(path: Path, protocol: str) -> dict[str, int]:
    """Two lines for each protocol: names, then values."""
    lines = [line.split() for line in read_text(path).splitlines() if line.startswith(f"{protocol}:")]
    if len(lines) != 2:
        return {}
    return {name: int(value) for name, value in zip(lines[0][1:], lines[1][1:], strict=False)}


def _packets(path: Path, wanted: frozenset[str]) -> dict[str, tuple[int, int]]:
    """A line for each device: its name, a colon, and eight numbers for each direction."""
    lines = (line.partition(":") for line in (read_text(path).splitlines() if wanted else ()))
    numbers = {name.strip(): rest.split() for name, _, rest in lines}
    return {name: (int(each[1]), int(each[9])) for name, each in numbers.items() if name in wanted and len(each) > 9}


def _flag(path: Path) -> bool | None:
    number = _number(path)
    return None if number is None else number != 0


def _number(path: Path) -> int | None:
    text = read_text(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def read_text(path: Path) -> str:
    """A file's text; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
