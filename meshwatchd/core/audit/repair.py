"""What is done about a finding: the repair ladder, from the smallest blast radius on.

    neighbour   one peer     put its permanent neighbour
    fdb         one peer     put its FDB entry (replace, never append: a second destination would double every frame)
    route       one peer     put the route to its pods, with its exact attributes, and delete a dead end in its place
    move_fdb    one peer     send its frames to the address at which it says it is
    reseed      the device   put all entries of all peers; of Liqo's its address, then its routes
    bounce      the device   take it down and up, and put all entries: going down has deleted them

Each rung is planned, applied, verified by reading it back, and undone where that fails. One repair is under way at a
time. What has been repaired and comes back again and again is somebody's doing: then he has his way, and is named.
What the kernel refuses again and again is left as well, with its last error and no other program.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from meshwatchd.model.audit import AuditFinding, RepairPlan, RepairRung
from meshwatchd.model.audit_facts import RepairAdvised, RepairHeld, RepairStarted, RepairUndone, RepairVerified
from meshwatchd.model.events import RepairDone
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.outputs import Output, Repair
from meshwatchd.model.settings import MINUTE, SECOND, Mode, RepairSettings

DAY = 24 * 60 * MINUTE

FIGHT_NS = 10 * MINUTE
MAX_IN_FIGHT = 3
"""A finding that was repaired so often within FIGHT_NS and is there once more is left alone for as long."""

MAX_FAILURES = 3
"""A finding whose repair failed so often within FIGHT_NS, with no success in between, is left alone for as long."""

ANSWER_NS = 10 * SECOND
"""The agent reads back within milliseconds; after this it has died meanwhile and another one looks anew."""

MAX_ACTIONS_A_DAY = 10_000

_ONE_PEER = {
    FaultCode.NEIGHBOUR_MISSING: RepairRung.NEIGHBOUR,
    FaultCode.NEIGHBOUR_NOT_PERMANENT: RepairRung.NEIGHBOUR,
    FaultCode.NEIGHBOUR_WRONG_MAC: RepairRung.NEIGHBOUR,
    FaultCode.FDB_ENTRY_MISSING: RepairRung.FDB,
    FaultCode.FDB_ENTRY_WRONG: RepairRung.FDB,
    FaultCode.POD_ROUTE_MISSING: RepairRung.ROUTE,
    FaultCode.POD_ROUTE_ESCAPED: RepairRung.ROUTE,
    # One entry as well, though it leads to all peers.
    FaultCode.CLUSTER_ROUTE_MISSING: RepairRung.ROUTE,
    FaultCode.LIQO_ROUTE_MISSING: RepairRung.ROUTE,
}
_WHOLE_DEVICE = {
    FaultCode.OVERLAY_EMPTIED: RepairRung.RESEED,
    FaultCode.LIQO_FABRIC_ADDRESS_MISSING: RepairRung.RESEED,
    FaultCode.VTEP_MAC_CHANGED: RepairRung.RESEED,
    FaultCode.OVERLAY_DEVICE_DOWN: RepairRung.BOUNCE,
}

Name = tuple[str, str, str]


def plan_repair(finding: AuditFinding) -> RepairPlan | None:
    """What would put a finding right; None where nothing can, or where it is nobody's business here."""
    if not finding.wanted:
        return None
    rung = _ONE_PEER.get(finding.code) or _WHOLE_DEVICE.get(finding.code)
    if rung is None:
        return None
    if finding.code is FaultCode.VTEP_MAC_CHANGED and finding.subject != finding.device:
        rung = RepairRung.FDB
    if finding.is_move:
        rung = RepairRung.MOVE_FDB
    # What is in its place already is not added once more, or the command would fail.
    routes = tuple(each for each in finding.wanted.routes if each not in finding.found.routes)
    put = msgspec.structs.replace(finding.wanted, routes=routes)
    return RepairPlan(
        rung=rung,
        device=finding.device,
        is_bounce=rung is RepairRung.BOUNCE,
        put=put,
        drop=finding.unwanted,
        before=finding.found.at(put.joined(finding.unwanted)),
    )


