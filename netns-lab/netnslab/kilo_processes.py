"""Kilo's own agents on a lab's nodes, behind the interface of those that `kilo_agents` plays.

    with RealKiloAgents(lab, Path("/path/to/kg"), directory) as agents:
        agents.elect("b2")               # the annotation moves
        agents.restart("b1")             # SIGKILL, and a start at once
        agents.cycle("b1")               # SIGTERM, and a start a second later
        agents.remove("b1", successor="b2")   # its Node object is deleted; the agent goes on
        agents.add("b1")                 # and made again

The agent is built by whoever wants this (squat/kilo 0.7.0, `go build ./cmd/kg`). It finds a stand-in for the Kubernetes
API at 127.0.0.1 of its node, and the node's key. What the lab has put into the kernels in its place is taken away
before the first start, since an agent deletes nothing that it has not added.

Each change lasts until the kernels are as they should be and have been left alone for QUIET_NS.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from netnslab import kilo
from netnslab.errors import LabError
from netnslab.kilo_agents import Rewriting
from netnslab.kilo_writes import KiloWrites
from netnslab.kube_api.objects import Object, Resource, as_object, part, text
from netnslab.kube_api.patches import merge
from netnslab.kube_api.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES
from netnslab.kube_api.server import KubeApi
from netnslab.kube_api.store import Store
from netnslab.lab import Lab
from netnslab.process import PRIORITY
from netnslab.topology import Node, Topology
from netnslab.waiting import pause_until, wait_until

PORT = 16443
PREFIX = "kilo.squat.ai/"
PEERS = Resource(plural="peers", kind="Peer", group="kilo.squat.ai", version="v1alpha1")
DEFINITION: Object = {"metadata": {"name": "peers.kilo.squat.ai"}}
KEY_FILE = "/var/lib/kilo/key"
HOSTS_FILE = "/var/lib/kilo/hosts"

SECOND = 1_000_000_000
QUIET_NS = 1 * SECOND
"""Without a write: an agent's own pauses between two of one change are shorter."""
SETTLE_S = 60.0
"""A resync is due after 30 s."""
START_NS = 3 * SECOND
"""Within this an agent has begun to write after a start that changes no annotation."""
END_TIMEOUT_S = 15.0
STALE_S = 61
"""A node is in the mesh if its last word is younger than a minute (pkg/k8s/backend.go, Ready)."""


