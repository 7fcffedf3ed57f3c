"""Kilo's agents at work, played to the kernel of every node: another leader, an agent that starts again, one that dies.

    agents = KiloAgents(lab)
    agents.elect("b2")               # the annotation moves: every living agent rewrites its own node
    agents.restart("b1")             # for 0.2 s the agent believes to be alone in the world
    agents.remake("b1")              # kilo0 goes away and comes back, with all that was on it
    agents.die("b1")                 # changes nothing; once the others elect b2, b1 is no node of theirs
    agents.terminate("b1", successor="b2")   # SIGTERM: it takes its routes and rules away, and the others elect b2
    agents.start("b1")               # the others turn back to it at once, before it has written a route

No Kilo runs. What its agents do, and in which order, is that of squat/kilo 0.7.0 (pkg/mesh/mesh.go, applyTopology;
pkg/route/route.go, Table.Set): address, peers if they differ, device up or down, and then routes and rules, of which
those go first that this agent has added and wants no more. Nobody waits for anybody, so nodes disagree meanwhile.
Table 1107 keeps what a leader leaves there, since the agent lists the main table alone; routes over a device that goes
down vanish by themselves.

Times are those of the real agent, recorded between six of them on two cores (kilo0 by wireguard-go):
CLEANED_TO_ELECTED, APART and STARTED_TO_WRITING, and the order of what happens. Without daemons new flows between
members of two locations are lost for 40 to 100 ms when the leader's agent is ended, for 380 to 510 ms when it is
started again, and for 85 and 115 ms when an annotation moves the leader there and back; `bench_leaders` measures the
same here.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import random
import subprocess
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from netnslab import kilo
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.overlay import Overlay
from netnslab.overlays import overlay_of
from netnslab.process import being_first
from netnslab.topology import Node, Topology
from netnslab.wireguard import KeyPair

TRANSIENT_NS = 200_000_000
"""From an agent's first topology, which is itself alone, until its informer has listed the others; about 0.2 s."""
PAUSE = f"sleep {TRANSIENT_NS / 1e9:g}\n"

