"""Building a lab: namespaces, links, overlay, Kilo's state, the daemons' files; few processes, hence fast.

Each inhabitant costs one `ip -batch`, a node two, plus `bridge -batch`, `wg setconf` and its wireguard-go.
Nothing of the machine's own network is read or changed.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from netnslab import daemon_config, ipip, namespaces, nebula, wan, wireguard
from netnslab.backends.model import WireGuard
from netnslab.errors import LabError
from netnslab.fabric import Fabric
from netnslab.inhabitant import Inhabitant
from netnslab.namespaces import Kind, Space
from netnslab.overlay import Overlay
from netnslab.ownership import MOUNT_POINTS, LabRecord, NamespaceRecord
from netnslab.process import identify
from netnslab.site import Site
from netnslab.topology import Node
from netnslab.waiting import wait_until
from netnslab.wireguard import KeyPair

CONNECT_TIMEOUT_S = 30.0
"""Two WireGuard handshake attempts 5 s apart, and an emulated machine."""

SYSCTLS = MappingProxyType(
    {
        "net/ipv4/ip_forward": "1",
        # The kernel takes the larger of `all` and the device's own value: 0 and 2 (loose) leave asymmetric
        # paths open, as every machine with Kubernetes on it must.
        "net/ipv4/conf/all/rp_filter": "0",
        "net/ipv4/conf/default/rp_filter": "2",
        # Router solicitations and duplicate address detection would only add noise to IPv4 experiments.
        "net/ipv6/conf/all/disable_ipv6": "1",
        "net/ipv6/conf/default/disable_ipv6": "1",
        # br_netfilter would send switched frames through the wide area's NAT, and new namespaces have it on.
        "net/bridge/bridge-nf-call-iptables": "0",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """All that building needs.

    Attributes:
        plays_ipip: the overlay's IPIP device is made by a process.
        record: kept up to date on disk.
        children: filled with the processes it starts, by log file; the caller waits for them in the end.
    """

    site: Site
    fabric: Fabric
    overlay: Overlay
    wireguard: WireGuard
    plays_ipip: bool
    record: LabRecord
    children: dict[Path, subprocess.Popen[bytes]]


def build(blueprint: Blueprint) -> None:
    """Build the lab into an empty, recorded directory, and return once packets cross it.

    Raises:
        LabError: a step failed; what is built so far is in the record and in `children`, for the caller to remove.
    """
    _make_namespaces(blueprint)
    keys = _generate_keys(blueprint)
    _start_players(blueprint)
    _build_wan(blueprint)
    nodes = tuple(blueprint.site.topology.nodes.values())
    for node in nodes:
        _build_node(blueprint, node)
    _write_daemon_files(blueprint)
    if blueprint.site.topology.host_mesh:
        _start_host_mesh(blueprint)
    for node in nodes:
        _build_fabric(blueprint, node, keys)
    _start_programs(blueprint)
    _wait_until_connected(blueprint.site)


def _make_namespaces(blueprint: Blueprint) -> None:
    site, record = blueprint.site, blueprint.record
    record.pin_device = namespaces.make_pin_directory(site.pins)
    (record.directory / "log").mkdir()
    for inhabitant in site.everyone():
        space = inhabitant.space
        inodes = namespaces.create(space, partial(_prepare, space))
        record.namespaces += [
            NamespaceRecord(name=space.name, kind=kind, path=str(space.path(kind)), inode=inode)
            for kind, inode in inodes.items()
        ]
    record.save()


def _prepare(space: Space) -> None:
    """Runs inside the fresh namespaces."""
    if Kind.UTS in space.kinds:
        socket.sethostname(space.name)
    if Kind.MOUNT in space.kinds:
        namespaces.isolate_mounts(space.directory, MOUNT_POINTS)
    _set_sysctls(SYSCTLS)


def _set_sysctls(values: Mapping[str, str]) -> None:
    """Runs inside; a key the kernel lacks (IPv6 and br_netfilter may be absent) needs no value."""
    for key, value in values.items():
        path = Path("/proc/sys") / key
        if path.exists():
            path.write_text(value, encoding="ascii")


def _generate_keys(blueprint: Blueprint) -> dict[str, KeyPair]:
    names = tuple(blueprint.site.topology.nodes)
    return dict(zip(names, wireguard.generate_keys(len(names)), strict=True))


def _start_players(blueprint: Blueprint) -> None:
    """Start what plays missing devices on every node, early: it gets ready while everything else is built."""
    children = blueprint.children
    for name in blueprint.site.topology.nodes:
        space = blueprint.site.node(name).space
        has_device = blueprint.fabric.has_device(blueprint.site.topology, blueprint.site.topology.nodes[name])
        if blueprint.wireguard is WireGuard.USERSPACE and has_device:
            log = _log(blueprint, name, blueprint.fabric.device)
            children[log] = wireguard.start_userspace(space, blueprint.fabric.device, log)
        if blueprint.plays_ipip:
            log = _log(blueprint, name, blueprint.overlay.ipip_device)
            children[log] = ipip.start(space, blueprint.overlay.ipip_device, log)
    _record_processes(blueprint)


def _start_programs(blueprint: Blueprint) -> None:
    """Start the routing daemons of every node, or what stands for an agent; packets cross the lab after that.

    Raises:
        LabError: one of them is not installed.
    """
    for program in blueprint.fabric.programs:
        if shutil.which(program.command[0]) is None:
            raise LabError(f"there is no {program.command[0]} here; make tools installs it")
        for name in blueprint.site.topology.nodes:
            space = blueprint.site.node(name).space
            if program.file is None or space.call(program.file.exists):
                wireguard.wait_to_start(space, program)
                log = _log(blueprint, name, program.name)
                blueprint.children[log] = wireguard.start_program(space, program.command, log)
    _record_processes(blueprint)


def _record_processes(blueprint: Blueprint) -> None:
    children = blueprint.children.values()
    blueprint.record.processes = [known for child in children if (known := identify(child.pid)) is not None]
    blueprint.record.save()


def _start_host_mesh(blueprint: Blueprint) -> None:
    """Nebula on every node, all at once; then its devices are waited for."""
    topology, folder = blueprint.site.topology, host_mesh_folder(blueprint.record)
    nebula.make_certificates(topology, folder)
    spaces = {_log(blueprint, name, nebula.DEVICE): blueprint.site.node(name).space for name in topology.nodes}
    started = {log: nebula.start(space, folder, log) for log, space in spaces.items()}
    blueprint.children.update(started)
    blueprint.record.processes += [known for each in started.values() if (known := identify(each.pid)) is not None]
    blueprint.record.save()
    for log, space in spaces.items():
        nebula.wait_for_device(space, started[log], log)


def host_mesh_folder(record: LabRecord) -> Path:
    """Where certificates and configurations of the host mesh are, a folder for each node."""
    return record.directory / nebula.PROGRAM


def _log(blueprint: Blueprint, node: str, device: str) -> Path:
    return blueprint.record.directory / "log" / f"{node}-{device}.log"


def _build_wan(blueprint: Blueprint) -> None:
    site = blueprint.site
    network_of = {name: site.node(name).space.path(Kind.NET) for name in site.topology.nodes}
    site.wan.batch("ip", wan.link_lines(site.topology, network_of))
    load_nft(site.wan, wan.nft_ruleset(site.topology))


def load_nft(inhabitant: Inhabitant, ruleset: str) -> None:
    """Run one nftables transaction: all of it takes effect, or nothing.

    Raises:
        LabError: nft refused; the message has its reason.
    """
    result = inhabitant.run(["nft", "-f", "-"], input=ruleset)
    if result.returncode != 0:
        raise LabError(f"nft in {inhabitant.name}: {result.stderr.strip()}")


def _build_node(blueprint: Blueprint, node: Node) -> None:
    topology, fabric = blueprint.site.topology, blueprint.fabric
    lines = list(wan.node_lines(topology, node))
    if blueprint.wireguard is WireGuard.KERNEL and fabric.has_device(topology, node):
        lines.append(f"link add {fabric.device} type wireguard")
    if fabric.carries_overlay:
        blueprint.site.node(node.name).batch("ip", lines)
    else:
        _build_overlay(blueprint, node, first=lines)


def _build_overlay(blueprint: Blueprint, node: Node, *, first: Sequence[str] = ()) -> None:
    site = blueprint.site
    here, pod = site.node(node.name), site.pod(node.name)
    played = _log(blueprint, node.name, blueprint.overlay.ipip_device)
    if (player := blueprint.children.get(played)) is not None:
        ipip.wait_for_device(here.space, blueprint.overlay.ipip_device, player, played)
    plan = blueprint.overlay.plan(
        site.topology, node, pod_network=pod.space.path(Kind.NET), has_ipip_device=player is not None
    )
    here.batch("ip", (*first, *plan.ip))
    here.batch("bridge", plan.bridge)
    if plan.nft:
        here.run(["nft", "-f", "-"], input="\n".join(plan.nft), check=True)
    here.space.call(partial(_set_sysctls, plan.sysctls))
    here.space.call(partial(daemon_config.write, plan.files))
    pod.batch("ip", plan.pod)


def _build_fabric(blueprint: Blueprint, node: Node, keys: Mapping[str, KeyPair]) -> None:
    topology, here, fabric = blueprint.site.topology, blueprint.site.node(node.name), blueprint.fabric
    log = _log(blueprint, node.name, fabric.device)
    if (child := blueprint.children.get(log)) is not None:
        wireguard.wait_for_socket(here.space, fabric.device, child, log)
    lines = [*fabric.route_lines(topology, node, blueprint.overlay)]
    if fabric.has_device(topology, node):
        wireguard.configure(here.space, fabric.device, fabric.configuration(topology, node, keys))
        lines = [*fabric.device_lines(topology, node), *lines]
    here.space.call(partial(daemon_config.write, fabric.files(topology, node, keys)))
    here.batch("ip", lines)
    if fabric.carries_overlay:
        _build_overlay(blueprint, node)


def _write_daemon_files(blueprint: Blueprint) -> None:
    topology = blueprint.site.topology
    relays = daemon_config.standby_nodes(topology)
    standby_keys = dict(zip(relays, wireguard.generate_keys(len(relays)), strict=True))
    mesh_key = daemon_config.generate_mesh_key()
    for node in topology.nodes.values():
        texts = daemon_config.files(
            topology,
            node,
            overlay_device=blueprint.overlay.relay_device,
            ipip_device=blueprint.overlay.ipip_device,
            standby_keys=standby_keys,
            mesh_key=mesh_key,
        )
        blueprint.site.node(node.name).space.call(partial(daemon_config.write, texts))


def _wait_until_connected(site: Site) -> None:
    """Wait for packets from the last node's pod of one location to the last node's pod of every other.

    These cross every kind of link there is: pod bridge, overlay, WireGuard, overlay, pod bridge.
    """
    last = [site.topology.members(location)[-1].name for location in site.topology.locations]
    source = site.pod(last[0])
    for name in last[1:]:
        wait_until(
            partial(_answers, source, site.pod(name).ip),
            timeout_s=CONNECT_TIMEOUT_S,
            what=f"the first packet from {source.name} to pod/{name}",
        )


def _answers(source: Inhabitant, address: str) -> bool:
    return source.run(["ping", "-n", "-q", "-c", "1", "-W", "1", address]).returncode == 0
