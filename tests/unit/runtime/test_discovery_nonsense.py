"""Hellos that make no sense: told once, with source and reason, and what was known stays."""

from __future__ import annotations

import pytest

from meshwatchd.core.membership.replay_protection import MAX_KNOWN
from meshwatchd.model.settings import SECOND
from meshwatchd.wire.hello import Greeting, Stamp, encode
from tests.support import hellos
from tests.support.discovery_stage import HELLO_PORT, Stage, view_of


@pytest.fixture
def stage(tmp_path):
    """Nobody is on it yet."""
    return Stage(tmp_path)


def test_what_makes_no_sense_is_told_once_and_the_last_good_word_stays(stage):
    """Signed or not: addresses that are none end up nowhere."""
    stage.start().play(20 * SECOND)
    mesh, a1 = stage.nodes["a1"].discovery.mesh, stage.nodes["a1"]
    senseless = hellos.hello("b3", seen={"pod_cidr": "everything"})
    for counter in range(5):
        greeting = Greeting(sender="b3", stamp=Stamp(epoch=1, counter=counter), hello=senseless)
        a1.discovery._hellos._believe(greeting, stage.time.now)
        stage.play(SECOND)

    assert mesh == a1.discovery.mesh
    assert 1 == len(a1.log.named("hello.rejected"))
    assert "pod_cidr 'everything'" in str(a1.log.named("hello.rejected")[0]["reason"])
    assert 5 == a1.discovery.counters["hello-senseless"]
    shown = {finding.source: finding.text for finding in a1.discovery.refused}
    assert "rejected: pod_cidr 'everything'" in shown["hello of b3"]


def test_a_signed_hello_that_contradicts_itself_is_told_once(stage):
    """Who holds the key and speaks for another, as another version might by mistake; the mesh stays as it was."""
    stage.start().play(20 * SECOND)
    mesh, a1 = stage.nodes["a1"].discovery.mesh, stage.nodes["a1"]
    contradiction = Greeting(sender="b1", stamp=Stamp(epoch=7, counter=1), hello=hellos.hello("b3"))
    for _ in range(3):
        a1.discovery._hellos.receive(encode(contradiction, a1.discovery._hellos.keys), ("10.2.0.13", HELLO_PORT))

    (told,) = a1.log.named("hello.rejected")
    assert "10.2.0.13" == told["source"]
    assert "a signed hello is malformed" in str(told["reason"])
    assert 3 == a1.discovery.counters["hello-malformed"]
    assert mesh == a1.discovery.mesh


def test_a_node_that_sees_nonsense_tells_its_last_good_word(stage):
    """Whatever a file or an agent has made of it."""
    stage.start().play(20 * SECOND)
    b3, mesh = stage.nodes["b3"], stage.meshes()[0]
    b3.eyes.view = view_of("b3", pod_cidr="everything")
    b3.discovery.look_again()
    stage.play(5 * SECOND)

    assert [mesh] * 6 == stage.meshes()
    assert "pod_cidr 'everything'" in str(b3.log.named("hello.rejected")[0]["reason"])


def test_a_mesh_of_nodes_that_come_and_go_stays_open_to_newcomers(stage):
    """After weeks as many names have been proven as there is room for, nearly all of nodes that are gone."""
    stage.start("a1", "b1").play(5 * SECOND)
    known = stage.nodes["a1"].discovery._hellos.known
    for number in range(MAX_KNOWN):
        known.restore(f"gone-{number}", 1, 1)
    stage.start("b3").play(20 * SECOND)

    assert {"a1", "b1", "b3"} == set(stage.nodes["a1"].discovery.hellos())
    assert {"b1", "b3"} == {sender for sender, _, _ in known.proven()}
