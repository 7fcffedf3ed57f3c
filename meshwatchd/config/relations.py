"""How the settings must fit together, and what a type cannot say of one of them; the declared mesh has `check_mesh`.

Ports, tables and priorities are bands, not single numbers: each path, link or pair of locations takes one.
The map of what others use on a Kubernetes node is from their sources (Kilo, Cilium, Tailscale, NetBird).
"""

from __future__ import annotations

import ipaddress
import itertools
import math
import re
from collections.abc import Iterator

from meshwatchd.config.check_canary import check_canary
from meshwatchd.config.check_mesh import is_whole
from meshwatchd.config.shape import element_key
from meshwatchd.config.values import Finding, check_device, check_endpoint, check_name, check_number, check_port_range
from meshwatchd.model.mesh_profile import Trait, traits_of
from meshwatchd.model.plan import FIRST_TABLES, TABLES
from meshwatchd.model.port_map import RESERVED_PORTS, mesh_ports
from meshwatchd.model.rule_window import WIDE
from meshwatchd.model.settings import SECOND, Mode, Settings
from meshwatchd.model.source_ports import BURST_PART, split_ports
from meshwatchd.model.stamp import StampMode
from meshwatchd.model.timers import TIMERS
from meshwatchd.model.topology import COUNTED_LOCATIONS, LINKS_PER_PAIR, MAX_LOCATIONS, pair_number
from meshwatchd.model.units import parse_port_range, render_duration

BURST_MOST_NS = SECOND
"""In long doubt a session is given a burst probe a second at least."""

MOST_RUNTIME_DIR_BYTES = 107 - len("/control.sock")
"""sun_path has 108 bytes with its closing NUL (linux/un.h)."""

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
_LARGEST = {4: 8, 6: 19}
"""Shortest prefix length of each IP version: nobody's own network is larger than 10.0.0.0/8 or a registry's /19."""


def check_relations(settings: Settings) -> Iterator[Finding]:
    """Everything outside [mesh], the most basic first."""
    yield from _check_daemon(settings)
    yield from _check_keys(settings)
    yield from _check_policy(settings)
    yield from _check_metrics(settings)
    yield from _check_kernel(settings)
    yield from _check_ports(settings)
    yield from _check_flow_memory(settings)
    yield from _check_discovery(settings)
    yield from _check_canaries(settings)
    yield from _check_stamp(settings)


def _check_daemon(settings: Settings) -> Iterator[Finding]:
    yield from check_name("daemon.node", settings.daemon.node)
    if len(settings.daemon.runtime_dir.encode()) > MOST_RUNTIME_DIR_BYTES:
        yield Finding(
            key="daemon.runtime_dir",
            problem="is too long for a socket to be in it",
            remedy=f"write at most {MOST_RUNTIME_DIR_BYTES} bytes",
        )
    if settings.daemon.mode is not Mode.OBSERVE and not settings.mesh.location and not settings.discovery.enabled:
        yield Finding(
            key="daemon.mode",
            problem=f'"{settings.daemon.mode.value}" needs a mesh, and none is declared',
            remedy="declare [[mesh.location]] and [[mesh.node]], or write discovery.enabled = true",
        )


def _check_keys(settings: Settings) -> Iterator[Finding]:
    auth = settings.auth
    if auth.accepted_key_file == auth.key_file:
        yield Finding(
            key="auth.accepted_key_file",
            problem=f"{auth.accepted_key_file} is auth.key_file again",
            remedy='name the other file of a rotation, or write ""',
        )


def _check_policy(settings: Settings) -> Iterator[Finding]:
    policy = settings.policy
    yield from check_number("policy.reuse", policy.reuse, least=1, most=policy.suppress - 1)


def _check_metrics(settings: Settings) -> Iterator[Finding]:
    listen = settings.metrics.listen
    if listen and not _is_address(listen):
        yield Finding(
            key="metrics.listen",
            problem=f"{listen!r} is no address and port",
            remedy='write listen = "127.0.0.1:9469", or "[::1]:9469"',
        )


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    try:
        ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return port.isdigit() and 0 < int(port) < 65536


_HAVE_NO_TUNNEL = frozenset((Trait.DIRECT, Trait.STAR))
"""Kinds of mesh whose nodes, or some of them, have no WireGuard device of the mesh: its name is empty there."""


