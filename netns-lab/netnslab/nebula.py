"""Real Nebula on every node, below the mesh: nebula1, a certificate each, and the first node as the lighthouse.

    flannel-wg (MTU 1220) -- nebula1 10.99.0.N/24 (MTU 1300, UDP 4242) -- eth0

Nodes call each other where they can be reached; who is behind the NAT calls first and is answered.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from netnslab.errors import LabError
from netnslab.namespaces import Kind, Space
from netnslab.process import ProcessId, inside_network
from netnslab.topology import Node, Topology
from netnslab.waiting import wait_for_player

PROGRAM = "nebula"
DEVICE = "nebula1"
PORT = 4242
MTU_BYTES = 1300
START_TIMEOUT_S = 10.0

CONFIG = "config.yml"
ANYTHING = "any"


def address(node: Node) -> str:
    """A node's address on nebula1."""
    return f"10.99.0.{node.index}"


def make_certificates(topology: Topology, folder: Path) -> None:
    """An authority that lives as long as the lab, and a folder with a certificate and a key for each node.

    Raises:
        LabError: nebula-cert is missing or refused.
    """
    folder.mkdir()
    _certify(folder, "ca", "-name", topology.name, "-duration", "48h")
    for node in topology.nodes.values():
        (folder / node.name).mkdir()
        named = ("-name", node.name, "-ip", f"{address(node)}/24")
        files = ("-out-crt", f"{node.name}/host.crt", "-out-key", f"{node.name}/host.key")
        _certify(folder, "sign", *named, *files)
        write_config(topology, node, folder)


def write_config(topology: Topology, node: Node, folder: Path, *, protocol: str = ANYTHING) -> None:
    """A node's configuration.

    Args:
        topology: tells where the others are.
        node: whose it is.
        folder: of all certificates.
        protocol: what the firewall lets pass, both ways: any, icmp, tcp or udp.
    """
    (folder / node.name / CONFIG).write_text(render_config(topology, node, folder, protocol=protocol), encoding="ascii")


def render_config(topology: Topology, node: Node, folder: Path, *, protocol: str = ANYTHING) -> str:
    """The text of it, which is YAML."""
    first = next(iter(topology.nodes.values()))
    is_first = node.name == first.name
    places = {address(each): _seen_from(node, each) for each in topology.nodes.values() if each.name != node.name}
    rule = f"[{{port: any, proto: {protocol}, host: any}}]"
    lines = [
        f"pki: {{ca: {folder}/ca.crt, cert: {folder}/{node.name}/host.crt, key: {folder}/{node.name}/host.key}}",
        f"static_host_map: {{{', '.join(_static(places))}}}",
        f"lighthouse: {{am_lighthouse: {str(is_first).lower()}, interval: 5"
        + ("}" if is_first else f", hosts: ['{address(first)}']}}"),
        f"listen: {{host: 0.0.0.0, port: {PORT}}}",
        "punchy: {punch: true}",
        f"tun: {{dev: {DEVICE}, mtu: {MTU_BYTES}}}",
        "logging: {level: warning}",
        f"firewall: {{outbound: {rule}, inbound: {rule}}}",
    ]
    return "\n".join(lines) + "\n"


def start(space: Space, folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start the program of one node, whose name is that of its space."""
    with log.open("ab") as output:
        try:
            return subprocess.Popen(
                space.command([PROGRAM, "-config", str(folder / space.name / CONFIG)]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise LabError(f"cannot start nsenter or nebula: {error}; are they installed?") from error


def wait_for_device(space: Space, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until nebula1 is there and has its route, which comes last.

    Raises:
        LabError: it took longer than START_TIMEOUT_S, or the program ended; then the message quotes its log.
    """
    what, who = f"{DEVICE} in {space.name}", f"nebula in {space.name}"

    def has_route() -> bool:
        return DEVICE in Path("/proc/thread-self/net/route").read_text(encoding="ascii")

    wait_for_player(lambda: space.call(has_route), process, log, what=what, who=who, timeout_s=START_TIMEOUT_S)


def process_of(space: Space) -> ProcessId:
    """The program of a node.

    Raises:
        LabError: it does not run.
    """
    for found in inside_network([space.path(Kind.NET).stat().st_ino]):
        if Path(f"/proc/{found.pid}/comm").read_text(encoding="utf-8").strip() == PROGRAM:
            return found
    raise LabError(f"nebula does not run in {space.name}")


def _seen_from(node: Node, other: Node) -> str | None:
    return other.node_ip if other.location == node.location else other.public_ip


def _static(places: Mapping[str, str | None]) -> list[str]:
    return [f"'{inside}': ['{outside}:{PORT}']" for inside, outside in places.items() if outside is not None]


def _certify(folder: Path, *arguments: str) -> None:
    try:
        result = subprocess.run(
            ["nebula-cert", *arguments],
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise LabError(f"cannot start nebula-cert: {error}; is it installed?") from error
    if result.returncode != 0:
        raise LabError(f"nebula-cert {arguments[0]}: {result.stderr.strip() or result.stdout.strip()}")
