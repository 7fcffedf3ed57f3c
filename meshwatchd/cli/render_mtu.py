"""How the measured sizes are shown: what is wrong first, then the table."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.adapters.control.interface import MtuReply
from meshwatchd.cli.text import Cell, Paint, columns
from meshwatchd.model.ids import NO_PATH, Layer
from meshwatchd.model.mtu import SizeStatus

_ROLES = {"ok": "ok", "black-hole": "critical", "searching": "dim", "unknown": "dim"}
CALM = ("ok", "searching", "unknown")
"""States that ask nothing of anybody."""


def render_sizes(reply: MtuReply, *, paint: Paint) -> str:
    """The sizes of one node's paths, whole IP packets in bytes."""
    if not reply.sizes:
        return f"{reply.node} measures no sizes (mtu.enabled, or no mesh yet)\n"
    header = ("LAYER", "TO", "PATH", "DIRECTION", "EXPECTED", "MEASURED", "STATE", "")
    rows = [_row(line, dict(reply.paths)) for line in reply.sizes]
    return "\n".join([*_summary(reply, paint), "", *columns(header, rows, paint)]) + "\n"


def worst_state(reply: MtuReply) -> str:
    """The page's first word, and its exit status.

    "critical" where large packets are lost, "warning" where something is to be done, "unknown" where nothing is
    measured yet, else "ok".
    """
    states = {line.state for line in reply.sizes}
    if "black-hole" in states:
        return "critical"
    if states - set(CALM):
        return "warning"
    return "ok" if "ok" in states else "unknown"


def _summary(reply: MtuReply, paint: Paint) -> Iterator[str]:
    state = worst_state(reply)
    if state == "unknown":
        yield f"{paint('UNKNOWN', 'warning')}  no size is measured yet; try again in a minute"
    elif state == "ok":
        unmeasured = sum(line.state != "ok" for line in reply.sizes)
        rest = f"; {unmeasured} of {len(reply.sizes)} are not measured yet" if unmeasured else ""
        yield f"{paint('OK', 'ok')}  every path of {reply.node} carries what its devices promise{rest}"
    lost = [line for line in reply.sizes if line.state == "black-hole"]
    other = [line for line in reply.sizes if line.state not in ("black-hole", *CALM)]
    for role, lines in (("critical", lost), ("warning", other)):
        for advice in dict.fromkeys(_advice(line) for line in lines):
            peers = ", ".join(dict.fromkeys(line.peer for line in lines if _advice(line) == advice))
            yield f"{paint(role.upper(), role)}  {advice} (towards {peers})"


def _advice(line: SizeStatus) -> str:
    return line.advice or f"the {Layer(line.layer).name.lower()} layer is {line.state}"


def _row(line: SizeStatus, paths: dict[str, str]) -> list[Cell]:
    return [
        (Layer(line.layer).name.lower(), ""),
        (line.peer, ""),
        ("-" if line.path == NO_PATH else paths.get(str(line.path), str(line.path)), ""),
        (line.direction, ""),
        (str(line.expected_bytes) if line.expected_bytes else "-", ""),
        (str(line.measured_bytes) if line.measured_bytes else "-", ""),
        (line.state, _ROLES.get(line.state, "warning")),
        ("" if line.state == "ok" else line.advice, "dim"),
    ]
