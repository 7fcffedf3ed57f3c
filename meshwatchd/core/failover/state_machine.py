"""Agreement on a move between the two relays of the path to be used, and the move itself.

                 proposer                          other relay                 members of either location
    IDLE ------> PROPOSING --propose(rank, gen)--> checks its own evidence
                     |                             applies, VERIFYING --------notice--> apply, VERIFYING
                     |<-----------grant------------|
                  applies, VERIFYING ---------------------------------------- notice--> apply, VERIFYING

Delivery out of a standby link stands permanently, so either side may move first: packets of both paths arrive
throughout. A relay grants only what its own probes support; a member follows a relay of its own location. A proposal
that nobody answers is repeated until it times out; the answer to a repeated proposal is the same grant again.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType

import msgspec

from meshwatchd.model.events import Coordination, CoordinationKind, Reason
from meshwatchd.model.generation import MOST_MISSED, following, moves_between, preceding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.model.topology import Path

REPEAT_NS = 15 * MS
"""Between repeats of a proposal: the other side may still be gathering its evidence."""

PATIENCE_NS = 800 * MS
"""How long a proposal stands. The other relay needs its own verdict, which takes as long as ours did."""

BACK_OFF_NS = 1 * SECOND
"""Pause after a proposal that was refused or not answered."""

CHOSEN = (Reason.OPERATOR, Reason.PINNED)
"""Moves that people asked for: there is no coming back by itself."""

NOTICE_REPEATS = 4
NOTICE_GAP_NS = 10 * MS


class MoveState(StrEnum):
    """Where a pair is in a move."""

    IDLE = "idle"
    PROPOSING = "proposing"
    APPLYING = "applying"
    VERIFYING = "verifying"


class MoveInput(StrEnum):
    """What drives a move."""

    DECIDED = "decided"
    AGREED = "agreed"
    ABANDONED = "abandoned"
    APPLIED = "applied"
    FAILED = "failed"
    SETTLED = "settled"


TRANSITIONS = MappingProxyType(
    {
        MoveState.IDLE: {MoveInput.DECIDED: MoveState.PROPOSING, MoveInput.AGREED: MoveState.APPLYING},
        MoveState.PROPOSING: {MoveInput.AGREED: MoveState.APPLYING, MoveInput.ABANDONED: MoveState.IDLE},
        MoveState.APPLYING: {MoveInput.APPLIED: MoveState.VERIFYING, MoveInput.FAILED: MoveState.IDLE},
        MoveState.VERIFYING: {
            MoveInput.SETTLED: MoveState.IDLE,
            MoveInput.DECIDED: MoveState.PROPOSING,
            MoveInput.AGREED: MoveState.APPLYING,
        },
    }
)


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A move under way.

    Attributes:
        grant_to: the proposer who waits for our grant; it is given when the kernel has taken the change.
    """

    target: Path
    generation: int
    nonce: int
    began: int
    reason: Reason
    grant_to: NodeName | None = None