class RealKiloAgents:
    """An agent on each node of a lab under Kilo that is as it was built, for as long as the context lasts.

    Args:
        program: kg.
        directory: gets `kg-NODE.log`.
        is_first: run the agents before the daemons, as if each had a machine of its own.
    """

    def __init__(self, lab: Lab, program: Path, directory: Path, *, is_first: bool = False) -> None:
        self._lab, self._program, self._directory, self._is_first = lab, program, directory, is_first
        self._store = Store((NODES, PEERS, CUSTOM_RESOURCE_DEFINITIONS))
        self._writes = KiloWrites(lab)
        self._agents: dict[str, subprocess.Popen[str]] = {}
        self._logs: dict[str, IO[str]] = {}
        self._leaders = {location.name: location.leader for location in lab.topology.locations.values()}
        self._strangers: set[str] = set()
        self._stack = ExitStack()

    @property
    def writes(self) -> KiloWrites:
        """What the agents have written, for whoever asks why something took so long."""
        return self._writes

    def __enter__(self) -> Self:
        topology = self._lab.topology
        self._store.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
        with ExitStack() as undo:
            undo.enter_context(self._writes)
            undo.enter_context(KubeApi(self._store, [self._listening(name) for name in topology.nodes]))
            undo.callback(self._end)
            began_ns = time.monotonic_ns()
            for node in topology.nodes.values():
                self._store.create(NODES, node_object(topology, node))
                self._lab.node(node.name).run(["sh", "-ec", prepare_script(node)], check=True)
            for name in topology.nodes:
                self._start(name)
            self._settle(began_ns)
            self._stack = undo.pop_all()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def elect(self, leader: str) -> Rewriting:
        """Move the annotation; a node whose agent is dead is made as silent as it would be after a minute."""
        location = self._lab.topology.location_of(leader)
        former, self._leaders[location.name] = self._leaders[location.name], leader
        began_ns = time.monotonic_ns()
        self._annotate(leader, {"leader": "true"})
        if former in self._agents:
            self._annotate(former, {"leader": None})
        else:
            self._annotate(former, {"last-seen": str(time.time_ns() // SECOND - STALE_S)})
            self._strangers.add(former)
        return self._settle(began_ns)

    def restart(self, node: str) -> Rewriting:
        """SIGKILL to an agent, and a start at once."""
        began_ns = time.monotonic_ns()
        self.die(node)
        self._start(node)
        pause_until(began_ns + START_NS)
        return self._settle(began_ns)

    def die(self, node: str) -> None:
        """End an agent by SIGKILL; nothing changes in the kernel, and for a minute nobody knows."""
        agent = self._agents.pop(node)
        agent.kill()
        agent.wait()

    def terminate(self, node: str, *, successor: str) -> Rewriting:
        """End an agent by SIGTERM: it takes its routes and annotations away, and others lead."""
        began_ns = time.monotonic_ns()
        self._quit(node)
        self._leaders[self._lab.topology.location_of(node).name] = successor
        self._strangers.add(node)
        return self._settle(began_ns)

    def start(self, node: str) -> Rewriting:
        """Start an agent that was ended, on a node that leads when it is there."""
        began_ns = time.monotonic_ns()
        self._start(node)
        return self._return(node, began_ns)

    def cycle(self, node: str) -> Rewriting:
        """SIGTERM, and a start a second after the process is gone."""
        began_ns = time.monotonic_ns()
        self._quit(node)
        pause_until(time.monotonic_ns() + SECOND)
        self._start(node)
        return self._return(node, began_ns)

    def revive(self, node: str, *, leader: str) -> Rewriting:
        """Start a dead agent; the annotation is where it leads."""
        location = self._lab.topology.location_of(leader)
        began_ns = time.monotonic_ns()
        if (former := self._leaders[location.name]) != leader:
            self._annotate(former, {"leader": None})
            self._annotate(leader, {"leader": "true"})
        self._leaders[location.name] = leader
        self._start(node)
        return self._return(node, began_ns)

    def remove(self, node: str, *, successor: str) -> Rewriting:
        """Delete a Node object while its agent runs."""
        began_ns = time.monotonic_ns()
        self._store.delete(NODES, node)
        self._leaders[self._lab.topology.location_of(node).name] = successor
        self._strangers.add(node)
        return self._settle(began_ns)

    def add(self, node: str) -> Rewriting:
        """Make a Node object again, of a node that leads."""
        began_ns = time.monotonic_ns()
        topology = self._lab.topology
        self._store.create(NODES, node_object(topology, topology.nodes[node]))
        return self._return(node, began_ns)

    def _return(self, node: str, began_ns: int) -> Rewriting:
        """Wait until the API has a node's agent again, and then for its leadership."""
        wait_until(lambda: self._annotation(node, "key"), timeout_s=SETTLE_S, what=f"the agent of {node} to check in")
        self._strangers.discard(node)
        self._leaders[self._lab.topology.location_of(node).name] = node
        pause_until(began_ns + START_NS)
        return self._settle(began_ns)

    def _settle(self, began_ns: int) -> Rewriting:
        """Wait until leaders alone have kilo0 up and nobody has written for QUIET_NS; strangers do not count."""
        wait_until(
            lambda: self._has_settled(began_ns),
            timeout_s=SETTLE_S,
            what=f"{', '.join(self._leaders.values())} to lead in the kernels",
            poll_s=0.2,
        )
        return Rewriting(began_ns=began_ns, done_ns=max(began_ns, self._writes.last_ns()))

    def _has_settled(self, began_ns: int) -> bool:
        if dead := [name for name, agent in self._agents.items() if agent.poll() is not None]:
            said = (self._directory / f"kg-{dead[0]}.log").read_text(encoding="utf-8", errors="replace")
            raise LabError(f"the agent of {dead[0]} has ended; it said: {said[-2000:].strip()}")
        if time.monotonic_ns() - max(began_ns, self._writes.last_ns()) < QUIET_NS:
            return False
        up = {name for name in self._lab.topology.nodes if self._lab.node(name).space.call(_is_up)}
        return up - self._strangers == set(self._leaders.values()) - self._strangers

    def _annotate(self, node: str, values: Mapping[str, str | None]) -> None:
        patch: Object = {"metadata": {"annotations": {f"{PREFIX}{name}": value for name, value in values.items()}}}
        self._store.edit(NODES, node, "", lambda before: as_object(merge(before, patch)))

    def _annotation(self, node: str, name: str) -> str:
        return text(part(part(self._store.get(NODES, node), "metadata"), "annotations"), f"{PREFIX}{name}")

    def _listening(self, node: str) -> socket.socket:
        return self._lab.node(node).space.call(lambda: socket.create_server(("127.0.0.1", PORT)))

    def _start(self, node: str) -> None:
        if node not in self._logs:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._logs[node] = (self._directory / f"kg-{node}.log").open("a", encoding="utf-8")
        topology = self._lab.topology
        # Said in both cases: it would inherit the priority of whoever makes the change.
        priority = ("chrt", "--rr", str(PRIORITY)) if self._is_first else ("chrt", "--other", "0")
        command = (*priority, *agent_command(self._program, topology, topology.nodes[node]))
        self._agents[node] = self._lab.node(node).popen(command, stdout=self._logs[node], stderr=subprocess.STDOUT)

    def _quit(self, node: str) -> None:
        agent = self._agents.pop(node)
        agent.terminate()
        agent.wait(END_TIMEOUT_S)

    def _end(self) -> None:
        """By SIGKILL: the lab goes with them, and nobody is to clean up for ten seconds."""
        for node in tuple(self._agents):
            self.die(node)
        for log in self._logs.values():
            log.close()


def node_object(topology: Topology, node: Node) -> Object:
    """A Node as an operator annotates it; the agent adds what it knows."""
    location = topology.location_of(node.name)
    annotations: Object = {f"{PREFIX}location": location.name}
    if node.public_ip:
        annotations[f"{PREFIX}force-endpoint"] = f"{node.public_ip}:{topology.wireguard.port}"
    if location.keepalive_s:
        annotations[f"{PREFIX}persistent-keepalive"] = str(location.keepalive_s)
    if topology.is_leader(node.name):
        annotations[f"{PREFIX}leader"] = "true"
    return {"metadata": {"name": node.name, "annotations": annotations}, "spec": {"podCIDR": node.pod_cidr}}


def agent_command(program: Path, topology: Topology, node: Node) -> Sequence[str]:
    """The command line of kg: WireGuard by the device that is there, routes between locations only."""
    return (
        str(program),
        f"--master=http://127.0.0.1:{PORT}",
        f"--hostname={node.name}",
        "--mesh-granularity=location",
        f"--compatibility={topology.overlay}",
        "--encapsulate=crosssubnet",
        "--local=false",
        "--cni=false",
        "--create-interface=false",
        f"--internal-cidr={node.node_ip}/32",
        f"--subnet={topology.wireguard.cidr}",
        f"--mtu={topology.wireguard.mtu_bytes}",
        "--log-level=info",
    )


def prepare_script(node: Node) -> str:
    """Shell: what an agent finds on its node.

    The key is where it looks for one. The node's name has an address: without one an agent waits ten seconds for name
    servers when it starts (cmd/kg, getIP). Routes and rules that the lab has put in its place go away.
    """
    return (
        f"umask 077; wg show {kilo.DEVICE} private-key > {KEY_FILE}\n"
        f"printf '127.0.0.1 localhost\\n{node.node_ip} {node.name}\\n' > {HOSTS_FILE}\n"
        f"mount --bind {HOSTS_FILE} /etc/hosts\n"
        f"ip link set {kilo.DEVICE} down\n"
        "ip route flush proto static\n"
        f"ip route flush table {kilo.TABLE} proto static || true\n"
        f"while ip rule del lookup {kilo.TABLE} 2>/dev/null; do :; done\n"
    )


def _is_up() -> bool:
    flags = Path(f"/sys/class/net/{kilo.DEVICE}/flags").read_text(encoding="ascii")
    return bool(int(flags, 16) & 1)
