"""When another node shall lead a location, and by which steps, so that no packet is lost on the way.

    traffic on a standby, both sides agree on the leader that is broken, for `promote_after`
      -> DETOUR   relays pin the traffic to a path that the change does not touch
      -> CHANGED  the marks are set; the mesh's agents follow in milliseconds
      -> STANDS   relays end their pins; the daemons bring traffic home over the new leader when that is good
    the former leader without fault for `demote_after`
      -> DETOUR, CHANGED and home again, with the marks as they were before

The holder of the Lease takes each step, and writes it into the Lease before the next. Relays read it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from meshwatchd.model.units import SECOND, render_duration
from meshwatchkube.actions import Action, Remember, RunHook, SetMark, Tell
from meshwatchkube.cluster import Node
from meshwatchkube.detour import detour, is_on, paths_around
from meshwatchkube.leaders import Mark, inverse, is_kilo_ready, kilo_leader, marks_for, stands
from meshwatchkube.look import Look
from meshwatchkube.memory import Change, Memory, Phase
from meshwatchkube.mesh import SILENT, Pair
from meshwatchkube.settings import LeaderKind, Mode, PromotionSettings
from meshwatchkube.standing import Standing

LEADER = "leader"
"""A role of the mesh (`node_status.NodeStatus.role`)."""

_ATTEMPT = 3
"""Times the wait for the detour: one for that, and two for the marks, of which one is set in each look."""

Accused = Mapping[tuple[str, str], Pair]
"""(location, its leader) where traffic avoids the primary path by reason of that leader, and both sides agree."""


class Promotions:
    """The changes of leaders, decided at each look of the process that holds the Lease.

    Args:
        settings: of the section.
    """

    def __init__(self, settings: PromotionSettings) -> None:
        self._settings = settings
        self._accused, self._well = Standing(), Standing()
        self._told: set[str] = set()
        self._asked: dict[Mark | RunHook, int] = {}

    def forget(self) -> None:
        """Begin all waits anew, as after a time without knowledge of one side."""
        self._accused.forget()
        self._well.forget()
        self._asked.clear()

    def decide(self, look: Look, memory: Memory) -> Iterator[Action]:
        """What is to be done; at most one step."""
        moving = next((each for each in memory.changes if each.phase is not Phase.STANDS), None)
        if moving is not None and self._settings.mode is not Mode.ENFORCE:
            # Relays would hold the traffic there for as long as it is under way.
            yield from _drop(look, memory, moving)
            return
        if self._settings.mode is Mode.OFF:
            return
        accused = {key: pair for pair in look.mesh.pairs for key in self._accusations(look, pair)}
        self._accused.note(accused, look.now)
        self._well.note((_way_back(each) for each in memory.changes if self._is_well(look, each)), look.now)
        if not accused:
            self._told.clear()
        if moving is None:
            # What was asked for in another change says nothing of the next one.
            self._asked.clear()
        for change in memory.changes if self._settings.mode is Mode.ENFORCE else ():
            steps = tuple(self._go_on(look, memory, change, accused))
            if steps:
                yield from steps
                return
        for (location, former), pair in accused.items():
            has_stood = self._accused.has_lasted((location, former), self._settings.promote_after, look.now)
            old = memory.of(location)
            # A leader that was promoted here may break as any other.
            if has_stood and moving is None and (old is None or old.leader == former):
                yield from self._begin(look, memory, pair, former)
                return

    # --- the way there -----------------------------------------------------------------------------

    def _accusations(self, look: Look, pair: Pair) -> Iterator[tuple[str, str]]:
        """Where both sides agree: this side's verdict names the leader, the other side is in trouble as well, and of
        all nodes of both that have seen the fault themselves none names anybody else.

        Only nodes beside the leader see its overlay; the others go by their word, and advertise no verdict.
        """
        leader, age_ns = pair.culprit, self._settings.report_age
        if not pair.is_diverted or leader not in pair.primary_relays or leader not in look.mesh.members:
            return
        named = {
            report.culprit
            for report in look.mesh.fresh(age_ns)
            if report.sides == pair.sides and report.is_critical and report.culprit and report.reporter != leader
        }
        others = (each for each in look.mesh.members.values() if each.location == pair.remote and each.name != leader)
        if named == {leader} and any(member.is_in_trouble(age_ns) for member in others):
            yield look.mesh.members[leader].location, leader

    def _begin(self, look: Look, memory: Memory, pair: Pair, former: str) -> Iterator[Action]:
        location = look.mesh.members[former].location
        nodes = [node for name, node in look.cluster.nodes.items() if look.is_in(name, location)]
        leader = self._successor(look, pair, former)
        refusal = self._refusal(look, memory, nodes, former=former, leader=leader)
        if refusal:
            text = f"{former} goes on leading {location}: {refusal}"
            yield from self._tell_once(former, "MeshPromotionRefused", text)
            return
        change = self._change(look, memory.of(location), pair, former=former, leader=leader)
        fault = next((report.words for report in look.mesh.reports if report.culprit == former), "")
        text = f"{leader} is to lead {location} instead of {former}: {fault}"
        if self._settings.mode is Mode.DRY_RUN:
            if text not in self._told:
                for mark in change.marks:
                    yield SetMark(mark=mark, version=look.version(mark.node), is_dry=True)
            yield from self._tell_once(former, "MeshPromotionDryRun", text)
            return
        yield Remember(memory=memory.with_change(change).spending(look.now_s))
        yield Tell(node=former, reason="MeshPromotion", message=text, is_warning=True)

    def _change(self, look: Look, old: Change | None, pair: Pair, *, former: str, leader: str) -> Change:
        """The step from one leader to another.

        Where the one that led before a change of ours is to lead, it is the way back of that change, so that nobody
        keeps a mark of ours. Else what stood stands again when this has ended, and its way back follows.
        """
        location = look.mesh.members[former].location
        nodes = [node for name, node in look.cluster.nodes.items() if look.is_in(name, location)]
        remote, via = pair.other(location), detour(pair, former, {node.name for node in nodes})
        if old is not None and old.former == leader:
            back = old.reversed(Phase.DETOUR, look.now_s)
            return msgspec.structs.replace(back, remote=remote, via=via)
        marks = marks_for(self._settings.kind, nodes, former=former, successor=leader)
        return Change(
            location=location,
            remote=remote,
            leader=leader,
            former=former,
            via=via,
            marks=marks,
            undo=inverse(marks, look.cluster.nodes),
            # One is enough, and the annotation must not grow.
            before=None if old is None else msgspec.structs.replace(old, before=None),
            at_s=look.now_s,
        )

    def _successor(self, look: Look, pair: Pair, former: str) -> str:
        """The relay beside the former leader, of the path in use if possible; empty where none is fit."""
        location = look.mesh.members[former].location
        paths = sorted(paths_around(pair, former), key=lambda path: (not path.is_active, path.rank))
        relays = (relay for path in paths for relay in path.relays if look.is_in(relay, location))
        return next((relay for relay in relays if self._is_fit(look, relay)), "")

    def _is_fit(self, look: Look, name: str) -> bool:
        """Whether a node could lead: it is heard, nobody names it, and the agents that would follow count it."""
        member, node = look.mesh.members.get(name), look.cluster.nodes.get(name)
        if member is None or node is None or node.spec.unschedulable:
            return False
        age_ns = 0 if name == look.mesh.node else member.heard_ago_ns
        is_heard = age_ns is not None and age_ns <= self._settings.report_age
        # Whose own overlay is broken finds all its neighbours silent.
        is_named = any(
            report.culprit == name and report.fault != SILENT for report in look.mesh.fresh(self._settings.report_age)
        )
        is_counted = self._settings.kind is not LeaderKind.KILO or is_kilo_ready(node, look.now_s)
        return is_heard and is_counted and not is_named

    def _refusal(self, look: Look, memory: Memory, nodes: Iterable[Node], *, former: str, leader: str) -> str:
        spent = len(memory.spent(look.now_s))
        if spent >= self._settings.per_day:
            return f"leaders were changed {spent} times within a day"
        if not leader:
            return "no other relay of the location is well, schedulable and known to the agents"
        believed = kilo_leader(nodes, look.now_s) if self._settings.kind is LeaderKind.KILO else former
        if believed != former:
            return f"by the annotations {believed or 'nobody'} leads, so this API is not what the mesh goes by"
        return ""

    # --- each step ---------------------------------------------------------------------------------

    def _go_on(self, look: Look, memory: Memory, change: Change, accused: Accused) -> Iterator[Action]:
        pair = next((each for each in look.mesh.pairs if each.sides == change.sides), None)
        if pair is None:
            return  # only nodes of the two locations see how the change goes
        waited_ns = max(0, look.now_s - change.at_s) * SECOND
        missing = [mark for mark in change.marks if not stands(mark, look.cluster.nodes)]
        match change.phase:
            case Phase.DETOUR:
                is_untouched = len(missing) == len(change.marks)
                if is_untouched and not self._is_wanted(look, change, accused):
                    yield from _abandon(look, memory, change, "the reason for a change has gone")
                elif self._is_over(change, missing, waited_ns):
                    yield from self._give_up(look, memory, change, is_untouched=is_untouched)
                elif not change.via or self._is_held(pair, change, waited_ns):
                    yield from self._set(look, memory, change, missing)
            case Phase.CHANGED if waited_ns >= self._settings.settle_wait:
                has_followed = _leads(look, pair, change.leader)
                if has_followed or waited_ns >= self._settings.settle_wait + self._settings.detour_wait:
                    yield from _close(look, memory, change, has_followed=has_followed)
            case Phase.STANDS if missing:
                text = f"somebody else has changed who leads {change.location}; {change.former} will not be restored"
                yield Remember(memory=memory.without(change.location))
                yield Tell(node=change.leader, reason="MeshPromotionEnded", message=text)
            case Phase.STANDS:
                yield from self._maybe_return(look, memory, change, pair)

    def _is_held(self, pair: Pair, change: Change, waited_ns: int) -> bool:
        """Whether traffic is on the detour, and relays have had the time to read in the Lease that they are to pin it.

        A path that is in use already has to be pinned all the same; where it cannot be, nothing is waited for any more.
        """
        wait_ns = self._settings.detour_wait
        return waited_ns >= wait_ns or (waited_ns >= wait_ns // 2 and is_on(pair, change.via))

    def _is_over(self, change: Change, missing: Sequence[Mark], waited_ns: int) -> bool:
        """Whether an attempt has taken too long: something undoes or refuses the marks, or the hook fails each time.

        Three times the wait for the detour is nine minutes at most, by the bound of the setting, so it ends before the
        pins do, which last for ten. What this process has not asked for nobody has refused: the API was cut, or another
        process was the writer.
        """
        is_refused = any(mark in self._asked for mark in missing) or (not missing and _hook_of(change) in self._asked)
        return is_refused and waited_ns >= self._attempt_ns

    def _give_up(self, look: Look, memory: Memory, change: Change, *, is_untouched: bool) -> Iterator[Action]:
        """End an attempt that does not succeed. A new one waits as long as the first, and is in the budget too."""
        self.forget()
        if is_untouched:
            done = "the hook has not succeeded" if self._settings.kind is LeaderKind.HOOK else "no mark could be set"
            yield from _abandon(look, memory, change, f"{done} for {render_duration(self._attempt_ns)}")
        else:
            # Somebody holds the others as they were: the next look finds them missing, and leaves all to them.
            yield from _close(look, memory, change, has_followed=False)

    @property
    def _attempt_ns(self) -> int:
        return _ATTEMPT * self._settings.detour_wait

    def _is_wanted(self, look: Look, change: Change, accused: Accused) -> bool:
        """Whether the reason for a change still holds while nothing is done yet."""
        if change.is_return:
            return self._is_fit(look, change.leader)
        return (change.location, change.former) in accused

    def _set(self, look: Look, memory: Memory, change: Change, missing: Sequence[Mark]) -> Iterator[Action]:
        """One mark in each look: the next one rests on what the first has made of the Nodes."""
        pending = [mark for mark in missing if mark.node in look.cluster.nodes]
        if pending:
            if self._may_ask(pending[0], look.now):
                yield SetMark(mark=pending[0], version=look.version(pending[0].node))
            return
        if self._settings.kind is LeaderKind.HOOK:
            hook = _hook_of(change)
            if not self._may_ask(hook, look.now):
                return
            yield hook
        yield Remember(memory=memory.with_change(change.entering(Phase.CHANGED, look.now_s)))

    def _may_ask(self, wanted: Mark | RunHook, now: int) -> bool:
        """Whether to ask for a thing: what was asked for last and is undone or has failed is left alone for a while."""
        asked_ns = self._asked.get(wanted)
        if asked_ns is not None and now - asked_ns < self._settings.detour_wait // 2:
            return False
        self._asked[wanted] = now
        return True

    # --- the way back ------------------------------------------------------------------------------

    def _is_well(self, look: Look, change: Change) -> bool:
        """Whether a former leader is fit, while no node of either side reports anything between the two locations.

        A broken node that leads nobody is in no verdict: standbys by way of it count, and a neighbour's silence.
        """
        pair = next((each for each in look.mesh.pairs if each.sides == change.sides), None)
        is_home = pair is not None and not pair.is_diverted and not any(path.is_bad for path in pair.paths)
        is_quiet = all(
            report.sides != change.sides and report.culprit != change.former
            for report in look.mesh.fresh(self._settings.report_age)
        )
        return is_home and is_quiet and self._is_fit(look, change.former)

    def _maybe_return(self, look: Look, memory: Memory, change: Change, pair: Pair) -> Iterator[Action]:
        after_ns = self._settings.demote_after
        is_due = bool(after_ns) and self._well.has_lasted(_way_back(change), after_ns, look.now)
        if not is_due or len(memory.spent(look.now_s)) >= self._settings.per_day:
            return
        back = change.reversed(Phase.DETOUR, look.now_s)
        neighbours = {name for name in look.mesh.members if look.is_in(name, change.location)}
        back = msgspec.structs.replace(back, via=detour(pair, back.leader, neighbours))
        text = f"{back.leader} has been well for {render_duration(after_ns)} and is to lead {back.location} again"
        yield Remember(memory=memory.with_change(back).spending(look.now_s))
        yield Tell(node=back.leader, reason="MeshPromotion", message=text)

    def _tell_once(self, node: str, reason: str, message: str) -> Iterator[Action]:
        if message not in self._told:
            self._told.add(message)
            yield Tell(node=node, reason=reason, message=message, is_warning=True)


def _hook_of(change: Change) -> RunHook:
    return RunHook(location=change.location, former=change.former, leader=change.leader)


def _way_back(change: Change) -> tuple[str, str]:
    """Whose being well is waited for: of two changes that follow each other it is another node."""
    return change.location, change.former


def _abandon(look: Look, memory: Memory, change: Change, why: str) -> Iterator[Action]:
    """Leave everything as it is: nothing is done yet, and nothing is to be done any more."""
    if change.is_return:
        yield Remember(memory=memory.with_change(change.reversed(Phase.STANDS, look.now_s)))
    else:
        yield Remember(memory=memory.ending(change, look.now_s))
    text = f"{change.former} goes on leading {change.location}: {why}"
    yield Tell(node=change.former, reason="MeshPromotionEnded", message=text)


def _drop(look: Look, memory: Memory, change: Change) -> Iterator[Action]:
    """End a change that nobody is to go on with, and leave the Nodes as they are."""
    if change.phase is Phase.DETOUR and not any(stands(mark, look.cluster.nodes) for mark in change.marks):
        yield from _abandon(look, memory, change, "promotion is off, or a dry run")
        return
    pair = next((each for each in look.mesh.pairs if each.sides == change.sides), None)
    has_followed = pair is not None and _leads(look, pair, change.leader)
    yield from _close(look, memory, change, has_followed=has_followed)


def _close(look: Look, memory: Memory, change: Change, *, has_followed: bool) -> Iterator[Action]:
    if change.is_return:
        yield Remember(memory=memory.ending(change, look.now_s))
    else:
        yield Remember(memory=memory.with_change(change.entering(Phase.STANDS, look.now_s)))
    verb = "leads" if has_followed else "was to lead, which the mesh has not followed,"
    text = f"{change.leader} {verb} {change.location} instead of {change.former}"
    reason = "MeshPromotionReturned" if change.is_return else "MeshPromoted"
    yield Tell(node=change.leader, reason=reason, message=text, is_warning=not has_followed)


def _leads(look: Look, pair: Pair, leader: str) -> bool:
    member = look.mesh.members.get(leader)
    return member is not None and member.role == LEADER and leader in pair.primary_relays
