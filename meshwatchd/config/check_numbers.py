"""Whether the numbers of a configuration fit together and stay clear of everybody else's.

Ports, tables and priorities are bands, not single numbers: each path, link or pair of locations takes one.
The map of what others use on a Kubernetes node is from their sources (Kilo, Cilium, Tailscale, NetBird).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

from meshwatchd.config.check_metrics import check_metrics
from meshwatchd.config.values import (
    Finding,
    check_device,
    check_directory,
    check_duration,
    check_name,
    check_number,
    check_port_range,
)
from meshwatchd.model.plan import FIRST_TABLES, TABLES
from meshwatchd.model.port_map import LEAST_PROBE_PORT, MOST_PROBE_PORT, RESERVED_PORTS, mesh_ports
from meshwatchd.model.settings import MINUTE, SECOND, TIMERS, Mode, PolicySettings, Settings
from meshwatchd.model.source_ports import BURST_PART, split_ports
from meshwatchd.model.topology import COUNTED_LOCATIONS, LINKS_PER_PAIR, MAX_LOCATIONS, pair_number
from meshwatchd.model.units import parse_duration, parse_port_range, render_duration

BURST_MOST_NS = SECOND
"""In long doubt a session is given a burst probe a second at least."""

MOST_RUNTIME_DIR_BYTES = 107 - len("/control.sock")
"""sun_path has 108 bytes with its closing NUL (linux/un.h)."""

MOST_JOURNAL_MIB = 1024
"""It lies in memory."""

MOST_ACTIONS = 10_000
"""Each is remembered for a day."""

BAND = 100
"""Priorities we take, from the base on."""

FOREIGN_PORTS = {
    4789: "VXLAN",
    6081: "Geneve",
    8472: "VXLAN of flannel and Cilium",
    51820: "WireGuard of Kilo",
    51821: "WireGuard of flannel",
    51871: "WireGuard of Cilium",
}
FOREIGN_TABLES = {
    52: "Tailscale",
    253: "the kernel",
    254: "the kernel",
    255: "the kernel",
    1107: "Kilo",
    2004: "Cilium",
    2005: "Cilium",
    7120: "NetBird",
    51820: "wg-quick",
}
FOREIGN_PROTOCOLS = {
    8: "gated",
    9: "route advertisements",
    10: "mrt",
    11: "zebra",
    12: "BIRD",
    13: "DECnet",
    14: "xorp",
    15: "ntk",
    16: "DHCP",
    17: "mrouted",
    18: "keepalived",
    42: "babel",
    80: "OpenR",
    84: "OVN",
    186: "BGP",
    187: "IS-IS",
    188: "OSPF",
    189: "RIP",
    192: "EIGRP",
}
"""linux/rtnetlink.h and iproute2's rt_protos; 0 to 4 are the kernel's and the administrator's."""

_PREFIX = re.compile(r"[a-z][a-z0-9]{0,7}")


def check_numbers(settings: Settings) -> Iterator[Finding]:
    """Everything outside [mesh], the most basic first."""
    yield from _check_daemon(settings)
    yield from _check_durations(settings)
    yield from _check_kernel(settings)
    yield from _check_ports(settings)
    yield from _check_flow_memory(settings)


def _check_daemon(settings: Settings) -> Iterator[Finding]:
    yield from check_name("daemon.node", settings.daemon.node)
    yield from check_directory("daemon.state_dir", settings.daemon.state_dir)
    yield from check_directory("daemon.runtime_dir", settings.daemon.runtime_dir)
    if len(settings.daemon.runtime_dir.encode()) > MOST_RUNTIME_DIR_BYTES:
        yield Finding(
            key="daemon.runtime_dir",
            problem="is too long for a socket to be in it",
            remedy=f"write at most {MOST_RUNTIME_DIR_BYTES} bytes",
        )
    yield from check_number("daemon.journal_mib", settings.daemon.journal_mib, least=0, most=MOST_JOURNAL_MIB)
    yield from _check_keys(settings)
    yield from check_directory("standby.private_key_file", settings.standby.private_key_file)
    if settings.daemon.log_format not in {"json", "console"}:
        yield Finding(
            key="daemon.log_format",
            problem=f"{settings.daemon.log_format!r} is none of the choices",
            remedy="write one of json, console",
        )
    if settings.daemon.mode is not Mode.OBSERVE and not settings.mesh.location and not settings.discovery.enabled:
        yield Finding(
            key="daemon.mode",
            problem=f'"{settings.daemon.mode.value}" needs a mesh, and none is declared',
            remedy="declare [[mesh.location]] and [[mesh.node]], or write discovery.enabled = true",
        )


