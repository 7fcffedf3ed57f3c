"""The engine: events in, commands and facts out. It reads no clock, opens no socket and draws no randomness of its own.

Only dispatch lives here. What an event means is decided by the part it belongs to:

    SnapshotReceived -> takeover: profile -> topology -> planner, layout -> sessions, groups
    ReplyReceived, expiry -> session -> group -> pair_controller (verdict, decision, agreement, move)
    RequestReceived -> what peers say of themselves (banners), coordination
    OperatorRequested -> pair_controller
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import assert_never

from meshwatchd.core.diagnosis.service_canaries import is_good
from meshwatchd.core.failover.pair_controller import REST_REVIEW_NS, PairController
from meshwatchd.core.failover.persistence import MEMORABLE
from meshwatchd.core.mesh.banners import Banners
from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.core.mesh.mesh_update import Takeover
from meshwatchd.core.mesh.topology_builder import Recogniser
from meshwatchd.core.operators.move_requests import answer
from meshwatchd.core.operators.status import build_status
from meshwatchd.core.probing.overload import Stalls
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.core.session.session import Outcome, Session, SessionState
from meshwatchd.model import events as ev
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.load import AnswersDropped, LoadMeasured
from meshwatchd.model.mesh_profile import Profile
from meshwatchd.model.mtu import SizeAnswered, SizeUnsent
from meshwatchd.model.outputs import (
    KeyMismatched,
    ObjectReasserted,
    OrderEnded,
    OrderGiven,
    Output,
    SaveState,
    SessionChanged,
)
from meshwatchd.model.process_facts import AgentRestarted
from meshwatchd.model.service_check import NOT_SEEN, ServiceSeen
from meshwatchd.model.settings import MS, Settings
from meshwatchd.model.status import Status

LONG_STALL_NS = 200 * MS
"""From here on a stall is no scheduling noise: the machine was stopped, and its idea of the present is void."""

EADDRINUSE = 98
"""asm-generic/errno.h; the one send error that says nothing about the path."""


EARLY_NS = REST_REVIEW_NS * 3 // 4
"""At rest each pair of locations is looked at with what leaves anyway, once so much has passed since the last look."""


class Engine:
    """One node's whole decision making.

    Args:
        rng: the only source of randomness: phases, jitter, ports, nonces.
        epoch: this process's boot epoch, greater than any earlier one of this node.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        node: NodeName,
        rng: random.Random,
        epoch: int,
        profiles: Mapping[str, Profile],
    ) -> None:
        self.epoch = epoch
        self.state = EngineState(settings, node, rng)
        self.takeover = Takeover(self.state, Recogniser(settings, node, profiles))
        self.late_ns = 0
        self.stalls = Stalls()
        self._banners = Banners(self.state)

    def deadline(self) -> int | None:
        """When `handle(Tick(), now)` is due; None while there is nothing to probe."""
        # Asked after every event: a loop costs a third of what building lists and looking for their minimum does.
        earliest = self.state.schedule.deadline()
        due = self.state.sizes.deadline()
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        due = self.state.findings.deadline()
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        due = self.state.leg.deadline()
        if due is not None and (earliest is None or due < earliest):
            earliest = due
        for controller in self.state.controllers.values():
            at = controller.deadline()
            if earliest is None or at < earliest:
                earliest = at
        return earliest

    def early_at(self) -> int | None:
        """From when on `handle(Tick(), now)` is worth its while for who is awake anyway; None for not at all."""
        return self.state.schedule.early_at

    def handle(self, event: ev.Event, now: int) -> list[Output]:
        """Take in one event.

        Args:
            event: what happened.
            now: monotonic nanoseconds; never less than at the call before.

        Returns:
            What to do and what to tell, in order.
        """
        if isinstance(event, ev.ReplyReceived):
            outputs = self._replied(event, now)
        elif isinstance(event, ev.Tick):
            outputs = self._tick(now, event.heard_ns)
        elif isinstance(event, ev.RequestReceived):
            # As many as the two above, and a match tries its patterns one by one.
            outputs = self._requested(event, now)
            self.state.is_told = self.state.is_told and not outputs
        else:
            outputs = list(self._dispatch(event, now))
            self.state.is_told = False
        if outputs and not self.state.is_told:
            self.state.is_told = True
            outputs.extend(self._banners.tell(now))
            if any(isinstance(output, MEMORABLE) for output in outputs):
                outputs.append(SaveState(state=self.state.memory.gather(self.state.controllers.values(), now)))
        return outputs

    def status(self, now: int, counters: Mapping[str, int]) -> Status:
        """The whole picture, for operators."""
        takeover = self.takeover
        return build_status(self.state, now, counters, rejected=takeover.rejection, collisions=takeover.collisions)

    # The one match over all events.
    def _dispatch(self, event: ev.Event, now: int) -> Iterator[Output]:  # noqa: C901, PLR0912, PLR0915
        match event:
            case ev.ReplyReceived():
                yield from self._replied(event, now)
            case ev.RequestReceived():
                yield from self._requested(event, now)
            case ev.Tick():
                yield from self._tick(now, event.heard_ns)
            case ev.SnapshotReceived():
                yield from self.takeover.observe(event.snapshot, now)
            case ev.OtherKeySeen():
                yield from self._mismatched(event, now)
            case ev.LatenessMeasured():
                self.late_ns = event.p99_ns
                self.state.schedule.widen(event.p99_ns)
            case LoadMeasured():
                yield from self._pace(event, now)
            case AnswersDropped():
                self._dropped(event, now)
            case ev.SendFailed():
                yield from self._send_failed(event, now)
            case ServiceSeen():
                yield from self._service_seen(event, now)
            case ev.SwitchApplied() | ev.SwitchFailed():
                yield from self.takeover.switched(event, now)
            case ev.Stalled():
                yield from self._stalled(event, now)
            case ev.Provisioned():
                yield from self.takeover.provisioned(event, now)
            case ev.ObjectLost():
                yield from self._lost(event, now)
            case ev.FindingsReported():
                yield from self.state.findings.report(event.findings, now)
            case ev.PeersTold():
                self.state.findings.hear(event.faults, now)
            case ev.RepairDone():
                yield from self.state.findings.repaired(event, now)
            case ev.MeshStirred():
                yield from self.state.note_topology_change(event, now)
            case ev.AgentLost():
                self.takeover.is_agent_new = True
                self.state.findings.agent_lost()
                yield AgentRestarted(exit_status=event.exit_status, silent_ns=event.silent_ns)
            case ev.OperatorRequested():
                yield from answer(self.state, event, now)
            case SizeAnswered():
                yield from self.state.sizes.answered(event, now)
            case SizeUnsent():
                yield from self.state.sizes.unsent(event, now)
            case ev.StateRestored():
                yield from self._recall(event)
            case _:
                assert_never(event)

    def _recall(self, event: ev.StateRestored) -> Iterator[Output]:
        """Only the first agent of this process has anything to say of an earlier one."""
        if self.state.topology is None:
            self.state.memory.take_over(event.state)
            for order in self.state.memory.orders.standing:
                yield OrderGiven(order=order)

    # -- probes ------------------------------------------------------------------------------------------------

    def _tick(self, now: int, heard: int) -> list[Output]:
        missed: list[tuple[Session, SessionState]] = []
        outputs: list[Output] = [
            *self.state.schedule.advance(now, lambda session, before: missed.append((session, before)), heard)
        ]
        if (self.state.findings.deadline() or now + 1) <= now:
            outputs += self.state.findings.advance(now)
        if not self.state.sizes.is_due(now) or not any(each.is_busy for each in self.state.controllers.values()):
            outputs += self.state.sizes.advance(now)
        else:
            self.state.sizes.wait(now)
        if self.state.findings.misfits:
            # The word of who has fallen silent may be out of date.
            for peer in [each for each in self.state.findings.misfits if self.state.views.is_outdated(each, now)]:
                self.state.findings.hear_of_misfit(peer, now, has_misfit=False)
        due = [
            each
            for each in self.state.controllers.values()
            if each.deadline() <= now or now - each.reviewed_at >= EARLY_NS
        ]
        first: dict[Session, SessionState] = {}
        for session, before in missed:
            first.setdefault(session, before)
            due += [each for each in self._concerned(session) if each.observe(session, Outcome.MISS, now)]
            self.state.leg.observe(session, Outcome.MISS, now)
            self.state.look_below(session, now)
        # A session that misses several answers in one turn has changed once.
        outputs += [_changed(session, now) for session, before in first.items() if session.state is not before]
        # Before the first mesh there is nobody to undo what an order that is over held.
        for order in () if self.state.topology is None else self.state.memory.orders.expire(now):
            outputs.append(OrderEnded(order=order, is_expired=True))
            for controller in self.state.controllers.values():
                controller.order_expired(order, now)
        if due:
            # One look at everything that was missed at this instant, not one look for each miss.
            for controller in dict.fromkeys(due):
                outputs += controller.review(now)
            self.state.is_told = False
            if (news := self.state.allowance.news(now)) is not None:
                outputs.append(news)
        outputs += self._look_at_leg(now)
        self.state.use_paths(now)
        self.state.repeat_unrest(now)
        if self.takeover.held:
            outputs += self.takeover.provide(now)
        return outputs

    def _replied(self, event: ev.ReplyReceived, now: int) -> list[Output]:
        session = self.state.schedule.session(event.session)
        if session is None:
            return []
        before, was_calm = session.state, session.is_calm
        outcome = session.answered(event.seq, event.rtt_ns, now)
        if outcome is Outcome.UNKNOWN:
            return []
        if outcome is Outcome.HIT:
            self.state.schedule.answered(session)
        if before is SessionState.DOWN:
            # What revives one session of a path may have revived all.
            path = session.plan.path
            for revived in (session, *(() if path == NO_PATH else self.state.schedule.select(path=path))):
                self.state.schedule.look_closely(revived, now)
        is_word = session.plan.layer is not Layer.SELF and session.plan.canary is None
        outputs = self._banners.hear(session.plan.peer, event.banner, now) if is_word else []
        if session.state is not before:
            outputs.append(_changed(session, now))
        due = [each for each in self._concerned(session) if each.observe(session, outcome, now)]
        for controller in due:
            outputs += controller.review(now)
        self.state.leg.observe(session, outcome, now)
        outputs += self._look_at_leg(now)
        self.state.is_told = self.state.is_told and was_calm and not due and session.is_calm
        return outputs

    def _look_at_leg(self, now: int) -> list[Output]:
        at = self.state.leg.deadline()
        return [] if at is None or at > now else [*self.state.leg.review(now)]

    def _service_seen(self, event: ServiceSeen, now: int) -> list[Output]:
        """An answer only where the service is good; a bad one is left to its miss, and remembered for its name."""
        session = self.state.schedule.session(event.session)
        if session is None:
            return []
        session.seen = event
        if not is_good(session.plan, event):
            return []
        return self._replied(
            ev.ReplyReceived(
                session=event.session, seq=event.seq, rtt_ns=event.rtt_ns, peer_epoch=0, banner=ev.Banner()
            ),
            now,
        )

    def _concerned(self, session: Session) -> tuple[PairController, ...]:
        """Who looks at a session: the pair of its path, or for a segment all pairs."""
        return self.state.by_path[session.plan.path]

    def _send_failed(self, event: ev.SendFailed, now: int) -> Iterator[Output]:
        """A busy port is tried again with the next one, what nobody saw is no miss; any other error is."""
        session = self.state.schedule.session(event.session)
        if session is not None and event.errno == NOT_SEEN:
            before = session.state
            session.unseen(event.seq, now)
            if session.state is not before:
                yield _changed(session, now)
        if session is None or event.errno != EADDRINUSE:
            return
        probe = self.state.schedule.retry(session, event.seq, now)
        if probe is not None:
            yield probe

    def _stalled(self, event: ev.Stalled, now: int) -> Iterator[Output]:
        """A short stall costs patience, a long one everything that was gathered: nobody is accused by a sleeper."""
        if event.late_ns < LONG_STALL_NS:
            self.state.schedule.postpone(event.late_ns)
            self.state.sizes.wait_longer(event.late_ns)
        else:
            self.state.sizes.void(now)
            for session in self.state.schedule.sessions:
                session.forget_outstanding()
            for controller in self.state.controllers.values():
                controller.stalled(now)
            self.state.leg.stalled(now)
        yield from self.stalls.note(event.late_ns, now, is_long=event.late_ns >= LONG_STALL_NS)

    def _pace(self, event: LoadMeasured, now: int) -> Iterator[Output]:
        """Who cannot keep up asks less: slowly and rightly."""
        before = self.state.load.slowdown
        yield from self.state.load.measured(event, self.late_ns)
        if self.state.load.slowdown != before:
            self.state.schedule.slow_down(self.state.load.slowdown, now)

    def _dropped(self, event: AnswersDropped, now: int) -> None:
        """All sessions leave by one port at one time, so that any answer may have been among what was lost."""
        self.state.load.dropped(event.packets)
        self.state.sizes.void(now)
        for session in self.state.schedule.sessions:
            session.void()

    # -- peers -------------------------------------------------------------------------------------------------

    def _requested(self, event: ev.RequestReceived, now: int) -> list[Output]:
        if not event.is_fresh_epoch or event.peer == self.state.node:
            return []
        if event.size_bytes:
            self.state.sizes.heard(event, now)
        if event.flow is FlowClass.FRESH and not event.is_confirm:
            for controller in self.state.by_path.get(event.path, ()):
                controller.watch.note_heard(event.peer, event.layer, event.path, now)
            if event.layer is Layer.RELAY:
                self.state.schedule.interleaving.heard(event.peer, event.path, now)
        outputs = self._banners.hear(event.peer, event.banner, now)
        message = event.coordination
        if message is None or message.target != self.state.node or message.pair not in self.state.controllers:
            return outputs
        if self.state.is_shared(event.peer, message.pair):
            outputs += self.state.controllers[message.pair].received(message, event.peer, now)
        return outputs

    def _mismatched(self, event: ev.OtherKeySeen, now: int) -> Iterator[Output]:
        """Told once a minute while it lasts; the verdict names the peer only if it is silent besides."""
        if self.state.views.note_other_key(event.peer, now, is_known=event.is_known):
            yield KeyMismatched(peer=event.peer, key_id=event.key_id)

    # -- kernel state ------------------------------------------------------------------------------------------

    def _lost(self, event: ev.ObjectLost, now: int) -> Iterator[Output]:
        """Standing objects are the agent's to put back; an override is ours, and may have been removed on purpose."""
        if self.takeover.planner is None:
            return
        paths = self.takeover.planner.topology.local_paths()
        ours = (rule for path in paths for rule in self.takeover.planner.override(path))
        if not any(rule.render() in event.what for rule in (*ours, *self.state.leg.rules())):
            yield ObjectReasserted(what=event.what)
        yield from self.state.leg.reassert(event.what, now)
        for controller in self.state.controllers.values():
            yield from controller.switchover.reassert(event.what, now)


def _changed(session: Session, now: int) -> SessionChanged:
    first_loss = session.first_loss
    return SessionChanged(
        session=session.plan.session,
        peer=session.plan.peer,
        layer=session.plan.layer,
        path=session.plan.path,
        flow=session.plan.flow,
        state=session.state,
        rtt_ns=session.rtt_ns,
        silent_ns=now - first_loss if first_loss and session.state is not SessionState.UP else 0,
    )
