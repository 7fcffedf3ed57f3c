"""Six nodes on a made-up wire find their mesh with nothing but a key, and keep it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import msgspec
import pytest

from meshwatchd.adapters.storage import mesh_file
from meshwatchd.core.membership.roster import SILENT_NS
from meshwatchd.model.discovery import Candidate
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import (
    MINUTE,
    MS,
    SECOND,
    DaemonSettings,
    DiscoverySettings,
    MeshSettings,
    Mode,
    Settings,
)
from meshwatchd.model.snapshot import Snapshot, WireGuardPeer, WireGuardState
from meshwatchd.runtime.discovery import Clocks, Discovery
from meshwatchd.wire.auth import KeyRole, MeshSecret
from meshwatchd.wire.hello import MAGIC
from tests.support import example_status, hellos
from tests.support.lab_mesh import declared_mesh

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

    def __init__(self):
        self.ports: dict[str, Any] = {}
        self.private = {hellos.view(name).node_ip: name for name in NAMES}
        self.sent: list[tuple[str, str]] = []
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
        self.eyes, self.log = Eyes(_view(name)), Log()
        self.heard: list[Any] = []
        self.changes: list[int] = []
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
            standby_key=lambda: hellos.KEYS[name],
            clocks=Clocks(monotonic_ns=time.monotonic_ns, wall_ns=time.wall_ns),
            port=lambda _port, receive, _counters: WirePort(wire, name, receive),  # type: ignore[arg-type,return-value]
        )
        self.discovery.observe(_snapshot(name))

    def turn(self):
        """What the real one does each time it wakes up."""
        self.discovery._port.deliver()
        self.discovery._turn()

    def keep(self):
        """Write the file, as before a reboot."""
        assert "" == mesh_file.save(self.folder, self.discovery._to_keep(self.time.now))


def _view(name, **more):
    """With every other node of the lab as a candidate, as Kilo's routes name them."""
    candidates = tuple(Candidate(address=hellos.view(other).node_ip) for other in NAMES if other != name)
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

    def __init__(self, folder):
        self.wire, self.time, self.folder = Wire(), Time(), folder
        self.nodes: dict[str, Node] = {}

    def start(self, *names, **more):
        """Daemons begin, by default all six."""
        for name in names or NAMES:
            self.nodes[name] = Node(self.wire, name, self.folder, self.time, **more)
        return self

    def play(self, duration_ns, until=lambda: False):
        """Let time pass."""
        end = self.time.now + duration_ns
        while self.time.now < end and not until():
            self.time.now += STEP_NS
            for node in self.nodes.values():
                node.turn()

    def meshes(self):
        """Of all nodes that run."""
        return [node.discovery.mesh for node in self.nodes.values()]

    def are_agreed(self, *, nodes=6):
        """Whether all of them have one and the same whole mesh."""
        first = self.meshes()[0]
        return first is not None and nodes == len(first.node) and all(first == mesh for mesh in self.meshes())


@pytest.fixture
def stage(tmp_path):
    """Nobody is on it yet."""
    return Stage(tmp_path)


def _recorded(stage, *names):
    """What each of these nodes is told in its first seconds, by whom it may come from; then all lose their memory."""
    stage.start(*names)
    recorded = []
    for name in names:
        port = stage.wire.ports[name]

        def arrive(datagram, source, name=name, port=port):
            recorded.append((name, datagram, source[0]))
            port._waiting.append((datagram, source))

        port.arrive = arrive
    stage.play(2 * SECOND)
    stage.nodes.clear()
    stage.folder /= "anew"
    stage.folder.mkdir()
    return recorded


def _leaders(mesh):
    return {location.name: location.leader for location in mesh.location}


def test_six_nodes_find_one_mesh_with_nothing_but_a_key(stage):
    """Names, leaders, backups and endpoints, the same on all of them, and one change for the engine of most."""
    stage.start().play(15 * SECOND, stage.are_agreed)

    assert stage.are_agreed()
    mesh = stage.meshes()[0]
    assert {"site-a1": "a1", "site-b1": "b1"} == _leaders(mesh)
    assert {name: PUBLIC.get(name) for name in NAMES} == {node.name: node.standby_endpoint for node in mesh.node}
    assert [("a2",), ("b2",)] == [location.standbys for location in mesh.location]
    assert 2 >= max(len(node.changes) for node in stage.nodes.values())
    assert {"hellos"} == {node.discovery.knowledge().origin for node in stage.nodes.values()}
    assert all(node.log.named("mesh.found") for node in stage.nodes.values())