def needed_rungs(plan: RepairPlan) -> tuple[RepairRung, ...]:
    """The rungs that have to be enabled: a peer with another MAC takes its neighbour and its FDB entry."""
    if plan.rung is RepairRung.FDB and plan.put.neighbours:
        return RepairRung.NEIGHBOUR, RepairRung.FDB
    # Somebody made that route: whoever allows to fill a device has not said that his may go.
    if plan.drop.routes and plan.rung is not RepairRung.ROUTE:
        return plan.rung, RepairRung.ROUTE
    return (plan.rung,)


def is_enabled(settings: RepairSettings, rung: RepairRung) -> bool:
    """Whether the operator allows a rung."""
    return {
        RepairRung.NEIGHBOUR: settings.neighbour,
        RepairRung.FDB: settings.fdb,
        RepairRung.ROUTE: settings.route,
        RepairRung.MOVE_FDB: settings.move_fdb,
        RepairRung.RESEED: settings.reseed,
        RepairRung.BOUNCE: settings.bounce,
    }[rung]


class _Work(msgspec.Struct, kw_only=True):
    """One finding that can be repaired.

    Attributes:
        state: as `status.FindingStatus.repair` has it.
        told: the reason that was told last for not doing it.
        not_before: an instant before which it is left alone.
    """

    finding: AuditFinding
    plan: RepairPlan
    state: str = "advised"
    told: str = ""
    not_before: int = 0


class _UnderWay(msgspec.Struct, kw_only=True):
    request: int
    work: _Work
    since: int


class _History(msgspec.Struct, kw_only=True):
    """When one finding was put right, and when that failed.

    Attributes:
        times: of repairs that were read back.
        failures: of those that were not, since the last that was.
        error: of the last failure.
    """

    times: deque[int] = msgspec.field(default_factory=lambda: deque(maxlen=MAX_IN_FIGHT))
    failures: deque[int] = msgspec.field(default_factory=lambda: deque(maxlen=MAX_FAILURES))
    error: str = ""

    def succeed(self, now: int) -> None:
        """The kernel holds what was put."""
        self.times.append(now)
        self.failures.clear()

    def fail(self, now: int, error: str) -> None:
        """The kernel does not, or nobody knows."""
        self.failures.append(now)
        self.error = error

    def refusal(self, now: int) -> str:
        """Why it is left alone; empty where it is not."""
        minutes = FIGHT_NS // MINUTE
        if len(self.times) == MAX_IN_FIGHT and now - self.times[0] < FIGHT_NS:
            return f"it was put back {MAX_IN_FIGHT} times in {minutes} min and undone by another program: it is left"
        if len(self.failures) == MAX_FAILURES and now - self.failures[0] < FIGHT_NS:
            return f"its repair failed {MAX_FAILURES} times in {minutes} min, the last time with: {self.error}"
        return ""


MAX_HISTORIES = 256


