"""A healthy mesh says little: what is known is not said again, and what was missed is asked for."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import MINUTE, SECOND
from meshwatchd.wire.auth import MeshKeys, Purpose
from meshwatchd.wire.hello import Stamp
from meshwatchd.wire.short_hello import ShortHello, encode, is_short
from tests.support import example_status
from tests.support.discovery_stage import HELLO_PORT, NAMES, OLD, Stage, view_of

SETTLED_NS = 2 * MINUTE
"""Two nodes that meet sign with a key of their own soon after; 0.5, 1, 2 ... 30 s after a change it is not repeated."""


class Ear:
    """What passes inside of the mesh from here on: sender, receiver, datagram; some of it is lost.

    Where the nodes are seen from outside they ask each other in whole hellos, since they want answers.
    """

    def __init__(self, stage):
        self.heard: list[tuple[str, str, bytes]] = []
        self.loses = lambda _sender, _receiver, _datagram: False
        carry = stage.wire.carry

        def listen(sender, datagram, address):
            receiver = stage.wire.private.get(address, "")
            if receiver in stage.nodes:
                self.heard.append((sender, receiver, datagram))
            if not self.loses(sender, receiver, datagram):
                carry(sender, datagram, address)

        stage.wire.carry = listen

    def sizes(self, *, short):
        """Bytes of the datagrams of one kind."""
        return [len(datagram) for _, _, datagram in self.heard if is_short(datagram) is short]


@pytest.fixture
def stage(tmp_path):
    """Nobody is on it yet."""
    return Stage(tmp_path)


def _settle(stage, *names, more_ns=0):
    stage.start(*names).play(SETTLED_NS, step_ns=SECOND // 2)
    ear = Ear(stage)
    stage.play(more_ns, step_ns=SECOND)
    return ear


def _node(stage, name):
    return stage.nodes[name].discovery


def _change(stage, name, location):
    stage.nodes[name].eyes.view = view_of(name, location=location)
    _node(stage, name).look_again()


def _location_at(stage, name, of):
    return _node(stage, name).hellos()[of].view.location


def test_at_rest_all_hellos_are_short_and_everybody_lives(stage):
    """Six nodes, five minutes: the same mesh, nobody is taken for dead, and a hello has 105 bytes with UDP and IP."""
    ear = _settle(stage, more_ns=5 * MINUTE)

    assert [] == ear.sizes(short=False)
    assert 0.8 * 300 <= len(ear.sizes(short=True)) <= 1.2 * 300
    assert max(ear.sizes(short=True)) <= 120 - 28
    assert stage.are_agreed()
    for name in NAMES:
        node = _node(stage, name)
        assert all(node._roster.is_present(peer, stage.time.now) for peer in node._roster.peers)
        assert [0, 0] == [node.counters[each] for each in ("hello-short-unknown", "hello-short-bad-tag")]


def test_a_change_is_said_in_whole_and_at_once(stage):
    """And when nobody can have missed it any more, hellos are short again."""
    ear = _settle(stage)
    _change(stage, "b3", "attic")
    stage.play(2 * SECOND)

    assert {"attic"} == {_location_at(stage, name, "b3") for name in NAMES}
    stage.play(MINUTE, step_ns=SECOND)
    ear.heard.clear()
    stage.play(MINUTE, step_ns=SECOND)
    assert [] == ear.sizes(short=False)


def test_a_change_that_was_missed_is_asked_for(stage):
    """All whole hellos of the minute after it are lost: the first short one says that there was one."""
    ear = _settle(stage)
    ear.loses = lambda sender, receiver, datagram: "b3" in {sender, receiver} and not is_short(datagram)
    _change(stage, "b3", "attic")
    stage.play(75 * SECOND, step_ns=SECOND)
    assert "" == _location_at(stage, "a1", "b3")
    assert _node(stage, "a1").counters["hello-short-unknown"] > 0

    ear.loses = lambda _sender, _receiver, _datagram: False
    stage.play(40 * SECOND, step_ns=SECOND)
    assert {"attic"} == {_location_at(stage, name, "b3") for name in NAMES}


def test_a_version_that_knows_no_short_hellos_gets_whole_ones(stage):
    """All others are short with each other."""
    stage.start()
    _node(stage, "b2")._own_hello._capabilities = ("presence",)
    stage.play(SETTLED_NS, step_ns=SECOND // 2)
    ear = Ear(stage)
    stage.play(MINUTE, step_ns=SECOND)

    for sender, receiver, datagram in ear.heard:
        assert is_short(datagram) is ("b2" != receiver), (sender, receiver)


def test_a_node_that_lost_its_memory_is_met_again(stage):
    """It knows nobody's word nor identity; short hellos of others say nothing to it."""
    _settle(stage)
    (stage.nodes["b2"].folder / "mesh.json").unlink(missing_ok=True)
    stage.start("b2").play(20 * SECOND)
    assert stage.are_agreed()

    stage.play(SETTLED_NS, step_ns=SECOND)
    assert all(_node(stage, "a1")._roster.is_present(name, stage.time.now) for name in NAMES if name != "a1")


def test_a_node_that_nobody_led_to_is_greeted_in_whole_when_it_seems_dead(stage):
    """It has lost its memory and has no address of others: they know it, and take its silence for death."""
    _settle(stage)
    (stage.nodes["b2"].folder / "mesh.json").unlink(missing_ok=True)
    stage.start("b2")
    stage.nodes["b2"].eyes.view = msgspec.structs.replace(view_of("b2"), candidates=())
    stage.play(3 * MINUTE, step_ns=SECOND)

    assert stage.are_agreed()


