"""`meshwatchctl topology`: over the socket, for people and for programs."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles.compose import look
from tests.support.node_states import graph, kilo_flannel


def _seen(snapshot):
    return look(snapshot, Sources(kilo=graph()), MeshSettings(), NodeName("b3"))


def test_place_and_role_come_first(room, run):
    """And reasons only for those who ask."""
    room.backend.seen = _seen(kilo_flannel("b3"))

    code, out, _ = run("topology")
    _, reasoned, _ = run("topology", "--why")

    assert 0 == code
    assert out.startswith("b3 in cloud, led by 10.244.4.0; kilo over flannel\n")
    assert "kilo0 is down" not in out
    assert "kilo0 is down and most of Kilo's routes lead to 10.244.4.0" in reasoned


def test_json_is_the_reply_of_the_daemon(room, run):
    """By either option."""
    room.backend.seen = _seen(kilo_flannel("b3"))

    before, behind = run("--json", "topology")[1], run("topology", "--json")[1]

    assert before == behind
    reply = msgspec.json.decode(before)
    assert ("cloud", ["kilo", "flannel"], "onprem") == (
        reply["view"]["location"],
        reply["view"]["profiles"],
        reply["pairs"][0]["remote_location"],
    )


def test_no_mesh_at_all_is_an_exit_status(room, run):
    """For scripts that wait for one."""
    room.backend.seen = _seen(Snapshot())

    code, out, _ = run("topology")

    assert 1 == code
    assert out.startswith("NO MESH  nothing on b3 looks like one\n")


def test_a_daemon_that_has_not_read_the_kernel_says_so(run):
    """Its first second."""
    code, out, errors = run("topology")

    assert (3, "") == (code, out)
    assert "the kernel has not been read yet" in errors