class Repairs:
    """The repairs of one node.

    Args:
        mode: of the daemon.
        settings: which rungs, how often.
    """

    def __init__(self, mode: Mode, settings: RepairSettings) -> None:
        self._mode = mode
        self._settings = settings
        self._work: dict[Name, _Work] = {}
        self._histories: dict[Name, _History] = {}
        self._actions: deque[int] = deque(maxlen=MAX_ACTIONS_A_DAY)
        self._under_way: _UnderWay | None = None
        self._requests = 0

    def state(self, name: Name) -> tuple[str, tuple[str, ...]]:
        """What is done about a finding, and the commands that would."""
        work = self._work.get(name)
        return (work.state, work.plan.commands()) if work is not None else ("none", ())

    def update(self, findings: tuple[AuditFinding, ...], now: int) -> Iterator[Output]:
        """Take in what is wrong at present; what is gone needs no repair."""
        before, self._work = self._work, {}
        for finding in findings:
            plan = plan_repair(finding)
            if plan is None:
                continue
            known = before.get(finding.name)
            if known is None or known.finding.wanted != finding.wanted:
                known = _Work(finding=finding, plan=plan)
            known.finding, known.plan = finding, plan
            self._work[finding.name] = known
        yield from self.advance(now)

    def done(self, event: RepairDone, now: int) -> Iterator[Output]:
        """The agent has an outcome."""
        under_way = self._under_way
        if under_way is None or under_way.request != event.request:
            return
        self._under_way = None
        work, finding = under_way.work, under_way.work.finding
        if event.is_verified:
            work.state = "verified"
            self._history(finding.name).succeed(now)
            yield RepairVerified(
                fault=finding.code,
                device=finding.device,
                subject=finding.subject,
                rung=work.plan.rung,
                request=event.request,
                took_ns=now - under_way.since,
            )
        else:
            work.state = "undone"
            self._history(finding.name).fail(now, event.error)
            yield RepairUndone(
                fault=finding.code,
                device=finding.device,
                subject=finding.subject,
                rung=work.plan.rung,
                request=event.request,
                reason=event.error,
            )
        # Either way the next look decides: verified entries take the finding away, others are tried again later.
        work.not_before = now + (5 * SECOND if event.is_verified else MINUTE)
        yield from self.advance(now)

    def forget_under_way(self) -> None:
        """The agent has died: whatever it was doing, another one looks at the kernel anew."""
        self._abandon()

    def deadline(self) -> int | None:
        """When `advance` has something to do; None while it has not."""
        if self._under_way is not None:
            return self._under_way.since + ANSWER_NS
        if not self._work:
            return None  # asked several times for each packet, and nearly always so
        waiting = [work.not_before for work in self._work.values() if self._may(work) and work.not_before]
        return min(waiting, default=None)

    def advance(self, now: int) -> Iterator[Output]:
        """Begin the next repair, or say why none begins."""
        if self._under_way is not None and now - self._under_way.since >= ANSWER_NS:
            self._abandon()
        for work in self._work.values():
            if now < work.not_before:
                continue
            reason = self._refusal(work, now)
            if reason:
                yield from self._refuse(work, reason, now)
            elif self._under_way is None:
                yield from self._begin(work, now)

    def _may(self, work: _Work) -> bool:
        return self._mode is Mode.ENFORCE and all(is_enabled(self._settings, r) for r in needed_rungs(work.plan))

    def _refusal(self, work: _Work, now: int) -> str:
        if self._mode is not Mode.ENFORCE:
            return f"daemon.mode is {self._mode}: nothing is changed"
        missing = [rung for rung in needed_rungs(work.plan) if not is_enabled(self._settings, rung)]
        if missing:
            return f"repair.{missing[0]} is off"
        if reason := self._history(work.finding.name).refusal(now):
            return reason
        minute, day = (sum(1 for at in self._actions if now - at < span) for span in (MINUTE, DAY))
        if minute >= self._settings.actions_per_minute:
            return "repair.actions_per_minute is used up"
        return "repair.actions_per_day is used up" if day >= self._settings.actions_per_day else ""

    def _refuse(self, work: _Work, reason: str, now: int) -> Iterator[Output]:
        if self._may(work):
            work.state = "held"
            work.not_before = now + MINUTE // 4
        if reason == work.told:
            return
        work.told = reason
        finding, plan = work.finding, work.plan
        if self._may(work):
            yield RepairHeld(
                fault=finding.code, device=finding.device, subject=finding.subject, rung=plan.rung, reason=reason
            )
            return
        yield RepairAdvised(
            fault=finding.code,
            device=finding.device,
            subject=finding.subject,
            rung=plan.rung,
            reason=reason,
            operations=plan.operations(),
            commands=plan.commands(),
        )

    def _begin(self, work: _Work, now: int) -> Iterator[Output]:
        self._requests += 1
        self._under_way = _UnderWay(request=self._requests, work=work, since=now)
        self._actions.append(now)
        work.state, work.told = "started", ""
        # Findings arrive in milliseconds: the outcome is awaited before the same is tried again.
        work.not_before = now + ANSWER_NS
        finding, plan = work.finding, work.plan
        yield RepairStarted(
            fault=finding.code,
            device=finding.device,
            subject=finding.subject,
            rung=plan.rung,
            request=self._requests,
            commands=plan.commands(),
        )
        yield Repair(request=self._requests, plan=plan)

    def _abandon(self) -> None:
        """Nobody tells how it ended: a repair over which the agent dies each time is not begun without end."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._history(under_way.work.finding.name).fail(under_way.since, "the agent has not answered")

    def _history(self, name: Name) -> _History:
        if name not in self._histories and len(self._histories) >= MAX_HISTORIES:
            del self._histories[next(iter(self._histories))]
        return self._histories.setdefault(name, _History())
