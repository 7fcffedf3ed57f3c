"""A verdict told to a person on call: what, since when, why, what was done, what comes next.

Pure functions of the status and of the events around it, so that `meshwatchctl explain` and a program that asks over
the socket read the same sentences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from meshwatchd.adapters.control.naming import name_path, name_place, name_relays
from meshwatchd.core.operators.other_direction import tell_other_direction
from meshwatchd.model.faults import (
    BETWEEN_NODES,
    CATALOGUE,
    FOUND_BY_OTHERS,
    FOUND_IN_A_KERNEL,
    Direction,
    FaultCode,
    Severity,
)
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import Mode
from meshwatchd.model.status import UNWATCHED, PairStatus, PathStatus, Status

MAX_DEEDS = 12
"""The latest are told; the whole story is in `meshwatchctl events`."""

_TWO_WAY = BETWEEN_NODES - {FaultCode.ONE_WAY_BREAK}
"""Where nothing passes, which of the two was lost first says nothing."""

Event = Mapping[str, object]


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, in a sentence."""

    at_ns: int
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One pair of locations, explained.

    Attributes:
        place: the culprit, or the tunnel between it and another node, in words.
        since_ns: instant of the verdict; None when it is older than the events kept.
        done: what the daemon saw and did since shortly before the verdict.
        next: what it will do, or what it would do if the path broke.
    """

    location: str
    remote_location: str
    severity: Severity
    fault: str
    title: str
    layer: str
    culprit: str
    place: str = ""
    direction: str
    since_ns: int | None
    because: tuple[str, ...]
    remedy: str
    done: tuple[Deed, ...]
    next: tuple[str, ...]


def explain(status: Status, events: Sequence[Event], nodes: Sequence[NodeStatus] = ()) -> tuple[Explanation, ...]:
    """Explain every pair of locations of a node, from its status, its events in their order, and the nodes' reports."""
    return tuple(_explain_pair(status, pair, events, nodes) for pair in status.pairs)


def _explain_pair(
    status: Status, pair: PairStatus, events: Sequence[Event], nodes: Sequence[NodeStatus]
) -> Explanation:
    verdict, entry = pair.verdict, CATALOGUE[pair.verdict.fault]
    is_between = verdict.fault in BETWEEN_NODES
    own = [event for event in events if event.get("pair") == pair.pair]
    current = _find_verdict(own, pair)
    return Explanation(
        location=pair.location,
        remote_location=pair.remote_location,
        severity=verdict.severity,
        fault=verdict.fault.value,
        title=entry.title,
        layer=verdict.layer.name.lower(),
        culprit=verdict.culprit,
        place=name_place(pair) + (", at either end or between" if is_between and verdict.culprit else ""),
        direction=(Direction.UNKNOWN if verdict.fault in _TWO_WAY else verdict.direction).value,
        since_ns=None if current is None else _instant(own[current]),
        because=(*verdict.because, *filter(None, (tell_other_direction(status.node, pair, nodes),))),
        remedy=_remedy(status, pair),
        done=tuple(_tell_deeds(own, current, pair)),
        next=tuple(_foretell(status, pair)),
    )


def _remedy(status: Status, pair: PairStatus) -> str:
    """What to do; where this node rests on another's word, that of a kernel has the names that are left open here."""
    verdict = pair.verdict
    remedy = CATALOGUE[verdict.fault].remedy
    finder = verdict.told_by if verdict.fault in FOUND_BY_OTHERS else verdict.culprit
    if not verdict.told_by or verdict.fault not in FOUND_IN_A_KERNEL or finder in ("", status.node):
        return remedy
    return f"on {finder}: meshwatchctl explain, which has the names; {remedy}"


def _find_verdict(events: Sequence[Event], pair: PairStatus) -> int | None:
    """Index of the event that brought the present verdict: the first of the latest run of the same fault."""
    found = None
    for index in range(len(events) - 1, -1, -1):
        if events[index].get("event") != "verdict.changed":
            continue
        if events[index].get("fault") != pair.verdict.fault.value:
            break
        found = index
    return found


def _tell_deeds(events: Sequence[Event], current: int | None, pair: PairStatus) -> Iterator[Deed]:
    """What happened in this incident: from the fault that began it to the present."""
    start = _incident_start(events, current, pair)
    told = [
        Deed(at_ns=_instant(event), text=text)
        for event in events[start:]
        if (text := tell(event, pair.paths)) is not None
    ]
    yield from told[-MAX_DEEDS:]


