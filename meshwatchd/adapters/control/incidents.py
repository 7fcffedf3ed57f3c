"""What can be asked about incidents: parameters and reply."""

from __future__ import annotations

import msgspec


class IncidentsParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Incidents; `number`: one incident alone, with its events."""

    number: int | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, in a sentence; `time` in UTC as in events."""

    time: str
    text: str


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """One incident, as one node saw it.

    Attributes:
        observer: the node whose history this is.
        location: the remote one; empty for an object of this node's kernel.
        fault, layer, culprit, direction, because: of the gravest verdict that named a layer.
        severity: the gravest there was.
        began, ended: UTC as in events; `ended` is empty while it goes on, and where the node stopped first.
        is_over: false while it goes on.
        duration_ns: to the end, or to the last that is known.
        outage_ns: for how long traffic was lost, by this node's probes; None where no traffic was.
        steps: what was found and done.
        events: of the incident, and of the sessions shortly before; only where it was asked for alone.
    """

    number: int
    observer: str
    location: str
    fault: str
    severity: str
    layer: str
    culprit: str
    direction: str
    began: str
    ended: str
    is_over: bool
    duration_ns: int
    outage_ns: int | None
    because: tuple[str, ...]
    steps: tuple[Step, ...]
    events: tuple[dict[str, object], ...] = ()


class IncidentsReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Incidents, the oldest first."""

    node: str
    incidents: tuple[Incident, ...]