def _check_keys(settings: Settings) -> Iterator[Finding]:
    auth = settings.auth
    yield from check_directory("auth.key_file", auth.key_file)
    if auth.accepted_key_file:
        yield from check_directory("auth.accepted_key_file", auth.accepted_key_file)
    if auth.accepted_key_file == auth.key_file:
        yield Finding(
            key="auth.accepted_key_file",
            problem=f"{auth.accepted_key_file} is auth.key_file again",
            remedy='name the other file of a rotation, or write ""',
        )


def _check_durations(settings: Settings) -> Iterator[Finding]:
    probe, standby, policy = settings.probe, settings.standby, settings.policy
    yield from check_number(
        "probe.packets_per_second", probe.packets_per_second, least=50, most=1_000_000, why="of all sessions together"
    )
    yield from check_duration("probe.flow_memory", probe.flow_memory, shortest_ns=SECOND, longest_ns=60 * MINUTE)
    # WireGuard counts keepalives in whole seconds; a NAT mapping outlives 25 s nearly everywhere.
    yield from check_duration("standby.keepalive", standby.keepalive, shortest_ns=SECOND, longest_ns=MINUTE)
    yield from check_duration("policy.hold_down", policy.hold_down, shortest_ns=0, longest_ns=24 * 60 * MINUTE)
    yield from check_duration("policy.wait_to_restore", policy.wait_to_restore, shortest_ns=0, longest_ns=60 * MINUTE)
    yield from check_duration("bisect.pause", settings.bisect.pause, shortest_ns=SECOND, longest_ns=24 * 60 * MINUTE)
    yield from check_duration("bisect.timeout", settings.bisect.timeout, shortest_ns=SECOND, longest_ns=MINUTE // 2)
    yield from _check_policy(policy)
    yield from check_metrics(settings.metrics)
    repair = settings.repair
    yield from check_number("repair.actions_per_minute", repair.actions_per_minute, least=1, most=60)
    yield from check_number("repair.actions_per_day", repair.actions_per_day, least=1, most=10_000)


def _check_policy(policy: PolicySettings) -> Iterator[Finding]:
    yield from check_number("policy.actions_per_minute", policy.actions_per_minute, least=1, most=60)
    yield from check_number("policy.actions_per_day", policy.actions_per_day, least=1, most=MOST_ACTIONS)
    yield from check_number("policy.jitter_percent", policy.jitter_percent, least=0, most=100)
    yield from check_duration("policy.half_life", policy.half_life, shortest_ns=SECOND // 10, longest_ns=60 * MINUTE)
    yield from check_number("policy.suppress", policy.suppress, least=1001, most=100_000)
    yield from check_number("policy.reuse", policy.reuse, least=1, most=policy.suppress - 1)
    yield from check_number("policy.storm_locations", policy.storm_locations, least=2, most=1000)


def _check_kernel(settings: Settings) -> Iterator[Finding]:
    kernel, mesh = settings.kernel, settings.mesh
    yield from check_number("kernel.protocol", kernel.protocol, least=5, most=255, why="one byte, 0 to 4 are taken")
    if owner := FOREIGN_PROTOCOLS.get(kernel.protocol):
        yield Finding(
            key="kernel.protocol",
            problem=f"{kernel.protocol} marks the routes of {owner}",
            remedy="choose a number nobody uses, such as 117",
        )
    is_large = len(mesh.location) > COUNTED_LOCATIONS
    yield from _check_tables(kernel.table_base, TABLES if is_large else FIRST_TABLES)
    yield from _check_priorities(kernel.priority_base)
    if not _PREFIX.fullmatch(kernel.device_prefix):
        yield Finding(
            key="kernel.device_prefix",
            problem=f"{kernel.device_prefix!r} is no prefix for devices",
            remedy="write 1 to 8 lower-case letters and digits, a letter first, such as mw",
        )
    devices = [("mesh.wireguard_device", mesh.wireguard_device), ("mesh.overlay_device", mesh.overlay_device)]
    if mesh.ipip_device:
        devices.append(("mesh.ipip_device", mesh.ipip_device))
    for key, device in devices:
        yield from check_device(key, device)
        if re.fullmatch(rf"{re.escape(kernel.device_prefix)}\d+", device):
            yield Finding(
                key="kernel.device_prefix",
                problem=f"{key} {device} would be taken for a device of ours",
                remedy="choose another prefix",
            )


def _check_tables(base: int, count: int) -> Iterator[Finding]:
    most = 2**32 - count
    yield from check_number("kernel.table_base", base, least=1, most=most, why=f"{count} tables follow from there")
    taken = next((table for table in sorted(FOREIGN_TABLES) if base <= table < base + count), None)
    if taken is not None:
        yield Finding(
            key="kernel.table_base",
            problem=f"tables {base} to {base + count - 1} contain {taken} of {FOREIGN_TABLES[taken]}",
            remedy=f"choose {count} tables nobody uses, such as 7700",
        )


def _check_priorities(base: int) -> Iterator[Finding]:
    """Behind Cilium's local rule (100) and NetBird's (105, 110), ahead of Kilo's and main (32766)."""
    yield from check_number(
        "kernel.priority_base",
        base,
        least=111,
        most=32_000 - BAND,
        why="behind Cilium's and NetBird's rules, ahead of Kilo's and main",
    )
    if base <= 5270 and base + BAND > 5210:
        yield Finding(
            key="kernel.priority_base",
            problem=f"priorities {base} to {base + BAND - 1} contain 5210 to 5270 of Tailscale",
            remedy=f"choose {BAND} priorities nobody uses, such as 5400",
        )


def _check_ports(settings: Settings) -> Iterator[Finding]:
    probe, standby = settings.probe, settings.standby
    count = _link_count(settings)
    why = f"{RESERVED_PORTS} ports follow"
    yield from check_number("probe.port", probe.port, least=LEAST_PROBE_PORT, most=MOST_PROBE_PORT, why=why)
    yield from check_number("standby.port", standby.port, least=1024, most=65_536 - count, why=f"{count} ports follow")
    yield from check_number("standby.mtu", standby.mtu, least=576, most=65_455, why="bytes inside the tunnel")
    probes, links = mesh_ports(probe.port), link_ports(settings)
    for key, ports in (("probe.port", probes), ("standby.port", links)):
        taken = next((port for port in sorted(FOREIGN_PORTS) if port in ports), None)
        if taken is not None:
            yield Finding(
                key=key,
                problem=f"{ports[0]} to {ports[-1]} contain {taken}, the {FOREIGN_PORTS[taken]}",
                remedy=f"choose ports nobody uses, such as 18618 for probes and {_free_port(count)} for standby links",
            )
    if probes.start < links.stop and links.start < probes.stop:
        yield Finding(
            key="standby.port",
            problem=f"{links[0]} to {links[-1]} overlap the probe ports {probes[0]} to {probes[-1]}",
            remedy="keep them apart, as 18618 for probes and 51830 for standby links do",
        )


def _free_port(count: int) -> int:
    """Where so many standby ports in a row can begin."""
    return 51_830 if count <= 51_871 - 51_830 else 52_000


def link_ports(settings: Settings) -> range:
    """The UDP ports of standby links."""
    return range(settings.standby.port, settings.standby.port + _link_count(settings))


def _link_count(settings: Settings) -> int:
    """Standby ports to keep free: those of the declared pairs of locations, at least those of one."""
    locations = min(MAX_LOCATIONS, len(settings.mesh.location))
    highest = max((pair_number(*pair, locations) for pair in itertools.combinations(range(locations), 2)), default=0)
    return (highest + 1) * LINKS_PER_PAIR


def _check_flow_memory(settings: Settings) -> Iterator[Finding]:
    """A source port may come again only when the network has forgotten it, or the probe is not fresh."""
    probe = settings.probe
    yield from check_port_range("probe.source_ports", probe.source_ports)
    first, _ = parse_port_range(probe.source_ports)
    if first < 1024:
        yield Finding(key="probe.source_ports", problem=f"{first} is privileged", remedy="start at 1024 or above")
    memory_ns = parse_duration(probe.flow_memory)
    slowest_ns = TIMERS[probe.profile].watch_ns
    for name, band, most_ns in zip(("regular", "burst"), split_ports(probe), (slowest_ns, BURST_MOST_NS), strict=True):
        if band.is_wide_enough and band.round_ns <= most_ns:
            continue
        needed = -(-memory_ns // most_ns) + 2 * band.lead + 1
        share = BURST_PART if name == "burst" else BURST_PART / (BURST_PART - 1)
        width = math.ceil(needed * share) + RESERVED_PORTS
        yield Finding(
            key="probe.source_ports",
            problem=(
                f"{probe.source_ports} leaves {band.count} ports to {name} probes; for one each "
                f'{render_duration(most_ns)} (profile "{probe.profile.value}") not to repeat within the flow memory '
                f"of {render_duration(memory_ns)} there must be {needed}"
            ),
            remedy=f"make the range {width} ports wide, or shorten probe.flow_memory",
        )
        return