def _incident_start(events: Sequence[Event], current: int | None, pair: PairStatus) -> int:
    """An incident lasts from the first fault after all was well until all is well on the mesh's own path."""
    if current is None:
        return 0 if pair.active_rank else len(events)
    if pair.verdict.severity is Severity.OK and pair.active_rank == 0 and pair.redundancy == "full":
        return current
    for index in range(current - 1, -1, -1):
        if events[index].get("event") == "failback.applied":
            return index
        if events[index].get("event") == "verdict.changed" and events[index].get("severity") == "ok":
            return index + 1
    return 0


def tell(event: Event, paths: Iterable[PathStatus] = ()) -> str | None:
    """An event in a sentence, or None when it is no news to a person; `paths` has names for ranks."""
    name, reason = event.get("event"), event.get("reason")
    relays = _relays_of(event, paths)
    match name:
        case "verdict.changed":
            at = f" at {event['culprit']}" if event.get("culprit") else ""
            return f"verdict {event.get('fault')}{at} (was {event.get('previous')})"
        case "failover.proposed":
            return f"asked the other relay to move to path {relays}: {reason}"
        case "proposal.answered":
            answer = "granted" if event.get("is_granted") else f"refused ({reason})"
            return f"{answer} the proposal of {event.get('peer')} to move to path {relays}"
        case "failover.applied":
            return f"moved traffic to path {relays}{_operations(event)}"
        case "failback.applied":
            return f"moved traffic back to the primary path {relays}{_operations(event)}"
        case "failover.verified" | "failover.doubted":
            return _proof(event, relays)
        case "failover.rolled_back":
            return f"rolled back from path {relays}: {reason}"
        case "failover.held":
            return f"left traffic where it is: {reason}"
        case "failover.advised":
            return f"would have moved traffic to path {relays}{_operations(event)}"
        case "plan.refused":
            return f"a change was refused: {reason}"
        case "override.adopted":
            return f"found path {relays} in use at start and kept it"
        case _:
            return _tell_finding(event)


def _tell_finding(event: Event) -> str | None:
    """What a bisection or a look at the kernel found, what became of a repair, and how the own leg was gone around."""
    match event.get("event"):
        case "path.bisected":
            return _tell_bisection(event)
        case "fault.raised":
            return f"found {event.get('fault')} at {event.get('device') or 'this node'} {event.get('subject')}".rstrip()
        case "fault.cleared":
            return f"{event.get('fault')} is gone"
        case "repair.started" | "repair.verified" | "repair.undone" | "repair.held" | "repair.advised":
            return _tell_repair(event)
        case "detour.taken":
            return f"went around its own leg to the leader by {event.get('relay')}{_operations(event)}"
        case "detour.left":
            return f"went by its own leg to the leader again{_operations(event)}"
        case _:
            return None


def _tell_repair(event: Event) -> str:
    commands = event.get("commands")
    typed = "; ".join(map(str, commands)) if isinstance(commands, Sequence) and not isinstance(commands, str) else ""
    words = {"started": "repairs", "verified": "the repair holds", "undone": "took the repair back"}
    words |= {"held": "left the repair undone", "advised": "would repair"}
    said = words[str(event.get("event")).removeprefix("repair.")]
    return said + "".join(f": {each}" for each in (event.get("reason"), typed) if each)


def _proof(event: Event, relays: str) -> str:
    """What probes said of a move that stays."""
    part, left = (f"{event.get(f'{of}received')} of {event.get(f'{of}sent')}" for of in ("", "left_"))
    if event.get("event") == "failover.verified":
        return f"verified path {relays}: {part} probes arrived"
    return f"kept path {relays}, over which {part} probes arrived: {left} did over the path that was left"


def _tell_bisection(event: Event) -> str:
    """Where a bisection found packets to die, in a sentence."""
    return f"bisected the way to {event.get('peer')}: packets die at {_places(event)}; {_first_reason(event)}"


def _places(event: Event) -> str:
    """The place, and the others that the evidence allows."""
    candidates = event.get("candidates")
    others = [str(each) for each in candidates[1:]] if isinstance(candidates, Sequence) else []
    place = str(event.get("place"))
    return f"{place} (or {', '.join(others)})" if others else place


def _first_reason(event: Event) -> str:
    because = event.get("because")
    return str(because[0]) if isinstance(because, Sequence) and because else "no evidence was recorded"


def _operations(event: Event) -> str:
    operations = event.get("operations")
    if not isinstance(operations, Sequence) or isinstance(operations, str) or not operations:
        return " (nothing to change on this node)"
    return ": " + "; ".join(str(operation) for operation in operations)


def _relays_of(event: Event, paths: Iterable[PathStatus]) -> str:
    relays = event.get("relays")
    if isinstance(relays, Sequence) and not isinstance(relays, str):
        return name_relays(relays)
    rank = event.get("to_rank", event.get("rank"))
    path = next((path for path in paths if path.rank == rank), None)
    return name_path(path) if path is not None else f"of rank {rank}"


