"""What can be asked of the daemon: each method with what it takes and gives (description.py tells clients)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from meshwatchd.adapters.control.bisection import BisectParameters, BisectReply
from meshwatchd.adapters.control.explain import Explanation
from meshwatchd.adapters.control.forgetting import ForgetParameters, ForgetReply
from meshwatchd.adapters.control.incidents import IncidentsParameters, IncidentsReply
from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.adapters.control.operator_requests import (
    FailbackParameters,
    FailoverParameters,
    OperateReply,
    OrderParameters,
)
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.control.topology import TopologyReply
from meshwatchd.adapters.control.varlink import Number
from meshwatchd.model.mtu import SizeStatus
from meshwatchd.model.node_status import ReportedFault
from meshwatchd.model.status import FindingStatus

SERVICE = "org.varlink.service"
CONTROL = "io.meshwatch.Control"
NOT_READY = f"{CONTROL}.NotReady"
NOT_ANSWERED = f"{CONTROL}.NotAnswered"
TOO_MANY_CLIENTS = f"{CONTROL}.TooManyClients"


class DescriptionParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of org.varlink.service.GetInterfaceDescription."""

    interface: str


class NoParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of methods that take none."""


class EventsParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Events.

    Attributes:
        since_ns: CLOCK_MONOTONIC instant of the earliest wanted.
        follow: keep telling; needs `more`.
    """

    since_ns: Number | None = None
    follow: bool | None = None


class MtuParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Mtu; without node all of them."""

    node: str | None = None


class MtuReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Mtu.

    Attributes:
        paths: "relay-relay" by the decimal path number.
    """

    node: str
    at_ns: int
    paths: dict[str, str]
    sizes: tuple[SizeStatus, ...]


class ExplainReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Explain."""

    node: str
    mode: str
    at_ns: int
    explanations: tuple[Explanation, ...]
    findings: tuple[FindingStatus, ...] = ()
    reported: tuple[ReportedFault, ...] = ()


class EventsReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Events."""

    events: tuple[dict[str, object], ...]


class Method(NamedTuple):
    """What a method is for, takes and gives."""

    about: str
    takes: type[msgspec.Struct]
    gives: type[msgspec.Struct]


_ROOT = "Root only, but for `dry_run`, which tells the operations and changes nothing."
_HOLD = "Root and, with a name and for a day at most, operators; `dry_run` is for all and changes nothing."

METHODS = {
    "Status": Method("The engine's picture, and what the other nodes report.", NoParameters, StatusReply),
    "Mtu": Method(
        "What size each layer of each path carries, towards one node or all; `paths`: relays by path number.",
        MtuParameters,
        MtuReply,
    ),
    "Explain": Method("Each verdict in sentences.", NoParameters, ExplainReply),
    "Events": Method(
        "Events as flat objects; with `more`, in several replies. `follow` keeps telling and needs `more`.",
        EventsParameters,
        EventsReply,
    ),
    "Topology": Method(
        "Which mesh this node is in, what it is there, and why; no pairs before the engine has reported.",
        NoParameters,
        TopologyReply,
    ),
    "Failover": Method(
        "Move the traffic to a location to a standby path: the best one, or the one of that rank. With\n"
        f"`confirm_within_ns` it is undone unless Confirm comes in time. {_ROOT}",
        FailoverParameters,
        OperateReply,
    ),
    "Failback": Method(
        f"Move the traffic to a location back to the primary path. {_ROOT}", FailbackParameters, OperateReply
    ),
    "Confirm": Method(f"Keep what Failover has done. {_ROOT}", OrderParameters, OperateReply),
    "Pause": Method(
        f"Move nothing to a location, or nothing at all, but what operators ask for. {_ROOT}",
        OrderParameters,
        OperateReply,
    ),
    "Resume": Method(f"End pauses: of a location, of a name, or all. {_ROOT}", OrderParameters, OperateReply),
    "Drain": Method(
        f"Take this node out of service: traffic moves off it first, and its silence is no fault. {_HOLD}",
        OrderParameters,
        OperateReply,
    ),
    "Undrain": Method(f"Put this node into service again. {_HOLD}", OrderParameters, OperateReply),
    "Pin": Method(
        f"Move traffic to a standby path and make it the one to come back to. {_HOLD}", OrderParameters, OperateReply
    ),
    "Unpin": Method(f"End pins: of a location, of a name, or all. {_HOLD}", OrderParameters, OperateReply),
    "Forget": Method(
        "Accept whatever identity a node of this name has next. It concerns this daemon alone. Root only.",
        ForgetParameters,
        ForgetReply,
    ),
    "Nodes": Method("Every node of the mesh that is known here.", NoParameters, NodesReply),
    "Bisect": Method(
        "Find out where packets to a node die: taps and some forty crafted packets, for a second or two. Root only.",
        BisectParameters,
        BisectReply,
    ),
    "Incidents": Method(
        "What went wrong so far, the oldest first; with a number that incident alone and its events.",
        IncidentsParameters,
        IncidentsReply,
    ),
}
"""Of io.meshwatch.Control, by name."""
