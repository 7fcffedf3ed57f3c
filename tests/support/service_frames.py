"""Plans of sessions that ask for a service by its own protocol, and the frames that carry such a question."""

from __future__ import annotations

from typing import Any

from meshwatchd.model.canary import Canary, CanaryKind
from meshwatchd.model.frames import AnswerFrame, AskFrame
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.service_check import ServiceSeen

HOST = "127.0.0.1"


def service_plan(
    port: int, session: int = 7, *, name: str = "gate", kind: CanaryKind = CanaryKind.TLS, **fields: Any
) -> SessionPlan:
    """A question to a port of loopback, a handshake of TLS if nothing else is said; `fields` are the canary's."""
    canary = Canary(name=name, address=HOST, port=port, node=NodeName("a3"), kind=kind, **fields)
    return SessionPlan(
        session=SessionId(session),
        peer=canary.node,
        layer=Layer.POD,
        path=0xFFFF,
        flow=FlowClass.FRESH,
        source="",
        destination=HOST,
        port=port,
        canary=canary,
    )


ASKED = AskFrame(number=1, at_ns=2, plan=service_plan(15443), seq=5, source_port=0)
ANSWERED = AnswerFrame(number=1, event=ServiceSeen(session=SessionId(7), seq=5))
