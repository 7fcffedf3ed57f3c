"""What meshwatchctl prints, word for word: read these files as an operator would."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import meshwatchd
from meshwatchd.adapters.control.explain import explain
from meshwatchd.adapters.control.history import read_incidents
from meshwatchd.adapters.control.interface import ExplainReply, MtuReply
from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.adapters.control.operator_requests import OperateReply
from meshwatchd.adapters.control.topology import TopologyReply
from meshwatchd.adapters.doctor.policy_rules import judge_rules
from meshwatchd.adapters.netlink.rule_text import RuleText
from meshwatchd.adapters.netlink.way import Way
from meshwatchd.cli.command_path import describe
from meshwatchd.cli.doctor_daemon import judge_nodes
from meshwatchd.cli.legs import legs_to
from meshwatchd.cli.main import _COMMANDS, cli
from meshwatchd.cli.render import render_status
from meshwatchd.cli.render_bisect import render_bisection
from meshwatchd.cli.render_doctor import render_checkup
from meshwatchd.cli.render_incidents import explain_incident, render_incidents
from meshwatchd.cli.render_matrix import render_matrix
from meshwatchd.cli.render_mtu import render_sizes
from meshwatchd.cli.render_path import render_path
from meshwatchd.cli.render_ping import render_ping
from meshwatchd.cli.render_service import ServiceView, render_service
from meshwatchd.cli.render_story import render_event, render_explanations, render_operation
from meshwatchd.cli.render_top import Memory, render_top
from meshwatchd.cli.render_topology import render_topology
from meshwatchd.cli.text import paint_ansi, paint_nothing
from meshwatchd.core.diagnosis.service_rules import judge
from meshwatchd.core.membership.node_list import collect_faults, remark_versions
from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import FlowClass, Layer, LocationName, NodeName
from meshwatchd.model.mtu import SizeStatus
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Rejection, Sources
from meshwatchd.model.status import RateStatus, Status
from meshwatchd.profiles.compose import look
from tests.meta.tree import ROOT
from tests.support.example_bisection import ONE_SIDED, RESULT, TWO_SIDED, WELL
from tests.support.example_incidents import HISTORY_LINES
from tests.support.example_nodes import NODES
from tests.support.example_reports import many, reporting
from tests.support.example_services import EXAMPLES
from tests.support.example_sizes import BLACK_HOLE_SIZES, HEALTHY_SIZES
from tests.support.example_status import (
    BROKEN,
    HEALTHY,
    INCIDENT,
    MOVED,
    NOW_NS,
    REDUCED,
    STUCK,
    TOLD,
    TUNNELLED,
    status,
    verdict,
)
from tests.support.node_states import flannel_over_wg0, graph, kilo_cilium, kilo_flannel


def _explained(shown: Status, events: tuple[dict[str, object], ...] = ()) -> str:
    told = explain(shown, events)
    reply = ExplainReply(
        node=shown.node, mode=shown.mode, at_ns=shown.at_ns, explanations=told, reported=shown.reported
    )
    return render_explanations(reply, now_ns=NOW_NS, paint=paint_nothing)


def _shown(shown: Status, *, is_verbose: bool = False, now_ns: int = NOW_NS) -> str:
    return render_status(shown, now_ns=now_ns, paint=paint_nothing, is_verbose=is_verbose)


ORDERED = msgspec.structs.replace(
    REDUCED,
    orders=(
        Order(
            kind=OrderKind.PAUSE,
            name="ann",
            location="onprem",
            reason="new switch",
            until_ns=NOW_NS + 2_400_000_000_000,
        ),
    ),
    drained=(NodeName("a2"),),
    pairs=tuple(
        msgspec.structs.replace(
            pair,
            paths=tuple(
                msgspec.structs.replace(path, penalty=2_310, is_suppressed=path.rank == 1) for path in pair.paths
            ),
        )
        for pair in REDUCED.pairs
    ),
)


SILENT = status(verdict(FaultCode.WIREGUARD_BLOCKED, culprit="a1"), states="down good good good", active=1)


def _sized(sizes: tuple[SizeStatus, ...]) -> str:
    return render_sizes(
        MtuReply(node="b3", at_ns=NOW_NS, paths={"0": "b1-a1", "1": "b2-a1"}, sizes=sizes), paint=paint_nothing
    )


OBSERVING = msgspec.structs.replace(STUCK, mode="observe")
ADVISED = msgspec.structs.replace(status(BROKEN, states="down good down good", redundancy="reduced"), mode="advise")
NO_MESH = msgspec.structs.replace(
    HEALTHY, pairs=(), sessions=(), location="", role="unknown", severity=Severity.WARNING
)
OPERATION = OperateReply(
    accepted=True,
    text="moves the traffic between cloud and onprem to path 1 (b2, a1)",
    operations=("ip rule add pref 5460 from all lookup 7701 protocol 117",),
)
REFUSAL = OperateReply(accepted=False, text="path 3 is not good")


def _topology(seen: LocalView, *, is_reasoned: bool = False) -> str:
    pairs = HEALTHY.pairs if seen.granularity == "location" else ()
    return render_topology(TopologyReply(view=seen, pairs=pairs), paint=paint_nothing, is_reasoned=is_reasoned)


def _seen(snapshot: Snapshot, node: str, **told: Any) -> LocalView:
    return look(snapshot, Sources(**told), MeshSettings(), NodeName(node))


REJECTED = (Rejection(source="/run/flannel/subnet.env", reason="FLANNEL_MTU: 'x' is no number up to 65535"),)
NAMED = _seen(kilo_flannel("b3"), "b3", kilo=graph(), rejected=REJECTED)
OVER_CILIUM = _seen(kilo_cilium("a1"), "a1")
FULL = msgspec.structs.replace(NAMED, granularity="full", leader="", is_leader=True, location=LocationName("b3"))
PLAIN = _seen(flannel_over_wg0(), "k3")
NOWHERE = _seen(Snapshot(), "b3")
HISTORY = read_incidents(HISTORY_LINES)

CHECKS = (
    Check(area="configuration", state=CheckState.OK, text="/etc/meshwatchd/meshwatchd.toml: node b3, mode enforce"),
    *judge_nodes(
        NodesReply(
            node="b3",
            nodes=(
                NodeStatus(name=NodeName("a1"), version=meshwatchd.__version__, mode="enforce", heard_ago_ns=1),
                NodeStatus(name=NodeName("b1"), version="0.0.9", mode="observe", heard_ago_ns=1),
                NodeStatus(name=NodeName("b2")),
            ),
        )
    ),
    *judge_rules(
        Settings(), (RuleText(priority=5450, table=52, protocol=0, text="5450: from all lookup 52", body=b""),)
    ),
)

REPORTED = msgspec.structs.replace(
    HEALTHY,
    reported=collect_faults(reporting(), HEALTHY),
    remarks=remark_versions((*NODES[1:], msgspec.structs.replace(NODES[0], version="0.0.9")), "b3"),
    rates=(
        RateStatus(
            layer=Layer.UNDERLAY, path=0xFFFF, flow=FlowClass.FRESH, sessions=2, interval_ns=200_000_000, stretch=1
        ),
        RateStatus(layer=Layer.RELAY, path=0, flow=FlowClass.FRESH, sessions=3, interval_ns=50_000_000, stretch=1),
    ),
    counters={"loop-busy-percent": 2, "link-facts-dropped": 7},
)

WAY = Way(
    address="10.244.3.7",
    rule="5460: from all lookup 7701",
    rule_protocol=117,
    table=7701,
    device="flannel.1",
    via="10.244.5.0",
    source="10.2.0.13",
)
PATH = msgspec.structs.replace(describe("10.244.3.7", WAY, MOVED, NODES), operations=OPERATION.operations)


SAMPLE = str(ROOT / "etc/meshwatchd/meshwatchd.toml")


def _typed(*arguments: str) -> str:
    """What is printed for a command that asks no daemon, standard error included."""
    return CliRunner().invoke(cli, arguments, terminal_width=80, prog_name="meshwatchctl").output


def _top(mode: str) -> str:
    memory = Memory()
    memory.take(MOVED)
    return render_top(MOVED, INCIDENT, memory, now_ns=NOW_NS, size=(80, 40), mode=mode).plain + "\n"


def _service(name: str) -> str:
    _, observations = EXAMPLES[name]
    return render_service(ServiceView(judgement=judge(observations), observations=observations), paint=paint_nothing)


PAGES = {
    "help": _typed("--help"),
    "no-such-command": _typed("staus"),
    "explain-code": _typed("explain", "forwarding-off"),
    "explain-list": _typed("explain", "--list"),
    "config-explain": _typed("config", "explain", "policy.hold_down", "--config", SAMPLE),
    "top": _top(""),
    "top-sessions": _top("sessions"),
    "status-healthy": _shown(HEALTHY),
    "status-moved": _shown(MOVED),
    "status-moved-verbose": _shown(MOVED, is_verbose=True),
    "status-moved-colours": render_status(MOVED, now_ns=NOW_NS, paint=paint_ansi),
    "status-tunnel-silent": _shown(SILENT),
    "status-stuck": _shown(STUCK),
    "status-tunnels": _shown(TUNNELLED),
    "status-reduced": _shown(REDUCED),
    "status-orders": _shown(ORDERED),
    "status-stale": _shown(HEALTHY, now_ns=NOW_NS + 60_000_000_000),
    "status-no-mesh": _shown(NO_MESH),
    "status-reported": _shown(REPORTED),
    "explain-healthy": _explained(HEALTHY),
    "explain-moved": _explained(MOVED, INCIDENT),
    "explain-advised": _explained(ADVISED, INCIDENT[:-2]),
    "explain-reported": _explained(REPORTED),
    "explain-told": _explained(TOLD),
    "explain-stuck": _explained(OBSERVING),
    "topology": _topology(NAMED),
    "topology-why": _topology(NAMED, is_reasoned=True),
    "topology-cilium-leader": _topology(OVER_CILIUM),
    "topology-full": _topology(FULL),
    "topology-plain": _topology(PLAIN, is_reasoned=True),
    "topology-none": _topology(NOWHERE, is_reasoned=True),
    "bisect-well": render_bisection(WELL, paint_nothing),
    "bisect-fdb": render_bisection(RESULT, paint_nothing),
    "bisect-new-flows": render_bisection(ONE_SIDED, paint_nothing),
    "bisect-two-sided": render_bisection(TWO_SIDED, paint_nothing),
    "mtu-healthy": _sized(HEALTHY_SIZES),
    "mtu-black-hole": _sized(BLACK_HOLE_SIZES),
    "doctor": render_checkup(CHECKS, paint=paint_nothing),
    "ping": render_ping("b1", legs_to(MOVED, "b1"), seconds=5, paint=paint_nothing),
    "path-moved": render_path(PATH, at_ns=NOW_NS, paint=paint_nothing),
    **{f"service-{name}": _service(name) for name in EXAMPLES},
    "matrix": render_matrix(NodesReply(node="b3", nodes=reporting()), paint=paint_nothing, width=80),
    "matrix-large": render_matrix(NodesReply(node="b3", nodes=many(1000)), paint=paint_nothing, width=80),
    "incidents": render_incidents(HISTORY, paint_nothing),
    "explain-incident": explain_incident(HISTORY[0], paint_nothing),
    "events": "".join(render_event(event, paint_nothing) + "\n" for event in INCIDENT),
    "failover-dry-run": render_operation(OPERATION, is_dry_run=True, paint=paint_nothing),
    "failover-refused": render_operation(REFUSAL, is_dry_run=False, paint=paint_nothing),
}


@pytest.mark.parametrize("name", list(PAGES))
def test_page_reads_as_agreed(root, name):
    """`make golden` writes the pages; the difference is then read like code."""
    file = root / "tests/golden/cli" / f"{name}.txt"
    if os.environ.get("MESHWATCH_UPDATE_GOLDEN"):
        file.write_text(PAGES[name], encoding="utf-8")
    assert file.read_text(encoding="utf-8") == PAGES[name]


UNPRINTED = {
    "report": "a page for a browser: tests/pictures",
    "wait": "a sentence of status, or nothing",
    "bundle": "the name of a file",
    "stamp": "tests/unit/cli/test_render_stamp.py has each line of it",
    "replay": "lines of events",
    "version": "numbers",
    **dict.fromkeys(("sweep", "rollback", "forget"), "one sentence for each thing done"),
    **dict.fromkeys(("failback", "confirm", "pause", "resume", "drain", "undrain", "pin", "unpin"), "as failover"),
}
"""Commands without a page of their own, and why."""


def test_every_command_has_a_page():
    """Or a reason to have none; a reason does not outlive its command."""
    shown = {name for name in _COMMANDS if any(page.partition("-")[0] == name for page in PAGES)}
    assert set(_COMMANDS) == shown | set(UNPRINTED)
    assert not shown & set(UNPRINTED)


def test_every_page_is_tested(root):
    """A page nobody renders any more is removed."""
    assert sorted(PAGES) == sorted(file.stem for file in (root / "tests/golden/cli").glob("*.txt"))
