"""What a node tells others: its findings, what only it can know, and its neighbours' words on themselves.

Who believes it is in `peer_faults`, and with it what is worth telling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from meshwatchd.core.audit.peer_faults import CUT_OFF_BY, EXPLAINS, OF_ONE_PEER, cuts_a_node_off
from meshwatchd.model.discovery import Hello, ToldFault
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.status import Status

MAX_TOLD, MAX_TOLD_BYTES = 4, 240
"""Faults, and their letters, in one hello, which has to stay below 1 200 bytes."""

_OF_SELF = frozenset(
    (
        *(FaultCode.MTU_MISCONFIGURED, FaultCode.VTEP_MAC_CHANGED),
        *(FaultCode.PROBE_PORT_BLOCKED, FaultCode.PROBES_ONLY),
    )
)
"""Verdicts of a node on itself that are no finding of its own."""

_OF_LEADERS = frozenset((FaultCode.ONE_WAY_BREAK, FaultCode.PROBES_ONLY))
"""Verdicts about the other end of a tunnel. Only a leader sees both directions of it, and what is behind it apart from
what is behind its own overlay."""


def confess(status: Status, hellos: Mapping[str, Hello]) -> tuple[ToldFault, ...]:
    """What a node tells: its findings, verdicts that only it can know, and its neighbours' words on themselves.

    Args:
        status: of this node.
        hellos: by name; this node's own may be among them.
    """
    every = dict.fromkeys((*_found(status, hellos), *_passed_on(status.node, hellos)))
    told: list[ToldFault] = []
    for each in every:
        letters = sum(len(other.fault) + len(other.culprit) for other in (*told, each))
        if len(told) < MAX_TOLD and letters <= MAX_TOLD_BYTES:
            told.append(each)
    return tuple(told)


def _found(status: Status, hellos: Mapping[str, Hello]) -> Iterator[ToldFault]:
    for finding in status.findings:
        if finding.fault not in EXPLAINS or not finding.culprit or finding.is_of_few:
            continue
        if finding.fault is FaultCode.ALLOWED_IPS_MISSING and finding.subject.endswith("/32"):
            # That node itself is silent for it, and no other.
            yield ToldFault(finding.fault, NodeName(finding.culprit), NodeName(finding.peer))
            continue
        if finding.fault not in OF_ONE_PEER or _is_own_leader(finding.peer, status.node, hellos):
            yield ToldFault(finding.fault, NodeName(finding.culprit))
        elif _is_own_leader(status.node, finding.peer, hellos):
            yield ToldFault(finding.fault, NodeName(finding.culprit), NodeName(finding.peer))
    for pair in status.pairs:
        fault, culprit = pair.verdict.fault, pair.verdict.culprit
        if pair.verdict.told_by or not culprit:
            continue
        is_seen_here = fault is FaultCode.OVERLAY_NEW_FLOWS or (fault in _OF_LEADERS and status.role == "leader")
        # A node that misses the pods of one node, or of all but a leader, sees more than one that misses all.
        is_seen_here = is_seen_here or (fault is FaultCode.POD_NETWORK_BROKEN and culprit != status.node)
        is_own = _is_own_overlay(status, culprit, hellos)
        is_seen_here = is_seen_here or (fault is FaultCode.OVERLAY_BLACK_HOLE and is_own)
        is_seen_here = is_seen_here or (fault is FaultCode.WIREGUARD_BLOCKED and not _has_members(hellos))
        if is_seen_here or (culprit == status.node and fault in _OF_SELF):
            yield ToldFault(fault, NodeName(culprit))


def _is_own_overlay(status: Status, culprit: str, hellos: Mapping[str, Hello]) -> bool:
    """Whether a member names itself. What is said of a leader's overlay, its members see as well; a cluster has nobody
    who leads others.
    """
    own = hellos.get(status.node)
    leads = status.role == "leader" and (own is None or own.view.passes_leaders)
    return culprit == status.node and not leads


def _has_members(hellos: Mapping[str, Hello]) -> bool:
    """Whether somebody is relayed for: what is said of the tunnel then is a matter of the two that it joins."""
    return not all(hello.view.is_leader for hello in hellos.values())


def _is_own_leader(peer: str, node: str, hellos: Mapping[str, Hello]) -> bool:
    own, other = hellos.get(node), hellos.get(peer)
    return own is not None and other is not None and bool(own.home) and other.home == own.home and other.view.is_leader


def _passed_on(node: str, hellos: Mapping[str, Hello]) -> Iterator[ToldFault]:
    """What neighbours say of themselves, and from leader to leader what makes that the only way for the word.

    A relay that takes nothing new may reach nobody but the leader at the other end of its tunnel, and one that its LAN
    hides nobody but a leader on that LAN. A MAC that others know is heard of by its owner from them: what he says of it
    must not come back to him.
    """
    own = hellos.get(node)
    home = own.home if own is not None else ""
    is_leader = own is not None and own.view.is_leader
    for name, hello in sorted(hellos.items()):
        of_itself = [told for told in hello.faults if told.culprit == name]
        if home and name != node and hello.home == home:
            yield from (told for told in of_itself if told.fault != FaultCode.VTEP_MAC_CHANGED)
        elif is_leader and hello.view.is_leader and name != node:
            # Where each node leads itself, who has lost its way to all others may reach one on its LAN alone.
            is_native = hello.view.is_native
            yield from (told for told in of_itself if is_native or told.fault in CUT_OFF_BY or cuts_a_node_off(told))