def test_members_that_only_know_their_leader_are_introduced_to_each_other(stage):
    """Beside Cilium nothing in a member's kernel names its neighbours; its leader hears all of them."""
    stage.start()
    for name in ("a2", "a3", "b2", "b3"):
        eyes, neighbours = stage.nodes[name].eyes, {hellos.view(f"{name[0]}{number}").node_ip for number in "23"}
        known = tuple(each for each in eyes.view.candidates if each.address not in neighbours)
        eyes.view = msgspec.structs.replace(eyes.view, candidates=known)
        stage.nodes[name].discovery.look_again()
    stage.play(20 * SECOND, stage.are_agreed)

    assert stage.are_agreed()
    assert {6} == {node.discovery.knowledge().nodes for node in stage.nodes.values()}


def test_nothing_changes_in_calm_and_little_is_said(stage):
    """Half a minute between hellos to one node; the rest is addresses outside of the mesh."""
    stage.start().play(3 * MINUTE)
    before = [len(node.changes) for node in stage.nodes.values()]
    stage.wire.sent.clear()
    stage.play(MINUTE)

    assert before == [len(node.changes) for node in stage.nodes.values()]
    assert 6 * 5 * 4 >= len(stage.wire.sent)


def test_a_new_leader_is_known_everywhere_within_a_second(stage):
    """What takes two more is the node's own patience with itself."""
    stage.start().play(30 * SECOND)
    leaders = {"a": "a2", "b": "b1"}
    for name in ("a1", "a2", "a3"):
        stage.nodes[name].eyes.view = _view(name, leaders=leaders)
        stage.nodes[name].discovery.look_again()
    began = stage.time.now
    stage.play(10 * SECOND, lambda: all("a2" == _leaders(mesh).get("site-a1") for mesh in stage.meshes()))

    assert SECOND >= stage.time.now - began
    stage.play(5 * SECOND)
    assert stage.are_agreed()
    assert ("a1",) == stage.meshes()[0].location[0].standbys


def test_what_is_wrong_with_a_node_is_known_everywhere_within_a_second(stage):
    """And that it is over."""
    stage.start().play(30 * SECOND)
    for fault, told in ((FaultCode.MTU_MISCONFIGURED, 1), (FaultCode.NONE, 0)):
        stage.nodes["b3"].discovery.confess(example_status.status(example_status.verdict(fault, culprit="b3")))
        stage.play(SECOND)
        assert all(told == len(node.heard[-1]["b3"].faults) for node in stage.nodes.values())


def test_what_a_dead_node_has_told_last_is_believed_no_longer_than_it_is_alive(stage):
    """Nobody can tell that it is over: the others would name its old fault for a day."""
    stage.start("a1", "b1", "b3").play(20 * SECOND)
    verdict = example_status.verdict(FaultCode.MTU_MISCONFIGURED, culprit="b3")
    stage.nodes["b3"].discovery.confess(example_status.status(verdict))
    stage.play(SECOND)
    del stage.nodes["b3"]
    for patience_ns, told in ((SILENT_NS - 10 * SECOND, 1), (20 * SECOND, 0)):
        stage.play(patience_ns)
        assert all(told == len(node.heard[-1]["b3"].faults) for node in stage.nodes.values())


def test_a_rebooted_node_knows_the_mesh_while_everybody_is_down(stage):
    """And does not take an old epoch for a new one."""
    stage.start().play(20 * SECOND)
    mesh = stage.nodes["b3"].discovery.mesh
    stage.nodes["b3"].keep()
    stage.nodes.clear()
    stage.wire.ports.clear()
    stage.start("b3").play(SECOND)
    knowledge = stage.nodes["b3"].discovery.knowledge()

    assert mesh == stage.nodes["b3"].discovery.mesh
    assert ("cache", 6, NAMES[:5]) == (knowledge.origin, knowledge.nodes, knowledge.unheard)


