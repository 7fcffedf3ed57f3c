"""A member that was broken into has the mesh key; it can speak for itself and for nobody else."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.identity import NodeIdentity
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.settings import MINUTE, SECOND
from meshwatchd.runtime.pair_keys import OTHER_IDENTITY
from meshwatchd.wire.hello import Greeting, Stamp, encode
from tests.support import hellos
from tests.support.discovery_stage import HELLO_PORT, NAMES, Stage

THIEF = NodeIdentity(b"t" * 32)


@pytest.fixture
def stage(tmp_path):
    """Nobody is on it yet."""
    return Stage(tmp_path)


def _state(node):
    """The last word on each pair that the engine of a node has."""
    latest: dict[str, PairBinding] = {each.peer: each for each in node.bound}
    return {name: (each.signs, each.is_alone) for name, each in latest.items() if name != node.name}


@pytest.mark.parametrize("signer", [None, THIEF], ids=["without an identity", "with the thief's"])
@pytest.mark.parametrize("answers", [False, True], ids=["unasked", "in answer"])
def test_who_has_the_mesh_key_speaks_for_no_other_node(stage, signer, answers):
    """The leader of the other location is said to lead no more, under its own epoch and under a new one."""
    stage.start().play(20 * SECOND)
    a1, mesh = stage.nodes["a1"], stage.nodes["a1"].discovery.mesh
    forged = msgspec.structs.replace(hellos.hello("b1", leaders={"b": "b2"}), mode="observe")
    for epoch in (stage.nodes["b1"].discovery._hellos.known._epoch, 2**60):
        asked = Stamp(*a1.discovery._hellos.known.next_stamp(stage.time.now)) if answers else None
        greeting = Greeting(sender="b1", stamp=Stamp(epoch, 10**6), hello=forged, answers=asked)
        a1.discovery._hellos.receive(encode(greeting, a1.discovery._hellos.keys, signer), ("10.2.0.12", HELLO_PORT))
    stage.play(5 * SECOND)

    assert 2 == a1.discovery.counters["hello-other-identity"]
    assert [mesh] * 6 == stage.meshes()
    assert "b1" not in {str(each.node) for each in a1.discovery.duplicates()}
    (told,) = a1.log.named("identity.changed")
    assert {"source": "b1", "reason": OTHER_IDENTITY} == told
    assert a1.discovery.knowledge().problems[0].startswith("hellos in the name of b1 are refused")


def test_a_signature_that_does_not_fit_is_no_hello(stage):
    """What one node has signed cannot be put into another's datagram."""
    stage.start().play(5 * SECOND)
    a1, b1 = stage.nodes["a1"].discovery, stage.nodes["b1"].discovery

    class Impostor:
        """Shows b1's public keys and signs with its own."""

        public, former, voucher, sign = b1._hellos.pairs.identity.public, b"", b"", THIEF.sign

    greeting = Greeting(sender="b1", stamp=Stamp(2**60, 1), hello=hellos.hello("b1"))
    a1._hellos.receive(encode(greeting, a1._hellos.keys, Impostor), ("10.2.0.11", HELLO_PORT))

    assert 1 == a1.counters["hello-bad-signature"]


def test_all_pairs_come_to_keys_of_their_own(stage):
    """Each end accepts before the other signs, and says so; a minute later nothing else counts."""
    stage.start().play(40 * SECOND)
    assert all(_state(node) == dict.fromkeys(set(NAMES) - {node.name}, (True, False)) for node in stage.nodes.values())

    stage.play(2 * MINUTE)
    assert all(_state(node) == dict.fromkeys(set(NAMES) - {node.name}, (True, True)) for node in stage.nodes.values())


def test_nobody_signs_by_what_the_other_does_not_accept_nor_refuses_what_it_sends(stage):
    """Whatever is lost on the way: the order of the steps is what saves the probes."""
    lost = iter(range(10**9))
    carry = stage.wire.carry

    def lossy(*args):
        if next(lost) % 3:
            carry(*args)

    stage.wire.carry = lossy
    stage.start("a1", "b1", "b3")
    for _ in range(1200):
        stage.play(SECOND // 10)
        for node in stage.nodes.values():
            for peer, (signs, is_alone) in _state(node).items():
                there = _state(stage.nodes[peer])
                assert not signs or node.name in there
                assert not is_alone or there[node.name][0]

    assert all((True, True) in _state(node).values() for node in stage.nodes.values())


def test_a_node_that_is_restarted_goes_on_with_its_keys(stage):
    """Its peers refuse what it signed before there were any."""
    stage.start("a1", "b1").play(3 * MINUTE)
    stage.nodes["b1"].keep()
    stage.start("b1")

    assert {"a1": (True, True)} == _state(stage.nodes["b1"])
    stage.play(MINUTE)
    assert {"b1": (True, True)} == _state(stage.nodes["a1"])
    assert [] == stage.nodes["a1"].log.named("identity.changed")


def test_a_node_that_has_lost_what_it_knew_is_met_again(stage):
    """Its identity is its own still; until it knows its peers again they take what any node could have signed."""
    stage.start("a1", "b1").play(3 * MINUTE)
    (stage.nodes["b1"].folder / "mesh.json").unlink(missing_ok=True)
    stage.start("b1").play(5 * SECOND)

    assert (True, False) == _state(stage.nodes["b1"])["a1"]
    stage.play(2 * MINUTE)
    assert (True, True) == _state(stage.nodes["a1"])["b1"] == _state(stage.nodes["b1"])["a1"]


def test_a_new_identity_that_the_former_has_signed_is_taken_at_once(stage):
    """The rotation of one node costs no word of an operator on the others."""
    stage.start("a1", "b1").play(3 * MINUTE)
    folder = stage.nodes["b1"].folder
    stage.nodes["b1"].keep()
    (folder / "identity.key").rename(folder / "identity.former.key")
    stage.start("b1").play(5 * SECOND)

    assert (True, False) == _state(stage.nodes["a1"])["b1"]
    assert [] == stage.nodes["a1"].log.named("identity.changed")
    stage.play(2 * MINUTE)
    assert (True, True) == _state(stage.nodes["a1"])["b1"] == _state(stage.nodes["b1"])["a1"]


def test_a_node_without_its_state_waits_for_an_operator(stage):
    """It was reinstalled, or it is somebody else: only people can tell."""
    stage.start("a1", "b1").play(3 * MINUTE)
    folder = stage.nodes["b1"].folder
    for path in folder.iterdir():
        path.unlink()
    stage.start("b1").play(30 * SECOND)
    a1 = stage.nodes["a1"]
    assert 1 == len(a1.log.named("identity.changed"))
    assert (True, True) == _state(a1)["b1"]

    assert a1.discovery.forget("b1")
    assert not a1.discovery.forget("nobody")
    stage.play(MINUTE)
    assert (True, False) == _state(a1)["b1"] == _state(stage.nodes["b1"])["a1"]
    assert () == a1.discovery.knowledge().problems
