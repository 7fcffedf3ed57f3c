"""The outer packets to one node of another cluster: whether they go their own way, or through a neighbour.

                 silent                  vouched for             proven
    SUSPECTED ------------> BROKEN ---------------> TRIED ---------------> REROUTED
        | answered            ^  ^                    |                     |    ^  |
        v                     |  +-- not proven ------+       silent        |    |  | its own way
      CLEAR <-- answered -----+---------------------------------------------+    |  | answers
        ^                     | silent, and the neighbour as well                |  v
        +-------------------- RETURNING <---------------------------------------- +-+
                answered                                             silent

A neighbour is taken only after packets through it have been answered, and is kept only while packets of the overlay
are. One whose trial was in vain has carried nothing but questions: trials go on, since the proof of either end needs a
trial of the other, which may begin at any time. One over which the overlay was silent has to wait. Which port a network
drops cannot be asked of WireGuard, which answers no stranger: so the last proof in either direction is the overlay
itself. A way that is left has answered nothing at all, so trying another costs nothing; the way home is tried while the
neighbour still answers, and after each such attempt in vain twice as much time passes.

What is asked is answered by agents. One that is away is silent while packets pass: so nothing begins unless the
engine's probes miss the node too, and nothing ends unless they do or a neighbour gets an answer of its agent.

A packet that is forwarded meets no route of this kind (`iif lo`): it is led aside once, by the node that made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from meshwatchd.model.outer_reroute import FarNode, Relay, Way, WayAnswer, WayQuestion
from meshwatchd.model.settings import SECOND, PolicySettings
from meshwatchd.model.units import HOUR

ROUND_NS: Final = SECOND // 2
SILENT_ROUNDS: Final = 6
"""Each a new flow: at a loss of one in ten that is one chance in a million."""
ANSWERED_ROUNDS: Final = 4
PROOF_ROUNDS: Final = 5
"""Of packets through a neighbour, every second one of full size."""
TRIAL_ROUNDS, OTHER_TRIAL_ROUNDS = 12, 17
"""The other end finds a neighbour of its own meanwhile, where packets are lost in both directions.

