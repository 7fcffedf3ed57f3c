"""How the measured sizes are shown: what is wrong first, then the table."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.adapters.control.interface import MtuReply
from meshwatchd.cli.text import Cell, Paint, columns
from meshwatchd.model.ids import Layer
from meshwatchd.model.mtu import SizeStatus

_ROLES = {"ok": "ok", "black-hole": "critical", "searching": "dim", "unknown": "dim"}
_NO_PATH = 0xFFFF


def render_sizes(reply: MtuReply, *, paint: Paint) -> str:
    """The sizes of one node's paths, whole IP packets in bytes."""
    if not reply.sizes:
        return f"{reply.node} measures no sizes (mtu.enabled, or no mesh yet)\n"
    header = ("LAYER", "TO", "PATH", "DIRECTION", "EXPECTED", "MEASURED", "STATE", "")
    rows = [_row(line, dict(reply.paths)) for line in reply.sizes]
    return "\n".join([*_summary(reply, paint), "", *columns(header, rows, paint)]) + "\n"


def _summary(reply: MtuReply, paint: Paint) -> Iterator[str]:
    lost = [line for line in reply.sizes if line.state == "black-hole"]
    other = [line for line in reply.sizes if line.advice and line not in lost]
    if not lost and not other:
        yield f"{paint('OK', 'ok')}  every path of {reply.node} carries what its devices promise"
    for role, lines in (("critical", lost), ("warning", other)):
        for advice in dict.fromkeys(line.advice for line in lines if line.advice):
            peers = ", ".join(dict.fromkeys(line.peer for line in lines if line.advice == advice))
            yield f"{paint(role.upper(), role)}  {advice} (towards {peers})"


def _row(line: SizeStatus, paths: dict[str, str]) -> list[Cell]:
    return [
        (Layer(line.layer).name.lower(), ""),
        (line.peer, ""),
        ("-" if line.path == _NO_PATH else paths.get(str(line.path), str(line.path)), ""),
        (line.direction, ""),
        (str(line.expected_bytes) if line.expected_bytes else "-", ""),
        (str(line.measured_bytes) if line.measured_bytes else "-", ""),
        (line.state, _ROLES.get(line.state, "warning")),
        ("" if line.state == "ok" else line.advice, "dim"),
    ]
