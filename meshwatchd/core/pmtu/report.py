"""The table of `meshwatchctl mtu`: one line for each layer, path, peer and direction that differs."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.pmtu.pmtu import SizeWatch
from meshwatchd.core.pmtu.session import SizeSession
from meshwatchd.core.pmtu.verdict import advice, direction_of, is_poisoned, is_told
from meshwatchd.model.faults import Direction
from meshwatchd.model.ids import Layer
from meshwatchd.model.mtu import SizeState, SizeStatus
from meshwatchd.model.topology import Topology

FRAGMENTS = "fragments"
"""Stands where the direction is, in lines about packets in two fragments."""


def build_sizes(watch: SizeWatch, topology: Topology | None, now: int) -> tuple[SizeStatus, ...]:
    """Every line, the lowest layer first; without a topology there is none.

    Sessions that follow real traffic are left out: they repeat the path in use.
    """
    if topology is None:
        return ()
    sessions = sorted(
        (session for session in watch.sessions if session.plan.layer is not Layer.EFFECTIVE),
        key=lambda session: (session.plan.layer, session.plan.path, session.plan.peer, session.plan.may_fragment),
    )
    return tuple(line for session in sessions for line in _lines(session, watch, topology, now))


def _lines(session: SizeSession, watch: SizeWatch, topology: Topology, now: int) -> Iterator[SizeStatus]:
    if session.plan.may_fragment:
        yield _line(session, FRAGMENTS, session.both_bytes, (_fragment_state(session), ""))
    elif session.is_blocked and session.is_measured:
        yield from _directions(session, topology, now)
    else:
        yield _line(session, Direction.BOTH, _measured(session), _state(session, watch))


def _directions(session: SizeSession, topology: Topology, now: int) -> Iterator[SizeStatus]:
    """A path with a black hole, each way for itself; a way that is not known to be limited is taken to be fine."""
    direction = direction_of(session, now)
    is_limited = {
        Direction.OUTBOUND: direction in (Direction.OUTBOUND, Direction.BOTH),
        Direction.INBOUND: direction in (Direction.INBOUND, Direction.BOTH),
    }
    sizes = {Direction.OUTBOUND: session.outbound_bytes, Direction.INBOUND: session.both_bytes}
    word = "fragments-dropped" if session.both_bytes >= session.expected_bytes else "black-hole"
    word = "misconfigured" if is_told(session) else word
    for way, is_lost in is_limited.items():
        size = sizes[way] if is_lost else session.goal_bytes
        hint = advice(session.plan.layer, session, topology)
        yield _line(session, way, size, (word, hint) if is_lost else ("ok", ""))


def _state(session: SizeSession, watch: SizeWatch) -> tuple[str, str]:
    """The word for a session and what to do about it."""
    misfit = next((each for each in watch.stack.misfits if each.layer is session.plan.layer), None)
    if not session.expected_bytes:
        return "unknown", ""
    if session.is_blocked or session.is_searching:
        return "searching", ""
    if session.state is SizeState.ERROR or session.state is SizeState.BASE:
        return "unreachable", ""
    if misfit is not None:
        return "misconfigured", f"configure MTU {misfit.carries_bytes} on {misfit.device}"
    if is_poisoned(session, watch):
        return "poisoned", f"the kernel believes {session.learned_mtu_bytes}: ip route flush cache"
    return ("ok", "") if session.both_bytes >= session.expected_bytes else ("searching", "")


def _fragment_state(session: SizeSession) -> str:
    if session.is_blocked:
        return "fragments-dropped"
    return "ok" if session.is_measured and session.both_bytes >= session.goal_bytes else "unknown"


def _measured(session: SizeSession) -> int:
    return 0 if session.is_searching or session.is_blocked else session.both_bytes


def _line(session: SizeSession, direction: str, measured_bytes: int, state: tuple[str, str]) -> SizeStatus:
    return SizeStatus(
        layer=session.plan.layer,
        peer=session.plan.peer,
        path=session.plan.path,
        direction=str(direction),
        expected_bytes=session.expected_bytes,
        measured_bytes=measured_bytes,
        state=state[0],
        advice=state[1],
    )
