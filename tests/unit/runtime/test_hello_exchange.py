"""Replayed hellos, cloned machines, nodes that were removed or resumed: none of them costs the others anything."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from meshwatchd.model.settings import (
    SECOND,
)
from meshwatchd.runtime.clocks import Clocks
from meshwatchd.wire.hello import Greeting, HelloKeys, Stamp, encode
from tests.support import hellos, liqo_node
from tests.support.discovery_stage import HELLO_PORT, NAMES, OLD, STEP_NS, Stage


@pytest.fixture
def stage(tmp_path):
    """Nobody is on it yet."""
    return Stage(tmp_path)


def _say(node, sender, epoch, **view):
    """A node hears a signed answer to a hello of its own, under any name."""
    asked = node.discovery._hellos.known.next_stamp(node.time.now)
    hello = msgspec.structs.replace(hellos.hello(sender), view=hellos.view(sender, **view))
    greeting = Greeting(sender=sender, stamp=Stamp(epoch, 1), hello=hello, answers=Stamp(*asked))
    node.discovery._hellos.receive(encode(greeting, HelloKeys([OLD])), ("10.9.9.9", HELLO_PORT))


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


def test_answers_to_one_epoch_of_a_node_are_few(stage):
    """Whoever asks many times at once has heard us the first time."""
    recorded = _recorded(stage, "a1", "b1")
    stage.start("a1").play(STEP_NS)
    a1, before = stage.nodes["a1"].discovery, Counter(stage.wire.sent)
    asked = [(datagram, address) for target, datagram, address in recorded if target == "a1"]
    for datagram, address in asked:
        a1._hellos.receive(datagram, (address, HELLO_PORT))

    sent = Counter(stage.wire.sent) - before
    assert 1 == sum(sent.values())
    assert len(asked) - 1 == a1.counters["hello-unanswered"] > 1


def test_what_was_recorded_uses_up_no_answers(stage):
    """All that six nodes said yesterday is replayed to them, again and again, while they find each other today."""
    recorded = _recorded(stage, *NAMES)
    stage.start()

    def is_found():
        for target, datagram, address in recorded:
            stage.nodes[target].discovery._hellos.receive(datagram, (address, HELLO_PORT))
        return stage.are_agreed()

    stage.play(5 * SECOND, until=is_found)
    assert stage.are_agreed()
    assert all(node.discovery.counters["hello-repeated"] for node in stage.nodes.values())


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


def test_a_clone_is_refused_and_named_and_the_first_stays(stage):
    """A copied machine comes up elsewhere with the name and the key of one that lives."""
    stage.start().play(5 * SECOND)
    a1, before = stage.nodes["a1"], stage.nodes["a1"].discovery.hellos()["b2"]
    _say(a1, "b2", 2**62, node_ip="10.9.9.9")
    stage.play(SECOND)

    assert before == a1.discovery.hellos()["b2"]
    assert ["b2"] == [finding.culprit for finding in a1.discovery.duplicates()]


def test_a_node_whose_name_another_one_uses_says_so_itself(stage):
    """It hears its own name, later than it began."""
    stage.start("a1").play(SECOND)
    _say(stage.nodes["a1"], "a1", 2**63, node_ip="10.9.9.9")

    assert ["a1"] == [finding.culprit for finding in stage.nodes["a1"].discovery.duplicates()]


def test_who_was_removed_from_the_mesh_is_answered_no_more(stage):
    """Its key is good still; it is told to the operator once."""
    stage.start("a1", forbid=("b2",)).start("a2").play(2 * SECOND)
    a1, sent = stage.nodes["a1"], len(stage.wire.sent)
    for epoch in (7, 8):
        _say(a1, "b2", epoch)

    assert sent == len(stage.wire.sent)
    assert 2 == a1.discovery.counters["hello-outsider"]
    assert ["b2"] == [line["source"] for line in a1.log.named("hello.rejected")]


def test_a_node_that_liqo_gives_another_address_is_no_part_of_the_mesh(stage):
    """Nothing of what it says of itself leads to it from here; why nothing is enforced there is told."""
    stage.start("a1").play(SECOND)
    a1 = stage.nodes["a1"]
    by_liqo = msgspec.structs.replace(liqo_node.BY_GATEWAY, dst="10.9.0.0/16")
    a1.discovery.observe(liqo_node.snapshot(device_routes=(by_liqo, liqo_node.TO_GATEWAY)))
    _say(a1, "b2", 7)

    assert ["a1"] == list(a1.discovery.hellos())
    assert 1 == a1.discovery.counters["hello-translated"]
    assert "nothing can be enforced" in str(a1.log.named("hello.rejected"))


def test_a_machine_that_was_resumed_speaks_under_another_epoch(stage):
    """Its peers have heard all that it says from now on; they answer it again, and the log says why."""
    stage.start("a1", "b1").play(5 * SECOND)
    a1 = stage.nodes["a1"]
    before = a1.discovery._hellos.known.next_stamp(stage.time.now)
    stage.time.wall_ns = lambda now_ns=stage.time.wall_ns: now_ns() + 3600 * SECOND
    a1.discovery._clocks = Clocks(monotonic_ns=stage.time.monotonic_ns, wall_ns=stage.time.wall_ns)
    a1.discovery._jumps._clocks = a1.discovery._clocks
    stage.play(SECOND)

    assert before[0] < a1.discovery._hellos.known.next_stamp(stage.time.now)[0]
    assert [3600] == [line["jump_s"] for line in a1.log.named("clock.jumped")]
