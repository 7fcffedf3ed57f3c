"""What the daemon's own words are worth."""

from __future__ import annotations

import msgspec

import meshwatchd
from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.cli.doctor_daemon import judge_nodes, judge_status, judge_version
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import FRESH_NS, NodeStatus
from meshwatchd.model.status import Knowledge
from tests.support.example_status import HEALTHY, MOVED, NOW_NS, STUCK

VERSION = meshwatchd.__version__


def _judged(status, *, now_ns=NOW_NS):
    return [(check.area, check.state.value) for check in judge_status(status, VERSION, now_ns=now_ns)]


def _node(name, **more):
    return NodeStatus(name=NodeName(name), **{"version": VERSION, "mode": "enforce", "heard_ago_ns": 1, **more})


def _states(*nodes):
    return [(check.state.value, check.text) for check in judge_nodes(NodesReply(node="b3", nodes=nodes))]


def test_a_daemon_that_is_well_is_ok_in_every_line():
    """It runs, it reports, its mesh is well."""
    assert [("daemon", "ok"), ("daemon", "ok"), ("mesh", "ok")] == _judged(HEALTHY)


def test_faults_are_told_by_their_severity():
    """With the command that explains them."""
    assert ("mesh", "warning") == _judged(MOVED)[-1]
    assert ("mesh", "error") == _judged(STUCK)[-1]
    assert "meshwatchctl explain" == list(judge_status(MOVED, VERSION, now_ns=NOW_NS))[-1].remedy


def test_a_silent_engine_and_rules_in_the_way_are_errors():
    """And a node that watches nothing."""
    hindered = msgspec.structs.replace(HEALTHY, collisions=("rule 5450: ip rule del pref 5450",))
    idle = msgspec.structs.replace(HEALTHY, pairs=(), knowledge=Knowledge(origin="nothing", nodes=1))
    muddled = msgspec.structs.replace(HEALTHY, knowledge=Knowledge(origin="hellos", nodes=2, problems=("x",)))
    assert ("daemon", "error") in _judged(HEALTHY, now_ns=NOW_NS + 60_000_000_000)
    assert ("rules", "error") in _judged(hindered)
    assert ("mesh", "error") in _judged(idle)
    assert ("mesh", "warning") in _judged(muddled)


def test_an_old_daemon_is_to_be_restarted():
    """After an upgrade."""
    assert ("warning", "systemctl restart meshwatchd") == (
        judge_version("0.0.1").state,
        judge_version("0.0.1").remedy,
    )


def test_neighbours_are_heard_run_one_version_and_may_relay():
    """This node itself is none of them."""
    own = _node("b3", version="", mode="observe")
    assert [("ok", f"2 other nodes are heard, all with meshwatchd {VERSION}")] == _states(own, _node("a1"), _node("b1"))
    told = _states(
        own,
        _node("a1", version="9"),
        _node("a2", heard_ago_ns=None),
        _node("b1", heard_ago_ns=2 * FRESH_NS),
        _node("b2", mode="advise"),
    )
    assert ["warning", "warning", "warning", "note"] == [state for state, _ in told]
    assert "a2 was never heard" == told[0][1]
    assert f"meshwatchd 9 on a1, {VERSION} here" == told[2][1]