class MoveStateMachine:
    """The state of one pair's moves; who decides and who applies is outside.

    Attributes:
        quiet_until: when this node may propose again.
        advised_until: when it may say again what it would do, where it may do nothing.
        refused_until: when it may follow again after its own kernel has refused a change. Who was merely refused by
            the other relay follows at once: often that relay knows the better path, and news of it is on the way.
        home_after: when this node may ask again to come home, after operators' orders on the other side forbade it.
    """

    def __init__(self, active: Path, paths: tuple[Path, ...]) -> None:
        self.active = active
        self.previous = active
        self.paths = paths
        self.generation = 0
        self.heard_generation = 0
        self.state = MoveState.IDLE
        self.intent: Intent | None = None
        self.moved_at = 0
        self.is_pinned = False
        self.next_step = 0
        self.quiet_until = self.advised_until = 0
        self.refused_until = 0
        self.home_after = 0
        self.notices_left = 0

    def propose(self, target: Path, nonce: int, reason: Reason, now: int) -> Intent:
        """Begin to ask the other relay."""
        self._move(MoveInput.DECIDED)
        self.intent = intent = Intent(
            target=target,
            generation=following(self._latest),
            nonce=nonce,
            began=now,
            reason=reason,
        )
        self.next_step = now
        return intent

    def hear(self, generation: int) -> None:
        """Somebody is at a generation: the next proposal of this node comes after it.

        A relay that was started anew has forgotten its own. Who remembers would ignore all moves up to that one.
        """
        is_news = moves_between(self._latest, generation) > 0
        if is_news and moves_between(self.generation, generation) < MOST_MISSED:
            self.heard_generation = generation

    def is_newer(self, generation: int, path: Path) -> bool:
        """Whether a move to a path comes after the one this node knows.

        Two pairs of relays can agree on two ways round one fault at the same moment; the lower rank wins.
        """
        return self.is_ahead(generation) or (generation == self.generation and path.rank < self.active.rank)

    def is_ahead(self, generation: int) -> bool:
        """Whether a generation comes after this node's, and is one that the pair can have reached."""
        return 0 < moves_between(self.generation, generation) <= MOST_MISSED

    def recount(self, generation: int) -> None:
        """Moves are counted from here on; which path traffic is on does not change."""
        self.generation = self.heard_generation = generation

    def step_back(self) -> None:
        """Take the place of a node that has missed the latest move: it calls nobody, and follows whoever made that."""
        self.generation = preceding(self.generation) if self.generation > 1 else 0

    def agree(self, intent: Intent) -> None:
        """Both relays want it, or our relay has moved already."""
        self._move(MoveInput.AGREED)
        self.intent = intent

    def abandon(self, now: int) -> None:
        """Give up asking for a while."""
        self._move(MoveInput.ABANDONED)
        self.intent = None
        self.quiet_until = now + BACK_OFF_NS

    def applied(self, now: int, verify_ns: int) -> Intent:
        """The kernel has taken the change."""
        self._move(MoveInput.APPLIED)
        intent = self._current()
        self.previous, self.active = self.active, intent.target
        self.generation = intent.generation
        self.moved_at = now
        self.is_pinned = intent.reason in CHOSEN
        self.next_step = now + verify_ns
        self.notices_left = NOTICE_REPEATS
        return intent

    def learn(self, intent: Intent) -> None:
        """People asked for a move that this node has followed by another's banner, which does not say why."""
        if intent.reason not in CHOSEN:
            return
        own, move = self.intent, (intent.target, intent.generation)
        if own is not None and (own.target, own.generation) == move:
            self.intent = msgspec.structs.replace(own, reason=intent.reason)
        if (self.active, self.generation) == move:
            self.is_pinned = True

    def unpin(self) -> None:
        """What an operator chose is a path like any other again, also where the move towards it is still under way."""
        self.is_pinned = False
        if self.intent is not None and self.intent.reason in CHOSEN:
            self.intent = msgspec.structs.replace(self.intent, reason=Reason.NONE)

    def change(self, paths: tuple[Path, ...], active: Path) -> None:
        """The paths of the pair are others; a move towards one that stays the same goes on, any other is given up."""
        assert self.state is not MoveState.APPLYING, "the mesh does not change while the kernel is being asked"
        twins = {(path.key, path.rank): path for path in paths}
        self.paths = paths
        self.previous = twins.get((self.previous.key, self.previous.rank), active)
        is_same = (self.active.key, self.active.rank) == (active.key, active.rank)
        self.active = active
        if self.intent is None:
            return
        target = twins.get((self.intent.target.key, self.intent.target.rank))
        if target is not None and is_same:
            self.intent = msgspec.structs.replace(self.intent, target=target)
            return
        self._move(MoveInput.ABANDONED if self.state is MoveState.PROPOSING else MoveInput.SETTLED)
        self.intent = None

    def failed(self, now: int) -> None:
        """The kernel has refused the change."""
        self._move(MoveInput.FAILED)
        self.intent = None
        self.quiet_until = self.refused_until = now + BACK_OFF_NS

    def settled(self) -> None:
        """The move is verified, or given up on."""
        self._move(MoveInput.SETTLED)
        self.intent = None

    def is_patient(self, now: int) -> bool:
        """Whether the current proposal still stands."""
        return now - self._current().began < PATIENCE_NS

    def message(
        self,
        kind: CoordinationKind,
        target: NodeName,
        *,
        intent: Intent,
        reason: Reason | None = None,
        relays: int = 0,
    ) -> Coordination:
        """One coordination message about a move."""
        return Coordination(
            kind=kind,
            pair=intent.target.pair,
            rank=intent.target.rank,
            generation=intent.generation,
            nonce=intent.nonce,
            target=target,
            reason=intent.reason if reason is None else reason,
            relays=relays,
        )

    @property
    def _latest(self) -> int:
        is_behind = moves_between(self.generation, self.heard_generation) > 0
        return self.heard_generation if is_behind else self.generation

    def _current(self) -> Intent:
        assert self.intent is not None, f"a move in state {self.state} has an intent"
        return self.intent

    def _move(self, cause: MoveInput) -> None:
        self.state = TRANSITIONS[self.state][cause]