def _check_kernel(settings: Settings) -> Iterator[Finding]:
    kernel, mesh = settings.kernel, settings.mesh
    if owner := FOREIGN_PROTOCOLS.get(kernel.protocol):
        yield Finding(
            key="kernel.protocol",
            problem=f"{kernel.protocol} marks the routes of {owner}",
            remedy="choose a number nobody uses, such as 117",
        )
    is_large = len(mesh.location) > COUNTED_LOCATIONS
    yield from _check_tables(kernel.table_base, TABLES if is_large else FIRST_TABLES)
    yield from _check_priorities(kernel.priority_base)
    devices = [("mesh.overlay_device", mesh.overlay_device)]
    if mesh.wireguard_device or not _HAVE_NO_TUNNEL & traits_of((mesh.profile,), mesh.traits):
        devices.insert(0, ("mesh.wireguard_device", mesh.wireguard_device))
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
    if base <= 5270 and base + WIDE > 5210:
        yield Finding(
            key="kernel.priority_base",
            problem=f"priorities {base} to {base + WIDE - 1} contain 5210 to 5270 of Tailscale",
            remedy=f"choose {WIDE} priorities nobody uses, such as 5400",
        )


def _check_ports(settings: Settings) -> Iterator[Finding]:
    probe, standby = settings.probe, settings.standby
    count = _link_count(settings)
    yield from check_number("standby.port", standby.port, least=1024, most=65_536 - count, why=f"{count} ports follow")
    probes, links = mesh_ports(probe.port), _link_ports(settings)
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


def _link_ports(settings: Settings) -> range:
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
    memory_ns = probe.flow_memory
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


def _check_discovery(settings: Settings) -> Iterator[Finding]:
    discovery = settings.discovery
    for index, text in enumerate(discovery.peers):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            yield Finding(
                key=f"discovery.peers[{index}]",
                problem=f"{text!r} is no address",
                remedy="write IPv4 or IPv6 without port, as in 10.2.0.11",
            )
    if settings.daemon.node in discovery.forbid:
        yield Finding(
            key="discovery.forbid",
            problem=f"{settings.daemon.node} is this node itself",
            remedy="take it out, or stop the daemon here",
        )
    if discovery.endpoint:
        yield from check_endpoint("discovery.endpoint", discovery.endpoint)


def _check_canaries(settings: Settings) -> Iterator[Finding]:
    canaries = settings.probe.canary
    names = [canary.name for canary in canaries]
    nodes = [node.name for node in settings.mesh.node]
    for index, canary in enumerate(canaries):
        key = element_key("probe.canary", index, canary.name)
        if canary.name in names[:index]:
            first = f"probe.canary[{names.index(canary.name)}]"
            yield Finding(key=f"{key}.name", problem=f"{first} has the same name", remedy="give each its own")
        yield from check_canary(key, canary)
        if canary.node not in nodes and is_whole(settings):
            yield Finding(
                key=f"{key}.node",
                problem=f"{canary.node!r} is no node of the mesh",
                remedy=f"write the node the pod runs on, one of {', '.join(nodes) or 'those under [[mesh.node]]'}",
            )


def _check_stamp(settings: Settings) -> Iterator[Finding]:
    """A reflector that is switched off is checked as well."""
    stamp = settings.stamp
    for index, text in enumerate(stamp.allow):
        yield from _check_allowed(f"stamp.allow[{index}]", text)
    if not stamp.listen:
        return
    yield from _check_stamp_port(settings)
    if not stamp.allow:
        yield Finding(
            key="stamp.allow",
            problem="is empty, so nobody would be answered",
            remedy='list the prefixes of the senders, as in allow = ["198.51.100.7/32"], or write listen = 0',
        )
    if stamp.mode is StampMode.AUTHENTICATED and not stamp.key_file:
        yield Finding(
            key="stamp.key_file",
            problem='is empty, and mode is "authenticated"',
            remedy='name the file with the key shared with the senders, or write mode = "open"',
        )


def _check_allowed(key: str, text: str) -> Iterator[Finding]:
    try:
        loose = ipaddress.ip_network(text, strict=False)
    except ValueError:
        loose = None
    if loose is None or "/" not in text or "%" in text:
        yield Finding(
            key=key,
            problem=f"{text!r} is no prefix",
            remedy="write address/length, as in 198.51.100.7/32 or 2001:db8:7::/64",
        )
    elif loose.prefixlen < _LARGEST[loose.version]:
        yield Finding(
            key=key,
            problem=f"{text} would answer half the world",
            remedy=f"write prefixes of your own, with a length of {_LARGEST[loose.version]} or more",
        )
    elif str(loose) != text:
        yield Finding(key=key, problem=f"{text} is not how a prefix is written", remedy=f"write {loose}")


def _check_stamp_port(settings: Settings) -> Iterator[Finding]:
    port = settings.stamp.listen
    owner = FOREIGN_PORTS.get(port)
    if port in mesh_ports(settings.probe.port):
        owner = "probes (probe.port)"
    elif port in _link_ports(settings):
        owner = "standby links (standby.port)"
    if owner:
        yield Finding(
            key="stamp.listen", problem=f"{port} is the port of {owner}", remedy="choose another, such as 862"
        )
