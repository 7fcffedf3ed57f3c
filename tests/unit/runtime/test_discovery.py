"""Six nodes on a made-up wire find their mesh with nothing but a key, and keep it."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest

from meshwatchd.adapters.storage import mesh_file
from meshwatchd.core.membership.cadence import SILENT_NS
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import (
    MINUTE,
    SECOND,
    Mode,
)
from meshwatchd.wire.auth import KeyRole, MeshSecret
from meshwatchd.wire.hello import MAGIC
from tests.support import example_status, hellos
from tests.support.discovery_stage import NAMES, NEW, OLD, PUBLIC, STEP_NS, Stage, view_of
from tests.support.lab_mesh import declared_mesh


@pytest.fixture
def stage(tmp_path):
    """Nobody is on it yet."""
    return Stage(tmp_path)


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


def test_a_turn_that_waited_for_the_processor_does_not_keep_the_next_word_back(stage):
    """Six agents on two cores: a second by the clock was milliseconds of work, which alone count."""
    stage.start().play(15 * SECOND, stage.are_agreed)
    node = stage.nodes["a1"]
    look = node.eyes.look

    def wait_and_look(snapshot):
        stage.time.now += 2 * SECOND
        return look(snapshot)

    node.eyes.look = wait_and_look
    began_ns = stage.time.now
    node.discovery.look_again()
    node.discovery._turn()

    assert stage.time.now - began_ns >= 2 * SECOND
    assert node.discovery._turn_s < 1


def test_hellos_leave_from_the_pods_address_where_pods_alone_are_routed(stage):
    """By the trait, of whatever kind: the source that the route chooses would be hidden by NAT."""
    stage.start("a1", "b1", "b2")
    for name, traits in (("a1", ("pod-addressed",)), ("b1", ("of a later version", "star"))):
        eyes = stage.nodes[name].eyes
        eyes.view = msgspec.structs.replace(eyes.view, profiles=("hexmesh",), traits=traits)
        stage.nodes[name].discovery.look_again()
    stage.play(20 * SECOND)

    assert {("a1", hellos.view("a1").node_ip)} == stage.wire.sources
    assert {3} == {node.discovery.knowledge().nodes for node in stage.nodes.values()}


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
        stage.nodes[name].eyes.view = view_of(name, leaders=leaders)
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


def test_a_neighbours_word_is_passed_on_before_the_next_status(stage):
    """Who has lost his overlay is heard by his neighbours alone; their engines have nothing new to say."""
    stage.start().play(30 * SECOND)
    stage.nodes["b1"].discovery.confess(msgspec.structs.replace(example_status.HEALTHY, node=NodeName("b1")))
    for fault, told in ((FaultCode.MTU_MISCONFIGURED, ["b3"]), (FaultCode.NONE, [])):
        stage.nodes["b3"].discovery.confess(example_status.status(example_status.verdict(fault, culprit="b3")))
        stage.play(SECOND)
        assert told == [each.culprit for each in stage.nodes["a1"].heard[-1]["b1"].faults]


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


def test_a_node_that_has_ended_is_unheard_by_all_others(stage):
    """Its hellos are overdue after a minute and a half."""
    stage.start().play(15 * SECOND, stage.are_agreed)
    stage.wire.dead.add("a3")
    stage.play(SILENT_NS + 20 * SECOND, step_ns=5 * SECOND)

    assert {frozenset({"a3"})} == {node.discovery.unheard() for name, node in stage.nodes.items() if name != "a3"}
    assert frozenset() == stage.nodes["a3"].discovery.unheard(), "it hears nobody"


def test_where_the_tunnel_carries_hellos_a_node_is_unheard_by_the_word_of_others(stage):
    """With flannel's wireguard backend a node that has lost a peer hears it no more."""
    stage.start().play(15 * SECOND, stage.are_agreed)
    for node in stage.nodes.values():
        node.eyes.view = msgspec.structs.replace(node.eyes.view, wireguard_device="w", overlay_device="w")
        node.discovery.look_again()
    stage.wire.dead.add("a3")
    stage.play(SILENT_NS + 20 * SECOND, step_ns=5 * SECOND)

    assert frozenset() == stage.nodes["a1"].discovery.unheard()


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
    stage.nodes["b3"].eyes.view = view_of("b3", location="attic")
    stage.play(10 * SECOND)
    a1 = stage.nodes["a1"].discovery
    assert "attic" == a1.hellos()["b3"].home

    for data, source in stale:
        arrive(data, source)
    stage.play(SECOND)
    assert stale
    assert a1.counters["hello-old-epoch"]
    assert "attic" == a1.hellos()["b3"].home


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

    assert "moved aside as mesh.json.bad" in str(stage.nodes["a1"].log.named("mesh.refused"))
    assert (folder / "mesh.json.bad").exists()


def test_a_node_whose_key_cannot_be_read_is_known_and_does_not_relay(stage):
    """A wrong mode of one file must not hide a node; somebody else is the backup."""
    stage.start()

    def refuse():
        raise ConfigError("/var/lib/standby.key", "standby.private_key_file", "is open to everybody", "chmod")

    stage.nodes["a2"].discovery._own_hello._make_key = refuse
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


def test_a_verdict_is_seen_on_every_node_of_both_locations_with_who_said_it(stage):
    """b3 alone has it; its neighbours and the other location hear of it within seconds, and the mesh stays."""
    stage.start().play(15 * SECOND, stage.are_agreed)
    stage.nodes["b3"].discovery.confess(example_status.HEALTHY)
    stage.play(6 * SECOND)
    changes = {name: len(node.changes) for name, node in stage.nodes.items()}
    stage.nodes["b3"].discovery.confess(example_status.MOVED)
    stage.play(2 * SECOND)

    for name in NAMES:
        nodes = {node.name: node for node in stage.nodes[name].discovery.nodes()}
        assert [("b3", "overlay-new-flows", "b1")] == [
            (fault.reported_by, fault.fault, fault.culprit) for node in nodes.values() for fault in node.faults
        ], name
        assert [("b1", "overlay")] == [(each.peer, each.layer) for each in nodes["b3"].silent]
    assert changes == {name: len(node.changes) for name, node in stage.nodes.items()}


def test_who_was_heard_after_the_last_turn_is_remembered(stage):
    """The end comes in between: a node that was heard once more has to be known after the next start."""
    stage.start("a1", "b1").play(5 * SECOND)
    a1 = stage.nodes["a1"]
    a1.discovery._keeper.is_unsaved, a1.discovery._hellos.is_unsaved = False, True

    async def end():
        async with asyncio.TaskGroup() as group:
            duty = group.create_task(a1.discovery.run())
            await asyncio.sleep(0)
            duty.cancel()

    assert mesh_file.load(a1.folder, NodeName("a1"))[0] is None
    asyncio.run(end())
    kept, _ = mesh_file.load(a1.folder, NodeName("a1"))
    assert kept is not None
    assert ["b1"] == [each.name for each in kept.peers]
