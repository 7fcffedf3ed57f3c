"""What no process may forget: which leaders were changed, how to undo that, and how often lately.

It stands in an annotation of the Lease, as JSON: who holds the Lease next goes on from there, and the processes that
only steer traffic read in it what is about to change. Instants are seconds of Unix time, since monotonic clocks of two
machines have nothing in common; none decides anything that a wrong clock could do harm with but the budget.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from meshwatchd.model.decoding import Door, decode_json
from meshwatchkube.leaders import Mark

ANNOTATION = "meshwatchd.io/memory"
DAY_S = 24 * 3600
_DOOR = Door("annotation", "remove it: changes of leaders that it held are then left as they are")


class Phase(StrEnum):
    """How far a change of leaders is.

    DETOUR: traffic is to go where the change does not touch it.
    CHANGED: the marks are set; the mesh is to follow.
    STANDS: traffic may come home over the new leader; the way back is watched for.
    """

    DETOUR = "detour"
    CHANGED = "changed"
    STANDS = "stands"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of a location is, or is about to be, another node.

    Attributes:
        location: whose leader it is.
        remote: the other location of the pair whose traffic is moved out of the way.
        leader: who is to lead when this is done.
        former: who leads until then.
        via: relays of the path for the detour; empty where there is none.
        marks: to be set, in this order; an operator who changes one of them later ends our part.
        undo: marks that restore what was before the first change.
        is_return: this is the way back; afterwards nothing is left to remember.
        before: the change that stood when this one began, whose leader is broken meanwhile; it stands again afterwards.
        at_s: since when the phase lasts.
    """

    location: str
    remote: str
    leader: str
    former: str
    via: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    undo: tuple[Mark, ...] = ()
    phase: Phase = Phase.DETOUR
    is_return: bool = False
    before: Change | None = None
    at_s: int = 0

    @property
    def sides(self) -> frozenset[str]:
        """The two locations of the pair."""
        return frozenset({self.location, self.remote})

    def entering(self, phase: Phase, now_s: int) -> Change:
        """The same change in another phase."""
        return msgspec.structs.replace(self, phase=phase, at_s=now_s)

    def reversed(self, phase: Phase, now_s: int) -> Change:
        """The change the other way round."""
        return msgspec.structs.replace(
            self.entering(phase, now_s),
            leader=self.former,
            former=self.leader,
            marks=self.undo,
            undo=self.marks,
            is_return=not self.is_return,
        )


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    Attributes:
        changes: one for a location at most.
        spent_s: when leaders were changed within the last day.
    """

    changes: tuple[Change, ...] = ()
    spent_s: tuple[int, ...] = ()

    def of(self, location: str) -> Change | None:
        """The change of a location."""
        return next((change for change in self.changes if change.location == location), None)

    def with_change(self, change: Change) -> Memory:
        """With a change in place of the one of the same location."""
        return msgspec.structs.replace(self.without(change.location), changes=(*self._others(change.location), change))

    def without(self, location: str) -> Memory:
        """Without the change of a location."""
        return msgspec.structs.replace(self, changes=self._others(location))

    def ending(self, change: Change, now_s: int) -> Memory:
        """Without a change that has ended, or with the one before it in its place."""
        if change.before is None:
            return self.without(change.location)
        return self.with_change(change.before.entering(Phase.STANDS, now_s))

    def spending(self, now_s: int) -> Memory:
        """With one more change in the budget; what is older than a day counts no more."""
        return msgspec.structs.replace(self, spent_s=(*self.spent(now_s), now_s))

    def spent(self, now_s: int) -> tuple[int, ...]:
        """The changes of the last day. One in the future, by a clock that was wrong, counts as well."""
        return tuple(at_s for at_s in self.spent_s if at_s > now_s - DAY_S)

    def _others(self, location: str) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.location != location)


def decode(text: str) -> Memory:
    """Read the annotation.

    Raises:
        DecodeError: somebody else has written it.
    """
    return decode_json(text.encode(), Memory, _DOOR) if text else Memory()


def encode(memory: Memory) -> str:
    """Write the annotation."""
    return msgspec.json.encode(memory).decode()