def _is_drained(path: PathStatus, drained: Collection[str]) -> bool:
    return any(relay in drained for relay in path.relays)


def _foretell(status: Status, pair: PairStatus) -> Iterator[str]:
    """What comes next, by the state the pair is in and by what operators have ordered."""
    drained = {*status.drained, *(status.node for order in status.orders if order.kind is OrderKind.DRAIN)}
    if pair.active_rank or _order(status, pair, OrderKind.PIN) is not None:
        yield _return(status, pair, drained)
    pause = _order(status, pair, OrderKind.PAUSE)
    if pause is not None:
        why = f" ({pause.reason})" if pause.reason else ""
        by = f" by {pause.name}" if pause.name else ""
        yield f"paused{by}{why}: automatic failover is suspended, whatever breaks"
    standby = next((path for path in pair.paths if path.is_next), None)
    if standby is None:
        yield _last_resort(pair)
        return
    if pause is None:
        yield _escape(status, pair, standby)
    yield _rehearsal(pair, standby)


def _last_resort(pair: PairStatus) -> str:
    """What is left where no standby is good. A leader does not watch the paths that go around it, but follows there."""
    others = [path for path in pair.paths if path.state == UNWATCHED and not path.is_active]
    if not others:
        return "no standby path is good: routes stay as they are whatever happens"
    names = " or ".join(name_path(path) for path in others)
    return f"this node sees no good standby path; it does not watch {names}, whose relays may still move traffic there"


def _return(status: Status, pair: PairStatus, drained: Collection[str]) -> str:
    """How traffic comes back to the mesh's own path, or why it does not."""
    confirm, pin = (_order(status, pair, kind) for kind in (OrderKind.CONFIRM, OrderKind.PIN))
    home = next((path for path in pair.paths if path.rank == 0), None)
    if confirm is not None:
        return f"traffic goes back to rank {confirm.rank} unless somebody runs `meshwatchctl confirm` in time"
    if pin is not None and pair.active_rank != pin.rank:
        return f"rank {pin.rank} is pinned: when that path has been good long enough, traffic moves there"
    if pin is not None:
        return f"rank {pin.rank} is pinned: traffic fails back after `meshwatchctl unpin`, or when the pin expires"
    active = next((path for path in pair.paths if path.is_active), None)
    if active is not None and not active.is_local_relay:
        relays = " and ".join(active.relays)
        return f"{relays} relay this path and decide when traffic moves back: see `meshwatchctl explain` there"
    if pair.is_chosen:
        return "an operator has moved traffic here: this node does not move it back by itself, `failback` does"
    if home is not None and _is_drained(home, drained):
        away = " and ".join(relay for relay in home.relays if relay in drained)
        return f"{away} is out of service: `meshwatchctl status` there says why, and until when traffic stays away"
    return (
        "when the primary path has been good long enough, traffic moves back "
        "(policy.wait_to_restore; not with policy.revertive = false)"
    )


def _escape(status: Status, pair: PairStatus, standby: PathStatus) -> str:
    """Where traffic would go, or goes, when the path in use breaks."""
    home = next((path.relays for path in pair.paths if path.rank == 0), ())
    # Between the same two relays there may be a standby link as well.
    path = name_path(standby) + (f" (rank {standby.rank})" if standby.rank and standby.relays == home else "")
    if not any(each.is_active and each.state == "down" for each in pair.paths):
        consent = "" if status.mode == Mode.ENFORCE.value else f"mode {status.mode} moves nothing; in mode enforce, "
        return f"{consent}if the path in use broke, traffic would move to path {path}"
    if status.mode == Mode.ENFORCE.value:
        return f"path {path} is good; traffic moves there as soon as both relays agree"
    return f"path {path} is good, but mode {status.mode} moves nothing: set daemon.mode to enforce"


def _rehearsal(pair: PairStatus, standby: PathStatus) -> str:
    """The command that shows a move; a node that does not relay the path has none to show."""
    verb, rank = ("failover", f" --rank {standby.rank}") if standby.rank else ("failback", "")
    command = f"`meshwatchctl {verb} {pair.remote_location}{rank} --dry-run`"
    if standby.is_local_relay:
        return f"{command} shows the operations on this node"
    return f"{command} on {' or '.join(standby.relays)} shows the operations there"


def _order(status: Status, pair: PairStatus, kind: OrderKind) -> Order | None:
    """A standing order about a pair."""
    return next((o for o in status.orders if o.kind is kind and o.location in {"", pair.remote_location}), None)


def _instant(event: Event) -> int:
    at_ns = event.get("at_ns")
    return at_ns if isinstance(at_ns, int) else 0
