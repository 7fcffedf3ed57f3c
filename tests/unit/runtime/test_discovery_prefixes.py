"""What discovery tells of prefixes that contradict each other."""

from __future__ import annotations

import msgspec

from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import Link, Snapshot
from tests.support.discovery_stage import NAMES, Stage, view_of


def test_a_prefix_that_contradicts_others_is_told_with_its_owner_who_is_left_out(tmp_path):
    """In the log and in the status of every node; the rest of the mesh is as it was."""
    stage = Stage(tmp_path).start()
    stage.nodes["a3"].eyes.view = view_of("a3", pod_cidr="10.0.0.0/8")
    stage.play(20 * SECOND)

    for node in (stage.nodes[name] for name in NAMES if name != "a3"):
        assert [name for name in NAMES if name != "a3"] == [each.name for each in node.discovery.mesh.node]
        (problem,) = node.discovery.knowledge().problems
        assert problem.startswith("a3 claims 10.0.0.0/8, which overlaps 10.2.0.11/32 of b1 and ")
        assert [problem] == [fields["reason"] for fields in node.log.named("mesh.incomplete")]


def test_what_this_nodes_kernel_contradicts_is_a_problem_of_this_node(tmp_path):
    """Of a source here, and of a node elsewhere that claims a part of the LAN; nobody is left out for the latter."""
    stage = Stage(tmp_path).start()
    stage.nodes["a3"].eyes.view = view_of("a3", pod_cidr="10.2.0.128/25")
    card = Link(
        name="eth0", index=2, kind="", is_up=True, mtu_bytes=1500, addresses=("10.2.0.13",), prefix_lengths=(24,)
    )
    stage.nodes["b3"].discovery.observe(Snapshot(links=(card,)))
    stage.nodes["b3"].eyes.view = msgspec.structs.replace(view_of("b3"), contradictions=("kilo says what is wrong",))
    stage.play(20 * SECOND)

    assert stage.are_agreed()
    assert (
        "kilo says what is wrong",
        "a3 claims 10.2.0.128/25, which overlaps 10.2.0.13/24 of eth0 here",
    ) == tuple(problem.partition(";")[0] for problem in stage.nodes["b3"].discovery.knowledge().problems)
    assert () == stage.nodes["b1"].discovery.knowledge().problems
    assert () == stage.nodes["a1"].discovery.hellos()["b3"].view.contradictions
