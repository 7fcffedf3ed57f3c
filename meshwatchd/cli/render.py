"""A status as text: what is broken, where, and which path the traffic takes, in the first line.

Pure functions; the caller says what time it is and how to colour.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from meshwatchd.adapters.control.naming import name_path, name_place
from meshwatchd.cli.render_findings import render_findings, summarise_finding
from meshwatchd.cli.render_knowledge import explain_idleness, render_knowledge
from meshwatchd.cli.render_orders import render_orders
from meshwatchd.cli.render_reported import render_reported
from meshwatchd.cli.render_tunnels import render_tunnels
from meshwatchd.cli.render_watch import describe_watch, lost_words
from meshwatchd.cli.text import Cell, Paint, columns, render_age, render_flow, render_rtt, warn_if_stale
from meshwatchd.model.faults import CATALOGUE, Severity, weight
from meshwatchd.model.status import CanaryStatus, PairStatus, PathStatus, SessionStatus, Status, path_rtt_ns
from meshwatchd.model.units import render_duration

MAX_SUMMARISED = 4
"""Findings; the table below has all of them."""

NO_CANARY = "no canary is declared in another location, so no pod there is asked (remedy: declare [[probe.canary]])"
"""A remark: without canaries nothing is at fault, and faults between a node and its pod stay unseen."""


def render_status(status: Status, *, now_ns: int, paint: Paint, is_verbose: bool = False) -> str:
    """The status of one node."""
    lines = [*_render_summary(status, now_ns, paint), "", _render_node(status, now_ns, paint)]
    lines += [paint(line, "dim") for line in describe_watch(status)]
    if status.knowledge is not None:
        # The summary has the first problem already where nothing is watched for it.
        told = status.knowledge.problems if status.is_watching else status.knowledge.problems[1:]
        lines += render_knowledge(msgspec.structs.replace(status.knowledge, problems=told), paint)
    if status.orders or status.drained:
        lines += ["", *render_orders(status, now_ns, paint)]
    if status.findings:
        lines += ["", *render_findings(status.findings, status.at_ns, paint)]
    if status.pairs:
        lines += ["", *_render_paths(status, paint)]
    if status.canaries:
        lines += ["", *_render_canaries(status, paint)]
    elif status.pairs:
        lines += ["", paint(NO_CANARY, "dim")]
    lines += (paint(remark, "dim") for remark in (*status.remarks, *lost_words(status)))
    if status.tunnels:
        lines += ["", *render_tunnels(status, paint)]
    if is_verbose and status.sessions:
        lines += ["", *_render_sessions(status, paint)]
    if is_verbose and status.rates:
        lines += ["", *_render_rates(status, paint)]
    if is_verbose and status.counters:
        lines += ["", *_render_counters(status, paint)]
    return "\n".join(lines) + "\n"


def _render_summary(status: Status, now_ns: int, paint: Paint) -> Iterator[str]:
    """The lines that have to be enough at three in the morning."""
    yield from warn_if_stale(status.at_ns, now_ns, paint)
    if not status.is_watching:
        word = paint("NOT WATCHING", Severity.CRITICAL.value)
        yield f"{word}  {status.node} watches nothing: {explain_idleness(status)}"
    for collision in status.collisions:
        word = paint("WARNING", Severity.WARNING.value)
        yield f"{word}  {status.node} puts nothing into the kernel: {collision}"
    if status.detour:
        word = paint("WARNING", Severity.WARNING.value)
        yield f"{word}  {status.node} sends to other locations {status.detour}: its own leg to the leader is broken"
    # What is near comes first: it is what this node's operator can mend, and often the cause of the rest.
    for finding in status.findings[:MAX_SUMMARISED]:
        yield summarise_finding(finding, paint)
    near = [fault for fault in status.reported if fault.location == status.location]
    yield from (render_reported(fault, paint) for fault in near[:MAX_SUMMARISED])
    for pair in sorted(status.pairs, key=_by_severity):
        yield _summarise(status, pair, paint)
    far = [fault for fault in status.reported if fault not in near]
    yield from (render_reported(fault, paint) for fault in far[:MAX_SUMMARISED])
    if status.reported or ((status.pairs or status.findings) and status.severity is not Severity.OK):
        yield paint("why, and what to do: meshwatchctl explain", "dim")


def _by_severity(pair: PairStatus) -> tuple[int, int]:
    return -weight(pair.verdict.severity), pair.pair


def _summarise(status: Status, pair: PairStatus, paint: Paint) -> str:
    verdict = pair.verdict
    word = verdict.severity.value.upper()
    title = CATALOGUE[verdict.fault].title
    if not status.is_ready and verdict.severity is Severity.OK:
        title = "starting, not every path has been judged yet"
    where = ""
    if verdict.severity is not Severity.OK:
        names = [name for name in (name_place(pair).replace("node ", "at "), verdict.layer.name.lower()) if name]
        where = f" [{', '.join(names)}]"
    return (
        f"{paint(word, verdict.severity.value)}  to {pair.remote_location}: {paint(title, 'strong')}{where}; "
        f"{_name_use(pair)}"
    )


def _name_use(pair: PairStatus) -> str:
    path = next((path for path in pair.paths if path.is_active), None)
    if path is None:
        return "traffic on no known path"
    if path.rank == 0:
        return f"traffic on the primary path {name_path(path)}"
    return f"traffic moved to standby {name_path(path)} (rank {path.rank})"


def _render_node(status: Status, now_ns: int, paint: Paint) -> str:
    place = f"{status.node} in {status.location}" if status.location else status.node
    words = [word for word in (status.role, f"mode {status.mode}") if word]
    age = render_age(now_ns - status.at_ns)
    return paint(f"{place}, {', '.join(words)}, reported {age}", "dim")


def _render_paths(status: Status, paint: Paint) -> list[str]:
    rows = [
        _path_row(status, pair, path)
        for pair in status.pairs
        for path in sorted(pair.paths, key=lambda path: path.rank)
    ]
    return columns(("TO", "RANK", "RELAYS", "STATE", "IN USE", "RTT", ""), rows, paint)


def _path_row(status: Status, pair: PairStatus, path: PathStatus) -> list[Cell]:
    known = (
        ("primary", path.rank == 0),
        ("relay here", path.is_local_relay),
        (f"suppressed, penalty {path.penalty}", path.is_suppressed),
        ("drained", any(relay in status.drained for relay in path.relays)),
    )
    notes = [note for note, is_so in known if is_so]
    return [
        (pair.remote_location, ""),
        (str(path.rank), ""),
        (name_path(path), ""),
        (path.state, path.state),
        ("yes" if path.is_active else "-", "strong" if path.is_active else "dim"),
        (render_rtt(path_rtt_ns(status, path)), ""),
        (", ".join(notes), "dim"),
    ]


def _render_sessions(status: Status, paint: Paint) -> list[str]:
    names = {path.number: name_path(path) for pair in status.pairs for path in pair.paths}
    ordered = sorted(status.sessions, key=lambda one: (-int(one.layer), one.path, one.peer, one.flow))
    rows = [_session_row(session, names, status.at_ns) for session in ordered]
    return columns(("LAYER", "PEER", "ADDRESS", "PATH", "FLOW", "STATE", "LOSS", "RTT", "HEARD"), rows, paint)


def _render_canaries(status: Status, paint: Paint) -> list[str]:
    rows = [_canary_row(canary, status.at_ns) for canary in sorted(status.canaries, key=lambda canary: canary.name)]
    return columns(("CANARY", "NODE", "ASKED", "STATE", "LOSS", "RTT", "HEARD", ""), rows, paint)


def _canary_row(canary: CanaryStatus, at_ns: int) -> list[Cell]:
    address = f"[{canary.address}]" if ":" in canary.address else canary.address
    return [
        (canary.name, ""),
        (canary.node, ""),
        (f"{canary.kind} {address}:{canary.port}", ""),
        (canary.state, canary.state),
        (_render_loss(canary), "" if canary.lost == 0 else "warning"),
        (render_rtt(canary.rtt_ns), ""),
        (_render_heard(canary, at_ns), ""),
        (f"in consequence of {canary.depends_on}" if canary.depends_on else canary.fault, "dim"),
    ]


def _render_heard(asked: SessionStatus | CanaryStatus, at_ns: int) -> str:
    return render_age(at_ns - asked.last_heard_ns) if asked.last_heard_ns > 0 else "never"


def _session_row(session: SessionStatus, names: dict[int, str], at_ns: int) -> list[Cell]:
    return [
        (session.layer.name.lower(), ""),
        (session.peer, ""),
        (session.address, ""),
        (names.get(session.path, "-"), ""),
        (render_flow(session.flow), ""),
        (session.state, session.state),
        (_render_loss(session), "" if session.lost == 0 else "warning"),
        (render_rtt(session.rtt_ns), ""),
        (_render_heard(session, at_ns), ""),
    ]


def _render_rates(status: Status, paint: Paint) -> list[str]:
    names = {path.number: name_path(path) for pair in status.pairs for path in pair.paths}
    rows: list[list[Cell]] = [
        [
            (rate.layer.name.lower(), ""),
            (names.get(rate.path, "-"), ""),
            (render_flow(rate.flow), ""),
            (str(rate.sessions), ""),
            (render_duration(rate.interval_ns), ""),
            (f"x {rate.stretch:g}", "warning" if rate.stretch > 1 else ""),
        ]
        for rate in status.rates
    ]
    return columns(("LAYER", "PATH", "FLOW", "SESSIONS", "EVERY", "STRETCH"), rows, paint)


def _render_loss(asked: SessionStatus | CanaryStatus) -> str:
    if asked.sent == 0:
        return "-"
    return f"{100 * asked.lost / asked.sent:.1f} % of {asked.sent}"


def _render_counters(status: Status, paint: Paint) -> list[str]:
    rows = [[(name, ""), (str(value), "")] for name, value in sorted(status.counters.items())]
    return columns(("COUNTER", "VALUE"), rows, paint)
