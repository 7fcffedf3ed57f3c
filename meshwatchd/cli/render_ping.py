"""Legs as they are watched, in 80 columns: what was sent and lost since the watching began."""

from __future__ import annotations

from collections.abc import Sequence

from meshwatchd.cli.legs import Leg, is_lost
from meshwatchd.cli.text import Cell, Paint, columns, render_flow, render_rtt

_ADDRESS_CHARACTERS = 15
"""Of an IPv6 address that is the last part, which tells addresses of one mesh apart."""


def render_ping(target: str, legs: Sequence[Leg], *, seconds: float, paint: Paint) -> str:
    """The table under one line; a leg that was not asked yet has dashes."""
    if not legs:
        return f"{paint('UNKNOWN', 'critical')}  {target}: nobody asks for it over what was chosen\n"
    lost = [leg for leg in legs if is_lost(leg)]
    word = paint("LOSS", "critical") if lost else paint("OK", "ok")
    summary = f"{word}  {target}: {len(legs) - len(lost)} of {len(legs)} legs without loss in {seconds:.0f} s"
    header = ("LAYER", "ADDRESS", "OVER", "FLOW", "STATE", "SENT", "LOSS", "RTT")
    return "\n".join([summary, "", *columns(header, [_row(leg) for leg in legs], paint)]) + "\n"


def _row(leg: Leg) -> list[Cell]:
    loss = f"{100 * leg.lost / leg.sent:.1f} %" if leg.sent else "-"
    return [
        (leg.layer, ""),
        (leg.address[-_ADDRESS_CHARACTERS:], ""),
        (leg.over or "-", ""),
        (render_flow(leg.flow), ""),
        (leg.state, leg.state),
        (str(leg.sent) if leg.sent else "-", ""),
        (loss, "critical" if is_lost(leg) else ""),
        (render_rtt(leg.rtt_ns), ""),
    ]
