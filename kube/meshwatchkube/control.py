"""The daemon on this node, over its control socket: one more client, as meshwatchctl is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.adapters.control.operator_requests import OperateReply, OrderParameters
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.control.varlink import REPLIES
from meshwatchd.cli.client import Client
from meshwatchd.model.decoding import decode_json
from meshwatchd.model.errors import ControlError, DecodeError
from meshwatchd.model.units import HOUR, MINUTE
from meshwatchkube.actions import Drain, Pin, Steered, Unpin
from meshwatchkube.mesh import ORDER_NAME, Mesh, see
from meshwatchkube.pace import Say

_INTERFACE: Final = "io.meshwatch.Control"
_TIMEOUT_S: Final = 5.0
PINNED_NS: Final = 10 * MINUTE
"""A pin ends by itself if nobody is left to end it; a change of leaders takes a minute or two."""
DRAINED_NS: Final = 24 * HOUR
"""As long as an order that is not root's may stand."""


class Control:
    """Asks one daemon.

    Args:
        socket: its path.
        say: writes a line.
    """

    def __init__(self, socket: Path, say: Say) -> None:
        self._client = Client(socket, timeout_s=_TIMEOUT_S)
        self._say = say
        self._complaints: dict[str, str] = {}

    def look(self) -> Mesh | None:
        """What the daemon sees; None where it does not answer, or has not seen anything yet."""
        try:
            status = decode_json(self._client.call(f"{_INTERFACE}.Status"), StatusReply, REPLIES).status
            nodes = decode_json(self._client.call(f"{_INTERFACE}.Nodes"), NodesReply, REPLIES).nodes
        except (ControlError, DecodeError) as error:
            self._complain("daemon", str(error))
            return None
        self._complain("daemon", "")
        return see(status, nodes)

    def steer(self, action: Steered) -> None:
        """Ask for a hold, or for its end. A refusal is reported once; the next look decides again."""
        match action:
            case Pin():
                verb, parameters = (
                    "Pin",
                    OrderParameters(
                        location=action.remote,
                        rank=action.rank,
                        name=ORDER_NAME,
                        reason=action.reason,
                        duration_ns=PINNED_NS,
                    ),
                )
            case Unpin():
                verb, parameters = "Unpin", OrderParameters(location=action.remote, name=ORDER_NAME)
            case Drain(is_drained=True):
                verb, parameters = (
                    "Drain",
                    OrderParameters(name=ORDER_NAME, reason="the node is unschedulable", duration_ns=DRAINED_NS),
                )
            case Drain():
                verb, parameters = "Undrain", OrderParameters(name=ORDER_NAME)
        try:
            answer = decode_json(self._client.call(f"{_INTERFACE}.{verb}", parameters), OperateReply, REPLIES)
        except (ControlError, DecodeError) as error:
            self._complain(verb, str(error))
            return
        self._complain(verb, "" if answer.accepted else answer.text)
        if answer.accepted:
            self._say("hold.requested", level="info", verb=verb.lower(), text=answer.text)

    def _complain(self, what: str, why: str) -> None:
        """Say what is refused when that is news; nothing when it works."""
        if why and self._complaints.get(what) != why:
            self._say("daemon.refused", level="warning", what=what.lower(), why=why)
        self._complaints[what] = why