def test_a_restarted_node_is_heard_by_those_who_knew_it(stage):
    """Its epoch is new and has to be proven; the old one is refused from then on."""
    stage.start().play(20 * SECOND)
    recorded: list[tuple[bytes, tuple[str, int]]] = []
    arrive = stage.wire.ports["a1"].arrive

    def record(data, source):
        recorded.append((data, source))
        arrive(data, source)

    stage.wire.ports["a1"].arrive = record
    stage.play(40 * SECOND)
    stale = [each for each in recorded if each[1][0] == hellos.view("b3").node_ip]
    stage.start("b3")
    stage.nodes["b3"].eyes.view = _view("b3", location="attic")
    stage.play(10 * SECOND)
    a1 = stage.nodes["a1"].discovery
    assert "attic" == a1.hellos()["b3"].home

    for data, source in stale:
        arrive(data, source)
    stage.play(SECOND)
    assert stale
    assert a1.counters["hello-old-epoch"]
    assert "attic" == a1.hellos()["b3"].home


def test_what_was_recorded_long_ago_puts_no_ghost_into_the_mesh(stage):
    """A stranger has to answer before a word of it counts."""
    stage.start("a1", "b3").play(5 * SECOND)
    recorded: list[bytes] = []
    stage.wire.ports["a1"].arrive = lambda data, _source: recorded.append(data)
    stage.play(40 * SECOND)
    stage.nodes.clear()
    stage.wire.ports.clear()
    stage.start("a2")
    for data in recorded:
        stage.wire.ports["a2"].arrive(data, (hellos.view("b3").node_ip, HELLO_PORT))
    stage.play(5 * SECOND)

    assert recorded
    assert ["a2"] == list(stage.nodes["a2"].discovery.hellos())
    assert stage.nodes["a2"].discovery.counters["hello-unproven"]


def test_garbage_is_counted_by_its_reason_and_answered_by_nobody(stage):
    """The port is open to the world."""
    stage.start("a1").play(SECOND)
    sent = len(stage.wire.sent)
    for datagram in (MAGIC, MAGIC + bytes(100), MAGIC + b"\1" + bytes(100), b"x" * 2000):
        stage.wire.ports["a1"].arrive(datagram, ("192.0.2.66", 1))
    stage.play(STEP_NS)
    counters = stage.nodes["a1"].discovery.counters

    assert (1, 1, 1, 1) == tuple(
        counters[f"hello-{why}"] for why in ("too-short", "other-version", "unknown-key", "too-long")
    )
    assert not [each for each in stage.wire.sent[sent:] if each[1] == "192.0.2.66"]


def test_another_meshs_key_is_a_stranger(stage):
    """Two meshes on one network do not mix."""
    stage.start("a1")
    stage.start("a2", secrets=(NEW,))
    stage.play(5 * SECOND)

    assert ["a1"] == list(stage.nodes["a1"].discovery.hellos())
    assert stage.nodes["a1"].discovery.counters["hello-unknown-key"]


def test_a_rotation_of_the_key_loses_nobody(stage):
    """Each step of it, on one node after the other."""
    stage.start("a1", "b1").play(5 * SECOND)
    both = [(OLD, _receiving(NEW)), (NEW, _receiving(OLD)), (NEW,)]
    for secrets in both:
        for node in stage.nodes.values():
            node.discovery.use_secrets(secrets)
            node.discovery.counters.clear()
            stage.play(70 * SECOND)
            assert node.discovery.counters["hello-received"]
    assert 0 == stage.nodes["a1"].discovery.counters["hello-unknown-key"]


def _receiving(secret):
    return MeshSecret(secret=secret.secret, role=KeyRole.RECEIVE_ONLY)


def test_a_forbidden_node_is_in_nobodys_mesh(stage):
    """Its hellos are answered by nothing that matters."""
    stage.nodes.clear()
    stage.start("a1", "b1", forbid=("a2",))
    stage.start("a2").play(15 * SECOND)

    assert ["a1", "b1"] == [node.name for node in stage.nodes["a1"].discovery.mesh.node]


