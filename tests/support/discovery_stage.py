"""Nodes that find their mesh on a made-up wire, by a clock that is turned by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from meshwatchd.adapters.storage import mesh_file
from meshwatchd.model.discovery import Candidate
from meshwatchd.model.settings import (
    MS,
    SECOND,
    DaemonSettings,
    DiscoverySettings,
    MeshSettings,
    Mode,
    Settings,
)
from meshwatchd.model.snapshot import Snapshot, WireGuardPeer, WireGuardState
from meshwatchd.runtime.clocks import Clocks
from meshwatchd.runtime.discovery import Discovery
from meshwatchd.wire.auth import MeshSecret
from tests.support import hellos

NAMES = ("a1", "a2", "a3", "b1", "b2", "b3")
OLD, NEW = MeshSecret(secret=bytes(range(32))), MeshSecret(secret=bytes(range(1, 33)))
HELLO_PORT = 18617
PUBLIC = {"a1": "203.0.113.11", "a2": "203.0.113.12", "b1": "198.51.100.21", "b2": "198.51.100.22"}
STEP_NS = 100 * MS


class Time:
    """Both clocks, turned by hand."""

    def __init__(self):
        self.now = 1000 * SECOND

    def monotonic_ns(self):
        """As time.monotonic_ns()."""
        return self.now

    def wall_ns(self):
        """As time.time_ns()."""
        return self.now + 1_700_000_000 * SECOND


class Wire:
    """Addresses and who is there; public ones are one-to-one NAT, and only they are seen from outside."""

    def __init__(self, names):
        self.ports: dict[str, Any] = {}
        self.private = {hellos.view(name).node_ip: name for name in names}
        self.sent: list[tuple[str, str]] = []
        self.sources: set[tuple[str, str]] = set()
        self.dead: set[str] = set()

    def carry(self, sender, datagram, address):
        """One datagram, through the mesh or from outside."""
        self.sent.append((sender, address))
        public = next((name for name, host in PUBLIC.items() if host == address), None)
        target = public or self.private.get(address)
        if target is None or {sender, target} & self.dead or target not in self.ports:
            return
        source = PUBLIC.get(sender) if public else hellos.view(sender).node_ip
        if source:
            self.ports[target].arrive(datagram, (source, HELLO_PORT))


class WirePort:
    """A port whose datagrams wait until the next turn."""

    def __init__(self, wire, name, receive):
        self._wire, self._name, self._receive = wire, name, receive
        self._waiting: list[Any] = []
        wire.ports[name] = self

    def arrive(self, datagram, source):
        """A datagram is here."""
        self._waiting.append((datagram, source))

    async def open(self):
        """As HelloPort.open()."""

    def close(self):
        """As HelloPort.close()."""

    def deliver(self):
        """Hand over what has arrived."""
        waiting, self._waiting = self._waiting, []
        for datagram, source in waiting:
            self._receive(datagram, source)

    def send(self, datagram, address, port=0):
        """As HelloPort.send()."""
        self._wire.carry(self._name, datagram, address)

    def send_from(self, source, datagram, address, port=0):
        """As HelloPort.send_from(); the wire knows nodes by one address."""
        self._wire.sources.add((self._name, source))
        self.send(datagram, address, port)


class Eyes:
    """What a node sees of itself, changed by hand."""

    def __init__(self, view):
        self.view = view

    def look(self, _snapshot):
        """As OwnView.look()."""
        return self.view

    def deadline(self):
        """As OwnView.deadline()."""
        return


class Log:
    """Keeps the lines."""

    def __init__(self):
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def __getattr__(self, level):
        return lambda event, **fields: self.lines.append((level, event, fields))

    def named(self, event):
        """The fields of all lines of one event."""
        return [fields for _, name, fields in self.lines if name == event]


class Node:
    """One daemon's discovery with everything around it."""

    def __init__(self, wire, name, folder, time, *, secrets=(OLD,), mesh=None, mode=Mode.ENFORCE, **discovery):
        self.name, self.folder, self.time = name, folder / name, time
        self.eyes, self.log = Eyes(view_of(name, wire.private.values())), Log()
        self.heard: list[Any] = []
        self.changes: list[int] = []
        self.bound: list[Any] = []
        settings = Settings(
            daemon=DaemonSettings(node=name, mode=mode, state_dir=str(self.folder)),
            mesh=mesh or MeshSettings(),
            discovery=DiscoverySettings(**discovery),
        )
        self.discovery: Any = Discovery(
            settings,
            secrets,
            eyes=self.eyes,
            log=self.log,
            changed=lambda: self.changes.append(time.now),
            heard=self.heard.append,
            standby_key=lambda: hellos.KEYS.get(name, ""),
            bind=self.bound.extend,
            clocks=Clocks(monotonic_ns=time.monotonic_ns, wall_ns=time.wall_ns),
            port=lambda _port, receive, _counters: WirePort(wire, name, receive),  # type: ignore[arg-type,return-value]
        )
        self.discovery.observe(_snapshot(name))

    def turn(self):
        """What the real one does each time it wakes up."""
        self.discovery._hellos.port.deliver()
        self.discovery._turn()

    def keep(self):
        """Write the file, as before a reboot."""
        assert "" == mesh_file.save(self.folder, self.discovery._keeper.content())


def view_of(name, names=NAMES, **more):
    """With every other node of the lab as a candidate, as Kilo's routes name them."""
    candidates = tuple(Candidate(address=hellos.view(other).node_ip) for other in names if other != name)
    return msgspec.structs.replace(hellos.view(name, **more), candidates=candidates)


def _snapshot(name):
    """Leaders have a tunnel to each other."""
    if name not in {"a1", "b1"}:
        return Snapshot()
    other = "b1" if name == "a1" else "a1"
    peer = WireGuardPeer(public_key=f"kilo-{other}", endpoint=f"{PUBLIC[other]}:51820")
    state = WireGuardState(device="kilo0", public_key=f"kilo-{name}", listen_port=51820, at_ns=0, peers=(peer,))
    return Snapshot(wireguard=(state,))


class Stage:
    """A wire, a clock, and the nodes on it."""

    def __init__(self, folder, names=NAMES):
        self.wire, self.time, self.folder = Wire(names), Time(), folder
        self.nodes: dict[str, Node] = {}

    def start(self, *names, **more):
        """Daemons begin, by default all six."""
        for name in names or NAMES:
            self.nodes[name] = Node(self.wire, name, self.folder, self.time, **more)
        return self

    def play(self, duration_ns, until=lambda: False, *, step_ns=STEP_NS):
        """Let time pass."""
        end = self.time.now + duration_ns
        while self.time.now < end and not until():
            self.time.now += step_ns
            for node in self.nodes.values():
                node.turn()

    def meshes(self):
        """Of all nodes that run."""
        return [node.discovery.mesh for node in self.nodes.values()]

    def are_agreed(self, *, nodes=6):
        """Whether all of them have one and the same whole mesh."""
        first = self.meshes()[0]
        return first is not None and nodes == len(first.node) and all(first == mesh for mesh in self.meshes())
