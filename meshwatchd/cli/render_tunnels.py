"""The peers of a node's WireGuard devices as text."""

from __future__ import annotations

from meshwatchd.cli.text import Cell, Paint, columns, render_age
from meshwatchd.model.status import Status, TunnelStatus

KEY_CHARACTERS = 8
"""Of a public key: enough to tell peers apart."""


def render_tunnels(status: Status, paint: Paint) -> list[str]:
    """A table, one line for each peer."""
    unused = _unused_devices(status)
    rows: list[list[Cell]] = [
        [
            (tunnel.device, ""),
            (f"{tunnel.peer[:KEY_CHARACTERS]}...", ""),
            (tunnel.endpoint or "-", ""),
            ("not used here", "dim") if tunnel.device in unused else (_render_handshake(tunnel), ""),
        ]
        for tunnel in status.tunnels
    ]
    return columns(("DEVICE", "PEER", "ENDPOINT", "HANDSHAKE"), rows, paint)


def _render_handshake(tunnel: TunnelStatus) -> str:
    return "never" if tunnel.handshake_age_ns is None else render_age(tunnel.handshake_age_ns)


def _unused_devices(status: Status) -> set[str]:
    """The leaders' device on a node that does not lead; none where a device of its own has no handshake either."""
    devices = {tunnel.device for tunnel in status.tunnels}
    silent = devices - {tunnel.device for tunnel in status.tunnels if tunnel.handshake_age_ns is not None}
    relayed = sum(path.is_local_relay for pair in status.pairs for path in pair.paths)
    is_spare = status.role in ("member", "standby") and len(silent) == len(devices) - relayed
    return silent if is_spare else set()
