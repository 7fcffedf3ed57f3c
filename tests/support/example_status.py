"""Statuses and events of the two-location mesh, as a daemon on b3 would report them."""

from __future__ import annotations

from typing import Any

import msgspec

from meshwatchd.model.faults import CATALOGUE, Direction, FaultCode, Severity, Verdict
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.status import FindingStatus, PairStatus, PathStatus, SessionStatus, Status, TunnelStatus

NOW_NS = 1_000_000_000_000
"""The instant at which everything is looked at; the engine has reported 0.4 s before."""

REPORTED_NS = NOW_NS - 400_000_000

RELAYS = (("b1", "a1"), ("b2", "a1"), ("b1", "a2"), ("b2", "a2"))


def verdict(fault: FaultCode, *, culprit: str = "", because: tuple[str, ...] = ()) -> Verdict:
    """A verdict with the catalogue's layer and severity."""
    entry = CATALOGUE[fault]
    return Verdict(
        fault=fault,
        layer=entry.layer,
        severity=entry.severity,
        pair=0,
        culprit=culprit,
        direction=Direction.BOTH if culprit else Direction.UNKNOWN,
        because=because,
    )


def finding(
    fault: FaultCode, *, device: str, subject: str, peer: str, culprit: str, severity: Severity | None = None
) -> FindingStatus:
    """A finding with the catalogue's layer and severity, or with another one, about which nothing is done."""
    entry = CATALOGUE[fault]
    return FindingStatus(
        fault=fault,
        layer=entry.layer,
        severity=severity or entry.severity,
        device=device,
        subject=subject,
        peer=peer,
        culprit=culprit,
        since_ns=0,
        because=(),
        repair="none",
        commands=(),
    )


def path(rank: int, state: str, *, active: int, following: int | None = None) -> PathStatus:
    """A path between cloud and onprem."""
    one, other = RELAYS[rank]
    return PathStatus(
        number=rank,
        rank=rank,
        relays=(NodeName(one), NodeName(other)),
        state=state,
        is_active=rank == active,
        is_local_relay=False,
        is_next=rank == following,
    )


def session(  # noqa: PLR0917 - the columns of the table it stands for
    layer: Layer, peer: str, number: int, flow: FlowClass, state: str, lost: int
) -> SessionStatus:
    """A session that has sent a thousand probes."""
    return SessionStatus(
        peer=NodeName(peer),
        layer=layer,
        path=number,
        flow=flow,
        address="10.2.0.11" if layer is Layer.UNDERLAY else "10.244.4.0" if peer == "b1" else "192.168.100.13",
        state=state,
        rtt_ns=0 if state == "init" else 1_840_000,
        sent=0 if state == "init" else 1000,
        lost=lost,
        last_heard_ns=0 if state == "init" else REPORTED_NS - (2_300_000_000 if state == "down" else 40_000_000),
    )


SESSIONS = (
    session(Layer.UNDERLAY, "b1", 0xFFFF, FlowClass.FRESH, "up", 0),
    session(Layer.OVERLAY, "b1", 0xFFFF, FlowClass.FRESH, "down", 52),
    session(Layer.OVERLAY, "b1", 0xFFFF, FlowClass.PINNED, "up", 0),
    session(Layer.RELAY, "a3", 0, FlowClass.FRESH, "down", 48),
    session(Layer.RELAY, "a3", 0, FlowClass.PINNED, "up", 0),
    session(Layer.RELAY, "a3", 1, FlowClass.FRESH, "up", 1),
    session(Layer.RELAY, "a3", 3, FlowClass.FRESH, "init", 0),
)