One end's trials take longer than the other's: where one neighbour of several forwards at either end, both ends are at
theirs together sooner or later, and would not be for good if they changed at the same pace.
"""
MOST_DOUBLED: Final = 3
"""So often a trial doubles when all neighbours have been tried: the other end may get the switch hours later, and each
change of neighbours costs the kernel a route."""
VERIFY_ROUNDS: Final = 16
"""Likewise: both have to lead their packets aside before the first is answered in the overlay."""
DOUBTED_ROUNDS: Final = 2
"""Then neighbours are asked whether the node still answers such questions at all: its agent may have ended."""
RELAY_LOST_ROUNDS: Final = 2
BACK_AT_ONCE_ROUNDS: Final = 3
RETURN_SILENT_ROUNDS: Final = 3
MOST_ASKED: Final = 4
"""Neighbours that are asked in one round."""
BUSY_ROUNDS: Final = 60
SLOW_ROUNDS: Final = 10
"""So long each round asks; then one in so many, since who has found nobody for half a minute waits for people."""
IDLE_LOOKS: Final = 3
"""So many rounds ask where the half minute is left out, until another node has the place."""
REFUSED_NS: Final = 30 * SECOND
"""For a neighbour over which packets of the overlay were led in vain."""
LEAST_NS: Final = SECOND
LONGEST_NS: Final = HOUR
"""Of what doubles."""


class WayState(StrEnum):
    """What is done about one node."""

    CLEAR = "clear"
    SUSPECTED = "suspected"
    BROKEN = "broken"
    TRIED = "tried"
    REROUTED = "rerouted"
    RETURNING = "returning"


class WayInput(StrEnum):
    """What moves it."""

    ANSWERED = "answered"
    SILENT = "silent"
    VOUCHED = "vouched"
    PROVEN = "proven"
    REFUSED = "refused"
    WELL = "well"


TRANSITIONS: Mapping[WayState, Mapping[WayInput, WayState]] = MappingProxyType(
    {
        WayState.CLEAR: {},
        WayState.SUSPECTED: {WayInput.ANSWERED: WayState.CLEAR, WayInput.SILENT: WayState.BROKEN},
        WayState.BROKEN: {WayInput.ANSWERED: WayState.CLEAR, WayInput.VOUCHED: WayState.TRIED},
        WayState.TRIED: {
            WayInput.ANSWERED: WayState.CLEAR,
            WayInput.PROVEN: WayState.REROUTED,
            WayInput.REFUSED: WayState.BROKEN,
        },
        WayState.REROUTED: {WayInput.WELL: WayState.RETURNING, WayInput.REFUSED: WayState.BROKEN},
        WayState.RETURNING: {
            WayInput.ANSWERED: WayState.CLEAR,
            WayInput.SILENT: WayState.REROUTED,
            WayInput.REFUSED: WayState.BROKEN,
        },
    }
)


class Streak:
    """How often in a row a question was answered, and how often it was not."""

    def __init__(self) -> None:
        self.answered = self.silent = 0

    def count(self, *, is_answered: bool) -> None:
        """Take in one round."""
        self.answered = self.answered + 1 if is_answered else 0
        self.silent = 0 if is_answered else self.silent + 1


class OuterWay:
    """One node of another cluster.

    Args:
        far: the node.
        policy: how long a neighbour is kept, and how long its own way must have answered.
        hold_ns: what is left of an earlier time: how long a neighbour is kept at least.
        is_slow: one in so many rounds asks from the beginning: many nodes are missed, or nobody was found before.

    Attributes:
        relay: the neighbour that is tried or in use.
        vouchers: neighbours that reach the node and forward, the preferred first; as they last said.
        advised: the same for who is told: one round in which nobody answers takes no advice back.
        reason: what was wrong with the neighbour that was left last, in a sentence; empty where none was.
        hold_ns: doubles with every way home that was tried in vain.
        has_been_rerouted: a neighbour has carried outer packets since this began.
    """

    def __init__(self, far: FarNode, policy: PolicySettings, *, hold_ns: int = 0, is_slow: bool = False) -> None:
        self.far, self._policy, self._is_slow = far, policy, is_slow
        self.has_been_rerouted = False
        self.state = WayState.SUSPECTED
        self.relay: Relay | None = None
        self.vouchers: tuple[Relay, ...] = ()
        self.advised: tuple[Relay, ...] = ()
        self.reason = self._hidden = ""
        self.hold_ns = hold_ns or policy.hold_down
        self._ways = {way: Streak() for way in (Way.DIRECT, Way.RELAYED, Way.OVERLAY)}
        self._rounds = self._looks = 0
        self._since_ns = 0
        self._is_verified = self._has_answered = False
        self._refused: dict[str, tuple[int, int]] = {}
        self._trials: dict[str, int] = {}

    @property
    def is_clear(self) -> bool:
        """Whether nothing is left to be done."""
        return self.state is WayState.CLEAR

    @property
    def is_idle(self) -> bool:
        """Whether nobody has been found for so long that another node may have the place."""
        rounds = BUSY_ROUNDS + (IDLE_LOOKS * SLOW_ROUNDS if self._is_slow else 0)
        return self.state is WayState.BROKEN and self._rounds > rounds and not self.vouchers

    @property
    def is_tried(self) -> bool:
        """Whether questions go through a neighbour."""
        return self.state in (WayState.TRIED, WayState.REROUTED, WayState.RETURNING)

    @property
    def is_rerouted(self) -> bool:
        """Whether outer packets do."""
        return self.state is WayState.REROUTED

    @property
    def is_verified(self) -> bool:
        """Whether outer packets go through a neighbour, and packets in the overlay have been answered since."""
        return self.is_rerouted and self._is_verified

    @property
    def is_direct_answered(self) -> bool:
        """Whether the node answers at its own address, which leaves the port of outer packets to be lost."""
        return self._ways[Way.DIRECT].answered > 0

    def adopt(self, relay: Relay, now: int) -> None:
        """Go on from what an earlier process has left in the kernel; the overlay has to prove it anew."""
        self.relay, self.state, self._rounds, self._since_ns = relay, WayState.REROUTED, 0, now
        self.has_been_rerouted = True

    def questions(self, relays: Sequence[Relay]) -> Iterator[WayQuestion]:
        """What the next round asks; nothing in a round that is left out.

        Args:
            relays: all nodes on this node's own network, the preferred first.
        """
        is_searching = self.state is WayState.BROKEN
        if is_searching and self._rounds > BUSY_ROUNDS and self._rounds % SLOW_ROUNDS:
            self._rounds += 1
            return
        name = self.far.name
        yield WayQuestion(way=Way.DIRECT, node=name)
        yield WayQuestion(way=Way.OVERLAY, node=name)
        if self.is_tried:
            yield WayQuestion(way=Way.RELAYED, node=name, is_full=self._rounds % 2 == 1)
        if is_searching or (self.is_rerouted and self._ways[Way.OVERLAY].silent >= DOUBTED_ROUNDS):
            for each in self._asked(relays):
                yield WayQuestion(way=Way.VOUCHED, node=name, relay=each.name)

    def observe(
        self,
        answers: Mapping[WayQuestion, WayAnswer | None],
        relays: Sequence[Relay],
        now: int,
        *,
        may_move: bool,
        is_missed: bool = True,
    ) -> None:
        """Take in a round.

        Args:
            answers: to each question that was asked; None for silence.
            relays: as they were asked for.
            now: nanoseconds of a clock that never goes back.
            may_move: a neighbour may be tried and a way home begun; what is in use is left in any case once it fails.
            is_missed: the engine's probes do not reach the node's pods either. While they do, nothing is begun: a
                filter that knows their ports and not those of these questions is no dead way.
        """
        self._rounds += 1
        for question, answer in answers.items():
            if question.way in self._ways:
                self._ways[question.way].count(is_answered=answer is not None and self._is_own(question, answer))
        if any(each.way is Way.VOUCHED for each in answers):
            self._looks += 1
            before, self.vouchers = self.vouchers, tuple(each for each in relays if _is_vouched(each, answers))
            self.advised = self.vouchers or before
        is_begun = self.state in (WayState.REROUTED, WayState.RETURNING)
        if not (is_missed or is_begun):
            self.state = TRANSITIONS[self.state][WayInput.ANSWERED]
            return
        self._has_answered = self._has_answered or self._ways[Way.OVERLAY].answered > 0
        while (found := self._input(now, may_move=may_move, is_missed=is_missed)) is not None:
            self._move(found, now, may_move=may_move)
            if found is WayInput.REFUSED:
                break  # neighbours are asked anew first

    def _is_own(self, question: WayQuestion, answer: WayAnswer) -> bool:
        """Whether a request arrived as this node's: who hides the source behind an address of its own is no relay."""
        if question.way is not Way.RELAYED or self.relay is None or answer.seen == self.relay.source:
            return True
        self._hidden = f"{self.relay.name} puts {answer.seen} in the place of this node's address"
        return False

    def _asked(self, relays: Sequence[Relay]) -> Sequence[Relay]:
        """Those who vouched last, and each time some others."""
        others = [each for each in relays if each not in self.vouchers and each.name != self.far.name]
        first = self._looks * MOST_ASKED % max(1, len(others))
        turned = [*others[first:], *others[:first]]
        return [*self.vouchers, *turned][:MOST_ASKED]

    def _input(self, now: int, *, may_move: bool, is_missed: bool) -> WayInput | None:
        overlay, relayed = self._ways[Way.OVERLAY], self._ways[Way.RELAYED]
        match self.state:
            case WayState.SUSPECTED | WayState.BROKEN | WayState.TRIED if overlay.answered >= ANSWERED_ROUNDS:
                return WayInput.ANSWERED
            case WayState.SUSPECTED:
                return WayInput.SILENT if overlay.silent >= SILENT_ROUNDS else None
            case WayState.BROKEN:
                return WayInput.VOUCHED if may_move and self._candidate(now) is not None else None
            case WayState.TRIED if relayed.answered >= PROOF_ROUNDS:
                return WayInput.PROVEN
            case WayState.TRIED:
                return WayInput.REFUSED if self._rounds >= self._trial_rounds() or not may_move else None
            case WayState.REROUTED:
                return self._input_rerouted(now, may_move=may_move, is_missed=is_missed)
            case WayState.RETURNING:
                return self._input_returning(is_missed=is_missed)
            case _:
                return None

    def _input_returning(self, *, is_missed: bool) -> WayInput | None:
        overlay, relayed = self._ways[Way.OVERLAY], self._ways[Way.RELAYED]
        is_carried = not is_missed and self._rounds >= VERIFY_ROUNDS
        if overlay.answered >= ANSWERED_ROUNDS or is_carried:
            return WayInput.ANSWERED
        if overlay.silent < RETURN_SILENT_ROUNDS or not (is_missed or self._has_answered):
            return None
        return WayInput.SILENT if relayed.silent < RELAY_LOST_ROUNDS else WayInput.REFUSED

    def _input_rerouted(self, now: int, *, may_move: bool, is_missed: bool) -> WayInput | None:
        overlay, direct, relayed = (self._ways[way] for way in (Way.OVERLAY, Way.DIRECT, Way.RELAYED))
        # Silence of a node whose agent has ended says nothing of packets: the engine's probes, or a neighbour to whom
        # that agent does answer, have to confirm it.
        is_confirmed = is_missed or bool(self.vouchers)
        is_lost = is_confirmed and overlay.silent >= (SILENT_ROUNDS if self._is_verified else VERIFY_ROUNDS)
        # Both: where one packet in ten is lost through the neighbour two questions in a row are, each minute.
        is_relay_silent = min(relayed.silent, overlay.silent) >= RELAY_LOST_ROUNDS
        if is_relay_silent and direct.answered >= BACK_AT_ONCE_ROUNDS:
            return WayInput.WELL
        if is_lost:
            return WayInput.REFUSED
        is_carried = not is_missed and self._rounds >= VERIFY_ROUNDS
        self._is_verified = self._is_verified or overlay.answered >= ANSWERED_ROUNDS or is_carried
        is_held = now - self._since_ns < self.hold_ns or not may_move or not self._is_verified
        is_well = direct.answered >= max(ANSWERED_ROUNDS, self._policy.wait_to_restore // ROUND_NS)
        return WayInput.WELL if is_well and not is_held else None

    def _move(self, found: WayInput, now: int, *, may_move: bool) -> None:
        before, self.state = self.state, TRANSITIONS[self.state][found]
        if self.state is WayState.TRIED:
            self.relay, self._hidden = self._candidate(now), ""
            self._ways[Way.RELAYED] = Streak()
        elif before is WayState.TRIED and not may_move:
            self.relay = None  # an operator has paused, which says nothing of the neighbour
        elif found is WayInput.REFUSED:
            self._refuse(before, now)
        elif before is WayState.RETURNING and found is WayInput.SILENT:
            self.hold_ns = min(max(2 * self.hold_ns, LEAST_NS), LONGEST_NS)
        if self.state is WayState.REROUTED:
            self.reason = self._hidden = ""
            self._since_ns = now
            self._is_verified, self.has_been_rerouted = False, True
            self._trials.clear()
            self.vouchers, self._has_answered = (), False
        if self.state in (WayState.REROUTED, WayState.RETURNING):
            self._ways[Way.OVERLAY] = Streak()
        self._rounds = BUSY_ROUNDS if self._is_slow and before is WayState.SUSPECTED else 0

    def _candidate(self, now: int) -> Relay | None:
        """The one that was tried least; of several the preferred one."""
        free = (each for each in self.vouchers if self._refused.get(each.name, (0, 0))[0] <= now)
        return min(free, key=lambda each: self._trials.get(each.name, 0), default=None)

    def _trial_rounds(self) -> int:
        assert self.relay is not None, "a trial has a neighbour"
        rounds = TRIAL_ROUNDS if self.relay.source < self.far.address else OTHER_TRIAL_ROUNDS
        return rounds << min(self._trials.get(self.relay.name, 0), MOST_DOUBLED)

    def _refuse(self, before: WayState, now: int) -> None:
        """Leave a neighbour. One that was in use is not tried again for a while, each time twice as long."""
        assert self.relay is not None, "only a neighbour that was tried is refused"
        if before is WayState.TRIED:
            self._trials[self.relay.name] = self._trials.get(self.relay.name, 0) + 1
        else:
            _, last_ns = self._refused.get(self.relay.name, (0, 0))
            wait_ns = min(2 * last_ns, LONGEST_NS) or REFUSED_NS
            self._refused[self.relay.name] = (now + wait_ns, wait_ns)
        what = "packets through" if before is WayState.TRIED else "packets of the overlay through"
        self.reason = self._hidden or f"{what} {self.relay.name} are not answered"
        self.relay = None
        if before is WayState.RETURNING:
            self.vouchers = ()  # nobody has been asked for long


def _is_vouched(relay: Relay, answers: Mapping[WayQuestion, WayAnswer | None]) -> bool:
    said: Iterable[WayAnswer | None] = (each for asked, each in answers.items() if asked.relay == relay.name)
    return any(each is not None and each.is_reached and each.is_willing for each in said)