def test_a_dead_nodes_faults_are_heard_again_when_it_is_back(stage):
    """They were dropped with it, and it has not changed: a short hello does not bring them back, so it is asked."""
    _settle(stage)
    verdict = example_status.verdict(FaultCode.MTU_MISCONFIGURED, culprit="b3")
    _node(stage, "b3").confess(example_status.status(verdict))
    stage.play(2 * SECOND)
    (fault,) = _node(stage, "a1").hellos()["b3"].faults

    stage.wire.dead.add("b3")
    stage.play(SETTLED_NS, step_ns=SECOND)
    assert () == _node(stage, "a1").hellos()["b3"].faults
    stage.wire.dead.clear()
    stage.play(40 * SECOND, step_ns=SECOND)
    assert (fault,) == _node(stage, "a1").hellos()["b3"].faults


def test_what_was_recorded_keeps_no_dead_node_alive(stage):
    """Nor does it wake anybody: each is refused for what it is."""
    ear = _settle(stage, more_ns=MINUTE)
    a1 = _node(stage, "a1")
    recorded = [each for sender, receiver, each in ear.heard if (sender, receiver) == ("b3", "a1")]
    del stage.nodes["b3"]
    for _ in range(12):
        for datagram in recorded:
            a1._hellos.receive(datagram, (view_of("b3").node_ip, HELLO_PORT))
        stage.play(10 * SECOND, step_ns=SECOND)

    assert not a1._roster.is_present("b3", stage.time.now)
    assert 12 * len(recorded) == a1.counters["hello-short-repeated"]


def test_who_has_the_mesh_key_keeps_nobody_alive(stage):
    """It needs a key that the two nodes alone have; and nobody is asked anything for it."""
    ear = _settle(stage)
    a1 = _node(stage, "a1")
    epoch = _node(stage, "b1")._hellos.known._epoch
    thief = MeshKeys("b1", [OLD], Purpose.HELLOS)
    ear.heard.clear()
    pair = thief.add_peer("a1")
    for number_of in (pair, msgspec.structs.replace(pair, key_id=pair.key_id ^ 0x80)):
        forged = encode(ShortHello(sender="b1", stamp=Stamp(epoch, 10**6), since=1), number_of)
        a1._hellos.receive(forged, ("10.9.9.9", HELLO_PORT))

    assert (1, 1) == (a1.counters["hello-short-unknown-key"], a1.counters["hello-short-bad-tag"])
    assert [] == ear.heard
    stage.play(MINUTE, step_ns=SECOND)
    assert a1._roster.is_present("b1", stage.time.now), "the real one is heard on"


def test_a_rotation_of_the_secret_goes_on_in_short(stage):
    """Keys of pairs are derived from either secret."""
    ear = _settle(stage, "a1", "b1")
    for node in stage.nodes.values():
        node.discovery.use_secrets([OLD])
    stage.play(MINUTE, step_ns=SECOND)

    assert [] == ear.sizes(short=False)
    assert 0 == sum(_node(stage, name).counters["hello-short-bad-tag"] for name in ("a1", "b1"))


def test_a_node_that_was_resumed_is_asked_under_its_new_epoch(stage):
    """Its counters begin anew, and so does what it has said."""
    _settle(stage, "a1", "b1")
    b1 = _node(stage, "b1")
    b1._take_new_epoch(10**9)
    ear = Ear(stage)
    stage.play(MINUTE, step_ns=SECOND)

    a1 = _node(stage, "a1")
    assert a1._roster.is_present("b1", stage.time.now)
    assert b1._hellos.known._epoch == a1._hellos.known._proven["b1"][0] == a1._roster.peers["b1"].said[0]
    stage.play(MINUTE, step_ns=SECOND)
    ear.heard.clear()
    stage.play(MINUTE, step_ns=SECOND)
    assert [] == ear.sizes(short=False)


def test_what_is_said_for_the_first_time_is_said_in_whole(stage):
    """Each word, and each epoch, since nobody knows it; and to whoever is unknown."""
    _settle(stage, "a1", "b1")
    a1, now = _node(stage, "a1"), stage.time.now
    own, epoch = a1._roster.own, a1._hellos.known._epoch
    other = msgspec.structs.replace(own, version="of tomorrow")

    said = [(own, epoch), (other, epoch), (other, epoch), (other, epoch + 1), (other, epoch + 1), (own, epoch + 1)]
    enough = []
    for counter, (hello, each) in enumerate(said):
        enough.append(a1._hellos.short.is_enough(hello, Stamp(each, 10**6 + counter), "b1", now))
        a1._hellos.short.tell("b1")
    assert [True, False, True, False, True, False] == enough
    assert not a1._hellos.short.is_enough(own, Stamp(epoch + 1, 10**7), None, now)


def test_a_change_is_said_in_whole_once_to_each_and_nobody_answers(stage):
    """A signature and its proof cost milliseconds, and of forty nodes each has thirty-nine others."""
    ear = _settle(stage)
    _change(stage, "b3", "attic")
    stage.play(20 * SECOND, step_ns=SECOND // 10)

    whole = [(sender, receiver) for sender, receiver, datagram in ear.heard if not is_short(datagram)]
    assert sorted(("b3", name) for name in NAMES if name != "b3") == sorted(whole)