CLEANED_TO_ELECTED_NS = 28_000_000
"""From the last route that an agent ended by SIGTERM deletes until the others follow another leader: 28 to 65 ms."""
APART_NS = 37_000_000
"""As far apart as that was from run to run; how far nodes are in one run was not recorded. Each agent hears of a change
by a watch of its own, and writes iptables first, for 60 to 320 ms: no two ever write at one instant, as two ends of a
tunnel would have to for each to drop the other's answer to its handshake."""
STARTED_TO_WRITING_NS = 350_000_000
"""From the word of an agent that starts, by which the others turn to it at once, until it writes to its own kernel: it
lists nodes for 170 to 270 ms and writes iptables for 60 to 320 ms."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """When the agents rewrote kernels; CLOCK_MONOTONIC in nanoseconds.

    Attributes:
        began_ns: before the first command.
        done_ns: after the last.
    """

    began_ns: int
    done_ns: int


class KiloAgents:
    """The agents of a lab's nodes, for a lab under Kilo that is as it was built.

    Args:
        lab: where they are.
        chance: says when each hears of a change. Two labs that are given the same see the same delays.

    Attributes:
        done_ns: after the last command that any of them has run; CLOCK_MONOTONIC.

    Raises:
        LabError: somebody else joins the locations of this lab.
    """

    def __init__(self, lab: Lab, chance: random.Random | None = None) -> None:
        if lab.topology.fabric != "kilo":
            raise LabError(f"{lab.lab_id} is joined by {lab.topology.fabric}, not by Kilo")
        self._lab = lab
        self._chance = chance or random.Random()
        self._overlay = overlay_of(lab.topology)
        self._keys = {name: self._key_pair(name) for name in lab.topology.nodes}
        self._leaders = {location.name: location.leader for location in lab.topology.locations.values()}
        self._dead: set[str] = set()
        self._forgetful: set[str] = set()
        self._clean: set[str] = set()
        self._applied = dict.fromkeys(lab.topology.nodes, lab.topology)
        self._address = {name: address_of(lab.topology, node) for name, node in lab.topology.nodes.items()}
        self.done_ns = time.monotonic_ns()

    def elect(self, leader: str) -> Rewriting:
        """Let a node lead its location, in the eyes of every agent that lives.

        Raises:
            LabError: nobody leads whose agent is dead, here or in another location.
        """
        self._leaders[self._lab.topology.location_of(leader).name] = leader
        return self._rewrite()

    def restart(self, node: str) -> Rewriting:
        """Let an agent start again after a crash: it leads alone, without a peer, before it knows the others."""
        self._forgetful.add(node)
        return self._run({node: self._lead_alone_and_return(node)})

    def remake(self, node: str) -> Rewriting:
        """Take kilo0 away and bring it back with all that was on it, as an agent does that cleans up its device."""
        return self._run({node: self._take_down_and_return(node)})

    def die(self, node: str) -> None:
        """End an agent by SIGKILL: nothing changes until its last word is a minute old and the others elect."""
        self._dead.add(node)

    def terminate(self, node: str, *, successor: str) -> Rewriting:
        """End an agent by SIGTERM: it deletes its routes and rules, and is no node any more; kilo0 stays up.

        The first packets are lost when its routes go; the others elect CLEANED_TO_ELECTED_NS later.
        """
        topology = self._applied[node]
        lines = kilo.route_lines(topology, topology.nodes[node], self._overlay)
        with being_first():
            cleaned = self._run({node: ip_lines(deletions(lines))})
            self._dead.add(node)
            self._clean.add(node)
            time.sleep(CLEANED_TO_ELECTED_NS / 1e9)
            return Rewriting(began_ns=cleaned.began_ns, done_ns=self.elect(successor).done_ns)

    def start(self, node: str) -> Rewriting:
        """Start an agent that was ended, on a node that leads when it is there."""
        self._dead.discard(node)
        self._forgetful.add(node)
        self._leaders[self._lab.topology.location_of(node).name] = node
        return self._rewrite(late=node)

    def cycle(self, node: str) -> Rewriting:
        """End an agent by SIGTERM and start it a second later; the standby leads meanwhile."""
        (successor, *_) = self._lab.topology.location_of(node).standbys
        began_ns = self.terminate(node, successor=successor).began_ns
        time.sleep(1)
        return Rewriting(began_ns=began_ns, done_ns=self.start(node).done_ns)

    def revive(self, node: str, *, leader: str) -> Rewriting:
        """Start a dead agent: the others see its node again, and all agree on a leader of its location."""
        self._dead.discard(node)
        self._forgetful.add(node)
        return self.elect(leader)

    def _rewrite(self, *, late: str = "") -> Rewriting:
        """All agents, each on its own and when it hears of it; one that has just been started writes later."""
        if lost := self._dead & set(self._leaders.values()):
            raise LabError(f"agents of leaders are dead: {', '.join(sorted(lost))}; elect somebody else")
        wanted = without(self._lab.topology, self._dead)
        for leader in self._leaders.values():
            wanted = led_by(wanted, leader)
        return self._run(
            {name: hearing(self._chance, is_late=name == late) + self._apply(name, wanted) for name in wanted.nodes}
        )

    def _apply(self, name: str, after: Topology) -> str:
        before = self._applied[name]
        node, script = after.nodes[name], ""
        if after.is_leader(name):
            script += ip_lines(self._readdress(name, address_of(after, node)))
            configuration = kilo.configuration(after, node, self._keys)
            if configuration != kilo.configuration(before, node, self._keys):
                script += peers(configuration)
        lines = table_lines(before, after, node, self._overlay, remembers=name not in self._forgetful)
        if name in self._clean:
            lines = kilo.route_lines(after, node, self._overlay)
        self._applied[name] = after
        self._forgetful.discard(name)
        self._clean.discard(name)
        return script + ip_lines((state_line(after, node), *lines))

    def _lead_alone_and_return(self, name: str) -> str:
        topology = self._applied[name]
        node = topology.nodes[name]
        alone = self._readdress(name, first_address(topology))
        configurations = [kilo.configuration(each, node, self._keys) for each in (only(topology, node), topology)]
        script = ip_lines(alone) + peers(configurations[0]) + ip_lines([f"link set {kilo.DEVICE} up"]) + PAUSE
        if not topology.is_leader(name):
            return script + ip_lines([state_line(topology, node)])
        # With its last address a device loses its routes.
        lost = self._routes_over_kilo0(topology, node) if alone else ()
        back = self._readdress(name, address_of(topology, node))
        return script + ip_lines(back) + peers(configurations[1]) + ip_lines([state_line(topology, node), *lost])

    def _take_down_and_return(self, name: str) -> str:
        topology = self._applied[name]
        node = topology.nodes[name]
        back = (state_line(topology, node), *self._routes_over_kilo0(topology, node))
        configuration = kilo.configuration(topology, node, self._keys)
        return ip_lines([f"link set {kilo.DEVICE} down"]) + PAUSE + peers(configuration) + ip_lines(back)

    def _routes_over_kilo0(self, topology: Topology, node: Node) -> tuple[str, ...]:
        return tuple(line for line in kilo.route_lines(topology, node, self._overlay) if _is_over_kilo0(line))

    def _run(self, scripts: Mapping[str, str]) -> Rewriting:
        """Run all nodes' scripts at once, before ordinary processes and all daemons.

        A real agent speaks netlink itself and needs 25 to 60 ms for all of it, on a machine of its own. So the shells
        are there before they get their scripts, and neither they nor who starts them wait for six daemons on two cores:
        an election that comes half a second late makes a long outage of a short one.
        """
        with being_first():
            shells = {name: self._shell(name) for name in scripts}
            began_ns = time.monotonic_ns()
            with ThreadPoolExecutor(len(shells)) as pool:
                failures = list(pool.map(lambda name: _finish(shells[name], scripts[name]), shells))
            self.done_ns = time.monotonic_ns()
        if wrong := [f"{name}: {said}" for name, said in zip(shells, failures, strict=True) if said]:
            raise LabError("; ".join(wrong))
        return Rewriting(began_ns=began_ns, done_ns=self.done_ns)

    def _shell(self, name: str) -> subprocess.Popen[str]:
        return self._lab.node(name).popen(["sh", "-e"], stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def _readdress(self, name: str, address: str) -> tuple[str, ...]:
        """SetAddress (pkg/iproute): whatever else kilo0 has goes first."""
        former, self._address[name] = self._address[name], address
        if former == address:
            return ()
        return (f"address del {former} dev {kilo.DEVICE}", f"address add {address} dev {kilo.DEVICE}")

    def _key_pair(self, name: str) -> KeyPair:
        private, public = (
            self._lab.node(name).run(["wg", "show", kilo.DEVICE, what], check=True).stdout.strip()
            for what in ("private-key", "public-key")
        )
        return KeyPair(private=private, public=public)


def led_by(topology: Topology, leader: str) -> Topology:
    """The same mesh where a node leads its location; whoever led it stands by."""
    location = topology.location_of(leader)
    standbys = tuple(name for name in location.relays if name != leader and name in topology.nodes)
    changed = dataclasses.replace(location, leader=leader, standbys=standbys)
    return dataclasses.replace(topology, locations={**topology.locations, location.name: changed})


def without(topology: Topology, nodes: Iterable[str]) -> Topology:
    """The same mesh in which some nodes are not ready: Kilo routes nothing to them."""
    kept = {name: node for name, node in topology.nodes.items() if name not in set(nodes)}
    return dataclasses.replace(topology, nodes=kept)


def only(topology: Topology, node: Node) -> Topology:
    """The mesh as an agent sees it that knows nobody but its own node."""
    location = dataclasses.replace(topology.location_of(node.name), leader=node.name, standbys=())
    return dataclasses.replace(topology, nodes={node.name: node}, locations={location.name: location})


def address_of(topology: Topology, node: Node) -> str:
    """What kilo0 has where the node leads, and keeps where it led once."""
    return f"{topology.location_of(node.name).wireguard_ip}/{_length(topology)}"


def first_address(topology: Topology) -> str:
    """What the leader of the only location there is gets: addresses are handed out in the order of locations."""
    network = ipaddress.IPv4Network(topology.wireguard.cidr)
    return f"{network.network_address + 1}/{network.prefixlen}"


def ip_lines(lines: Iterable[str]) -> str:
    """Shell: all lines in one process of ip."""
    text = "\n".join(lines)
    return f"ip -batch - <<'END'\n{text}\nEND\n" if text else ""


def hearing(chance: random.Random, *, is_late: bool) -> str:
    """Shell: until an agent begins to write."""
    return f"sleep {(chance.randrange(APART_NS) + is_late * STARTED_TO_WRITING_NS) / 1e9:g}\n"


def peers(configuration: str) -> str:
    """Shell: ConfigureDevice with ReplacePeers, which ends every session (pkg/wireguard/conf.go)."""
    return f"wg setconf {kilo.DEVICE} /dev/stdin <<'END'\n{configuration}END\n"


def state_line(topology: Topology, node: Node) -> str:
    """kilo0 is up on leaders alone; a line for `ip -batch`."""
    return f"link set {kilo.DEVICE} {'up' if topology.is_leader(node.name) else 'down'}"


def table_lines(
    before: Topology, after: Topology, node: Node, overlay: Overlay, *, remembers: bool = True
) -> tuple[str, ...]:
    """What an agent does to its node's routes and rules, as lines for `ip -batch`, after its device has been set.

    Args:
        before: the mesh that was put into effect last.
        after: the mesh it sees.
        node: its own.
        overlay: of the mesh.
        remembers: it has put `before` into effect itself. One that was started later leaves all that there is.
    """
    old, new = (kilo.route_lines(topology, node, overlay) for topology in (before, after))
    vanished = before.is_leader(node.name) and not after.is_leader(node.name)
    gone = (line for line in old if line not in new and not (vanished and _is_over_kilo0(line)))
    added = tuple(line for line in new if line not in old)
    return (*deletions(gone), *added) if remembers else added


def deletions(lines: Iterable[str]) -> tuple[str, ...]:
    """How an agent takes back what it has added; table 1107 stays, since the agent lists the main table alone."""
    return tuple(_deletion(line) for line in lines if f"table {kilo.TABLE}" not in line)


def _is_over_kilo0(line: str) -> bool:
    return f" dev {kilo.DEVICE} " in line


def _deletion(line: str) -> str:
    kind, _, rest = line.split(" ", 2)
    return f"{kind} del {rest}"


def _finish(shell: subprocess.Popen[str], script: str) -> str:
    """Let a shell run a script; returns what is wrong, or nothing."""
    _, complaint = shell.communicate(script)
    return "" if shell.returncode == 0 else complaint.strip() or f"exit status {shell.returncode}"


def _length(topology: Topology) -> str:
    return topology.wireguard.cidr.partition("/")[2]
