"""The records of the traffic source: what one line of its output says.

One JSON object a line, told apart by `record`. All instants are CLOCK_MONOTONIC nanoseconds, which
every network namespace of one machine shares, so that a flow of pod a3, a fault at node b1 and a
fact of a daemon can be put on one time line.

Standard library only: the source runs inside a pod and must not depend on what it judges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self


class FlowKind(StrEnum):
    """What a new flow is made of."""

    UDP = "udp"  # one datagram and its echo, from a source port of its own
    TCP = "tcp"  # connect, request, response, close


class Outcome(StrEnum):
    """How a new flow ended."""

    OK = "ok"  # answered in full within the deadline
    LOST = "lost"  # nothing heard when the deadline came
    REFUSED = "refused"  # the network or the peer said no


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One new flow.

    Attributes:
        start_ns: just before the first packet was handed to the kernel.
        rtt_ns: from start to the last byte of the answer; None unless the outcome is OK.
        connect_ns: TCP only, from start to the end of the handshake; None when it did not end.
        retransmits: TCP only, segments sent again (tcp_info.tcpi_total_retrans).
        reason: errno name when REFUSED.
    """

    RECORD: ClassVar[str] = "flow"

    kind: FlowKind
    start_ns: int
    outcome: Outcome
    source_port: int
    rtt_ns: int | None = None
    connect_ns: int | None = None
    retransmits: int = 0
    reason: str = ""

    @classmethod
    def decode(cls, fields: dict[str, object]) -> Self:
        """Build a flow from the decoded JSON object; `kind` and `outcome` become members."""
        enums = {"kind": FlowKind(str(fields["kind"])), "outcome": Outcome(str(fields["outcome"]))}
        return cls(**{**fields, **enums})  # type: ignore[arg-type]

    @property
    def is_ok(self) -> bool:
        """The flow was answered within its deadline."""
        return self.outcome is Outcome.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """One numbered message of the long-lived connection that came back."""

    RECORD: ClassVar[str] = "echo"

    sequence: int
    sent_ns: int
    rtt_ns: int

    @property
    def arrival_ns(self) -> int:
        """When the echo was read."""
        return self.sent_ns + self.rtt_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """The long-lived connection came up, was lost, or was closed by us at the end.

    Attributes:
        event: `connected`, `reset`, `disordered` or `finished`.
        sent: messages handed to the kernel so far.
    """

    RECORD: ClassVar[str] = "stream"

    event: str
    at_ns: int
    sent: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Punctuality:
    """How late the source itself was, so that a stalled machine is not mistaken for an outage.

    Attributes:
        started: new flows started in this window of about one second.
        skipped: flows given up because the source was more than a second behind.
        cpu_ns: processor time of the source in this window.
        window_ns: length of the window.
    """

    RECORD: ClassVar[str] = "punctuality"

    at_ns: int
    window_ns: int
    started: int
    skipped: int
    lateness_p50_ns: int
    lateness_p99_ns: int
    lateness_max_ns: int
    cpu_ns: int


Record = Flow | Echo | StreamEvent | Punctuality


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Everything one source wrote, each kind in the order of time."""

    flows: tuple[Flow, ...] = ()
    echoes: tuple[Echo, ...] = ()
    stream: tuple[StreamEvent, ...] = ()
    punctuality: tuple[Punctuality, ...] = ()


def render(record: Record) -> str:
    """One line of output, without its newline; fields that say nothing are left out."""
    fields = {name: getattr(record, name) for name in record.__slots__}
    return json.dumps(
        {
            "record": record.RECORD,
            **{name: value for name, value in fields.items() if value not in (None, "")},
        },
        separators=(",", ":"),
    )


def parse(lines: Iterable[str]) -> Records:
    """Read back what the source wrote.

    Flows are written when they end and sorted here by when they started. A last line without its
    newline is one that is still being written, and is left for the next reading.

    Raises:
        ValueError: a complete line is not a record of this module.
    """
    flows: list[Flow] = []
    echoes: list[Echo] = []
    stream: list[StreamEvent] = []
    punctuality: list[Punctuality] = []
    for line in lines:
        if not line.endswith("\n"):
            break
        fields = json.loads(line)
        match fields.pop("record", None):
            case Flow.RECORD:
                flows.append(Flow.decode(fields))
            case Echo.RECORD:
                echoes.append(Echo(**fields))
            case StreamEvent.RECORD:
                stream.append(StreamEvent(**fields))
            case Punctuality.RECORD:
                punctuality.append(Punctuality(**fields))
            case unknown:
                raise ValueError(f"not a traffic record: {unknown!r}")
    flows.sort(key=lambda flow: flow.start_ns)
    return Records(flows=tuple(flows), echoes=tuple(echoes), stream=tuple(stream), punctuality=tuple(punctuality))