def status(
    found: Verdict,
    *,
    states: str = "good good good good",
    active: int = 0,
    redundancy: str = "full",
    following: int | None = None,
) -> Status:
    """A status with one pair of locations; `states` are those of the paths by rank, the first good standby is next."""
    good = (rank for rank, state in enumerate(states.split()) if rank and state == "good" and rank != active)
    following = next(good, None) if following is None else following
    pair = PairStatus(
        pair=0,
        location="cloud",
        remote_location="onprem",
        active_rank=active,
        generation=active,
        verdict=found,
        redundancy=redundancy,
        paths=tuple(path(rank, state, active=active, following=following) for rank, state in enumerate(states.split())),
    )
    return Status(
        at_ns=REPORTED_NS,
        node=NodeName("b3"),
        location="cloud",
        role="member",
        mode="enforce",
        is_ready=True,
        severity=found.severity,
        pairs=(pair,),
        sessions=SESSIONS,
        counters={"probes_sent": 123_456, "rejected_replay": 3},
    )


BECAUSE = (
    "14 of the last 14 new flows to b1 over the overlay died, 0 of 12 on established flows",
    "b1 answers on its underlay (0 of 20 lost)",
    "b2 says the same",
)

HEALTHY = status(verdict(FaultCode.NONE))
BROKEN = verdict(FaultCode.OVERLAY_NEW_FLOWS, culprit="b1", because=BECAUSE)
BRIDGED = msgspec.structs.replace(BROKEN, severity=Severity.WARNING)
"""What is left of a fault once the traffic goes around it."""

MOVED = status(
    BRIDGED,
    states="down good down good",
    active=1,
    redundancy="reduced",
)
STUCK = status(
    verdict(FaultCode.ALL_PATHS_DOWN, because=("path b1-a1 is down", "no standby path is good")),
    states="down down down unknown",
    redundancy="none",
)
TOLD = status(
    msgspec.structs.replace(
        verdict(
            FaultCode.NEIGHBOUR_WRONG,
            culprit="b1",
            because=(
                "b1 reports neighbour-wrong at b1",
                "the probes of this node alone say wireguard-blocked",
                "nothing relayed between b1 and a1 arrives",
            ),
        ),
        severity=Severity.WARNING,
        told_by="b1",
    ),
    states="down good down good",
    active=1,
    redundancy="reduced",
)
"""The word of the node whose kernel shows the fault."""
REDUCED = status(verdict(FaultCode.STANDBY_DOWN), states="good down good good", redundancy="reduced")
TUNNELLED = msgspec.structs.replace(
    HEALTHY,
    tunnels=(
        TunnelStatus(
            device="kilo0",
            peer="L6Yk4ScDtGWXVvhNWZJBnDDf/tkZbWWcJmQkbQV1qzQ=",
            endpoint="203.0.113.11:51820",
            handshake_age_ns=95_000_000_000,
            rx_bytes=92,
            tx_bytes=148,
        ),
        TunnelStatus(
            device="mw0",
            peer="hEJ9fHgCUqWsHyyUAk9vH3ElcQhDNYbzcYjJlJxKPwU=",
            endpoint="",
            handshake_age_ns=None,
            rx_bytes=0,
            tx_bytes=0,
        ),
    ),
)


def event(name: str, ago_ms: int, **fields: object) -> dict[str, Any]:
    """An event so many milliseconds ago, as the daemon keeps it."""
    return {
        "seq": 1,
        "at_ns": NOW_NS - ago_ms * 1_000_000,
        "time": "2026-03-01T03:12:07.123Z",
        "node": "b3",
        "event": name,
        "fact": "Fact",
        "level": "warning" if name == "verdict.changed" else "info",
        "location": "onprem",
        "pair": 0,
        **fields,
    }


INCIDENT = (
    event("verdict.changed", 90_000, fault="none", severity="ok", culprit="", previous="undetermined"),
    event("session.suspected", 2_390, peer="a3", layer="relay", path=0, log_likelihood=2.31),
    event("verdict.changed", 2_340, fault="undetermined", severity="critical", culprit="", previous="none"),
    event(
        "verdict.changed", 2_310, fault="overlay-new-flows", severity="critical", culprit="b1", previous="undetermined"
    ),
    event(
        "failover.applied",
        2_300,
        from_rank=0,
        to_rank=1,
        generation=1,
        relays=["b2", "a1"],
        operations=["ip rule add pref 5460 from all lookup 7701 protocol 117"],
        because=list(BECAUSE),
    ),
    event("failover.verified", 2_100, rank=1, received=8, sent=8),
)
