"""What an engine that cannot keep up measures of itself, and what it tells of that."""

from __future__ import annotations

import msgspec


class LoadMeasured(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """How much of the time since the last of these, a second as a rule, the loop has been at work.

    Attributes:
        busy_percent: of the wall clock, 0 to 100: what a core that is shared leaves to others counts as work.
    """

    busy_percent: int


class AnswersDropped(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """The kernel threw answers away at this node's own socket, which was full.

    Attributes:
        packets: how many since the last of these.
    """

    packets: int


class EngineOverloaded(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The engine cannot keep up and probes more slowly than it should.

    Attributes:
        busy_percent: of its time that it is at work.
        dropped: answers that were lost at its own socket since it could keep up.
        late_ns: one wake-up in a hundred is later than this.
        slowdown: by how much the packets a second are fewer than they would be.
        remedy: what an operator can do.
    """

    busy_percent: int
    dropped: int
    late_ns: int
    slowdown: float
    remedy: str


class EngineRelieved(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The engine keeps up again and probes at its full pace.

    Attributes:
        dropped: answers that were lost at its own socket meanwhile.
    """

    dropped: int


class ProbesHeld(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """More pairs of locations want to burst at once than this node may: they take turns, and some things take longer.

    Attributes:
        left: probes that are kept for what matters more than what was held back.
    """

    left: int


class ProbesFreed(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """There is room for bursts again.

    Attributes:
        held: probes that were wanted and not sent meanwhile; what was asked for again counts again.
    """

    held: int
