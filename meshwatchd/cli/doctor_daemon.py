"""What the running daemon says of itself and of its neighbours, as checks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import meshwatchd
from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.cli.render_knowledge import explain_idleness
from meshwatchd.cli.text import is_stale, render_age
from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.faults import CATALOGUE, Severity
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.settings import Mode
from meshwatchd.model.status import Status

_STATES = {Severity.OK: CheckState.OK, Severity.WARNING: CheckState.WARNING, Severity.CRITICAL: CheckState.ERROR}
_LOG = "journalctl -u meshwatchd -n 50"


def judge_status(status: Status, version: str, *, now_ns: int) -> Iterator[Check]:
    """What a status says: whether the engine reports, what keeps it from acting, what it knows of the mesh."""
    yield judge_version(version)
    if is_stale(status.at_ns, now_ns):
        text = f"the engine last reported {render_age(now_ns - status.at_ns)}"
        yield Check(area="daemon", state=CheckState.ERROR, text=text, remedy=_LOG)
    else:
        yield Check(area="daemon", state=CheckState.OK, text=f"the engine reports, mode {status.mode}")
    for collision in status.collisions:
        yield Check(area="rules", state=CheckState.ERROR, text=f"this node changes nothing: {collision}")
    if not status.is_watching:
        yield Check(area="mesh", state=CheckState.ERROR, text=f"nothing is watched: {explain_idleness(status)}")
    elif status.knowledge is not None:
        yield from (Check(area="mesh", state=CheckState.WARNING, text=problem) for problem in status.knowledge.problems)
    yield from _judge_faults(status)


def judge_version(version: str) -> Check:
    """Whether the daemon that runs is the one that is installed."""
    if version == meshwatchd.__version__:
        return Check(area="daemon", state=CheckState.OK, text=f"meshwatchd {version} runs")
    text = f"meshwatchd {version} runs, and {meshwatchd.__version__} is installed"
    return Check(area="daemon", state=CheckState.WARNING, text=text, remedy="systemctl restart meshwatchd")


def judge_mode(status: Status, wanted: Mode) -> Iterator[Check]:
    """Whether the daemon runs in the mode of the file that was read here."""
    if status.mode != wanted:
        text = f"the daemon runs in mode {status.mode}, and this file says {wanted}"
        remedy = "systemctl restart meshwatchd, or name the daemon's file: meshwatchctl doctor --config FILE"
        yield Check(area="configuration", state=CheckState.WARNING, text=text, remedy=remedy)


def _judge_faults(status: Status) -> Iterator[Check]:
    """Verdicts and findings: `explain` has the evidence."""
    for pair in status.pairs:
        verdict = pair.verdict
        at = f" at {verdict.culprit}" if verdict.culprit else ""
        text = f"to {pair.remote_location}: {CATALOGUE[verdict.fault].title}{at}"
        remedy = "" if verdict.severity is Severity.OK else "meshwatchctl explain"
        yield Check(area="mesh", state=_STATES[verdict.severity], text=text, remedy=remedy)
    for finding in status.findings:
        text = f"{CATALOGUE[finding.fault].title} [{finding.culprit or status.node}, {finding.device or '-'}]"
        remedy = finding.commands[0] if finding.commands else "meshwatchctl explain"
        yield Check(area="mesh", state=_STATES[finding.severity], text=text, remedy=remedy)


def judge_nodes(reply: NodesReply) -> Iterator[Check]:
    """Whether the neighbours speak, run this version, and may relay."""
    others = [node for node in reply.nodes if node.name != reply.node]
    silent = [node for node in others if node.heard_ago_ns is None or node.heard_ago_ns > node.fresh_ns]
    for node in silent:
        age = "never" if node.heard_ago_ns is None else render_age(node.heard_ago_ns)
        text = f"{node.name} was last heard {age}" if age != "never" else f"{node.name} was never heard"
        remedy = f"on {node.name}: systemctl status meshwatchd; then meshwatchctl ping {node.name}"
        yield Check(area="nodes", state=CheckState.WARNING, text=text, remedy=remedy)
    heard = [node for node in others if node not in silent]
    versions = _group(heard, {node.name: node.version for node in heard})
    for version, names in versions.items():
        if version and version != meshwatchd.__version__:
            text = f"meshwatchd {version} on {names}, {meshwatchd.__version__} here"
            yield Check(area="nodes", state=CheckState.WARNING, text=text, remedy="install one version on all nodes")
    for mode, names in _group(heard, {node.name: node.mode for node in heard}).items():
        if mode not in ("", Mode.ENFORCE.value):
            text = f"mode {mode} on {names}: no traffic can move to a path over them"
            yield Check(area="nodes", state=CheckState.NOTE, text=text)
    if others and not silent and set(versions) <= {meshwatchd.__version__}:
        text = f"{len(heard)} other nodes are heard, all with meshwatchd {meshwatchd.__version__}"
        yield Check(area="nodes", state=CheckState.OK, text=text)


def _group(nodes: Iterable[NodeStatus], values: Mapping[str, str]) -> dict[str, str]:
    """The names of the nodes by value."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        found.setdefault(values[node.name], []).append(node.name)
    return {value: ", ".join(names) for value, names in found.items()}