def test_a_declared_mesh_stays_as_declared(stage):
    """From the first moment on; hellos go on, for those who are told less."""
    declared = declared_mesh()
    stage.start("a1", mesh=declared)
    stage.start("b3").play(15 * SECOND)

    assert declared == stage.nodes["a1"].discovery.mesh
    assert [] == stage.nodes["a1"].changes
    assert "declared" == stage.nodes["a1"].discovery.knowledge().origin
    assert "a1" in stage.nodes["b3"].discovery.hellos()


def test_a_relay_pair_behind_nat_is_told_loudly(stage, monkeypatch):
    """Without a public address on either side nobody can begin."""
    monkeypatch.delitem(PUBLIC, "a2")
    monkeypatch.delitem(PUBLIC, "b2")
    stage.start().play(20 * SECOND)
    told = [fields["reason"] for fields in stage.nodes["b3"].log.named("mesh.incomplete")]

    assert ["no standby link between a2 and b2"] == [str(reason).partition(":")[0] for reason in told]
    assert 1 == len(stage.nodes["b3"].discovery.knowledge().problems)


def test_a_node_that_only_observes_makes_no_key(stage):
    """It will not relay, so nobody needs one."""
    stage.start("a1", mode=Mode.OBSERVE).play(SECOND)

    assert "" == stage.nodes["a1"].discovery.hellos()["a1"].standby_public_key


def test_a_corrupt_memory_is_moved_aside_and_told(stage):
    """The mesh is found anew."""
    folder = stage.folder / "a1"
    folder.mkdir()
    (folder / mesh_file.FILE_NAME).write_text("{")
    stage.start("a1")

    assert "moved aside as mesh.corrupt" in str(stage.nodes["a1"].log.named("mesh.refused"))
    assert (folder / "mesh.corrupt").exists()


def test_answers_to_one_epoch_of_a_node_are_few(stage):
    """Whoever asks many times at once has heard us the first time."""
    recorded = _recorded(stage, "a1", "b1")
    stage.start("a1").play(STEP_NS)
    a1, before = stage.nodes["a1"].discovery, Counter(stage.wire.sent)
    asked = [(datagram, address) for target, datagram, address in recorded if target == "a1"]
    for datagram, address in asked:
        a1._receive(datagram, (address, HELLO_PORT))

    sent = Counter(stage.wire.sent) - before
    assert 1 == sum(sent.values())
    assert len(asked) - 1 == a1.counters["hello-unanswered"] > 1


def test_what_was_recorded_uses_up_no_answers(stage):
    """All that six nodes said yesterday is replayed to them, again and again, while they find each other today."""
    recorded = _recorded(stage, *NAMES)
    stage.start()

    def is_found():
        for target, datagram, address in recorded:
            stage.nodes[target].discovery._receive(datagram, (address, HELLO_PORT))
        return stage.are_agreed()

    stage.play(5 * SECOND, until=is_found)
    assert stage.are_agreed()
    assert all(node.discovery.counters["hello-repeated"] for node in stage.nodes.values())


def test_a_node_whose_key_cannot_be_read_is_known_and_does_not_relay(stage):
    """A wrong mode of one file must not hide a node; somebody else is the backup."""
    stage.start()

    def refuse():
        raise ConfigError("/var/lib/standby.key", "standby.private_key_file", "is open to everybody", "chmod")

    stage.nodes["a2"].discovery._make_key = refuse
    stage.play(20 * SECOND)

    assert stage.are_agreed()
    assert ("a3",) == stage.meshes()[0].location[0].standbys
    assert "is open to everybody" in str(stage.nodes["a2"].log.named("hello.rejected")[0]["reason"])


def test_what_is_known_is_written_when_the_agent_ends(stage):
    """A node that is stopped seconds after it has learned something starts with it."""
    stage.start("a1", "b1").play(5 * SECOND)
    a1 = stage.nodes["a1"].discovery

    async def end_at_once():
        async with asyncio.timeout(0.01):
            await a1.run()

    with contextlib.suppress(TimeoutError):
        asyncio.run(end_at_once())
    kept, problem = mesh_file.load(stage.nodes["a1"].folder, "a1")
    assert "" == problem
    assert ["b1"] == [peer.name for peer in kept.peers] if kept is not None else []
