"""What the standard reflector remembers of its senders: counts for stateful reflection, and past packets.

STAMP itself has no protection against replay: whoever has recorded a signed packet may send it again, and a
stateful reflector would count it. So a session answers each packet once.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import ip_address
from typing import Final

MAX_SESSIONS: Final = 4096
MAX_SOURCE_SESSIONS: Final = 256
"""Of one source, which is an IPv4 address or an IPv6 /64: nobody takes all sessions from the others."""
IDLE_NS: Final = 60_000_000_000
"""A session that was silent for so long gives way to another. Its packets are forgotten, since its sender's clock may
have been set back; its count goes on, since there are senders as slow as that."""
REORDERED: Final = 128
"""Packets that may overtake one another and still be told from replayed ones."""
_HALF: Final = 1 << 63
_WHOLE: Final = 1 << 64

SessionKey = tuple[str, int, bytes, int]
"""Sender's address and port, the address it asked, its SSID (RFC 8972 section 3)."""


class Session:
    """One sender's.

    Attributes:
        answers: how many it got; every packet that is accepted gets one.
        used_ns: when its last packet was accepted (CLOCK_MONOTONIC).
        follow_up_sequence, follow_up_ntp: number of the last answer that left, and when the kernel had taken it;
            0 before the first.
    """

    __slots__ = ("_floor_ntp", "_newest_ntp", "_recent", "answers", "follow_up_ntp", "follow_up_sequence", "used_ns")

    def __init__(self, now_ns: int, former: Session | None = None) -> None:
        self.answers: int = 0 if former is None else former.answers
        self.used_ns = now_ns
        self.follow_up_sequence: int = 0 if former is None else former.follow_up_sequence
        self.follow_up_ntp: int = 0 if former is None else former.follow_up_ntp
        self._recent: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._floor_ntp: int | None = None
        self._newest_ntp: int | None = None

    def begin_again(self, sequence: int, timestamp_ntp: int) -> None:
        """Count from 0 if the sender does: tools that always use one port are started more than once.

        A copy of an earlier first packet begins nothing; it is not later than what came since.
        """
        if self._newest_ntp is None or _is_later(timestamp_ntp, self._newest_ntp):
            self._newest_ntp = timestamp_ntp
            if sequence == 0:
                self.answers, self.follow_up_sequence, self.follow_up_ntp = 0, 0, 0

    def count(self) -> int:
        """The number of the next answer, from 0 on."""
        number = self.answers & 0xFFFF_FFFF
        self.answers += 1
        return number

    def left(self, timestamp_ntp: int) -> None:
        """The answer counted last has left, at this time."""
        self.follow_up_sequence, self.follow_up_ntp = (self.answers - 1) & 0xFFFF_FFFF, timestamp_ntp

    def is_replay(self, sequence: int, timestamp_ntp: int) -> bool:
        """Whether this packet was here before, or is older than all that are remembered; remembers it if not.

        Compares modulo 2**64: the era of NTP timestamps ends in 2036 (RFC 5905 section 6).
        """
        packet = (timestamp_ntp, sequence)
        floor = self._floor_ntp
        if packet in self._recent or (floor is not None and not _is_later(timestamp_ntp, floor)):
            return True
        self._recent[packet] = None
        if len(self._recent) > REORDERED:
            (oldest, _), _ = self._recent.popitem(last=False)
            self._floor_ntp = oldest if floor is None or _is_later(oldest, floor) else floor
        return False


def _is_later(one: int, other: int) -> bool:
    return 0 < (one - other) % _WHOLE < _HALF


def source_of(address: str) -> bytes:
    """The source that an address counts as: all of IPv4, 64 bits of IPv6."""
    return ip_address(address.partition("%")[0]).packed[:_SOURCE_BYTES]


_SOURCE_BYTES: Final = 8


class Sessions:
    """All of them, the least recently used first; in all and of each source so many."""

    def __init__(self, limit: int = MAX_SESSIONS, source_limit: int = MAX_SOURCE_SESSIONS) -> None:
        self._limit, self._source_limit = limit, source_limit
        self._sessions: OrderedDict[SessionKey, Session] = OrderedDict()
        self._of_source: dict[bytes, OrderedDict[SessionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def session(self, key: SessionKey, now_ns: int) -> Session | None:
        """The sender's session, a new one if need be; None when its source or everybody has as many as there may be.

        A stranger who invents senders cannot push out those that are alive: only an idle session gives way.
        """
        found = self._sessions.get(key)
        if found is not None and now_ns - found.used_ns < IDLE_NS:
            return found
        source = source_of(key[0])
        if found is None and not self._make_room(source, now_ns):
            return None
        made = self._sessions[key] = Session(now_ns, found)
        self._of_source.setdefault(source, OrderedDict())[key] = None
        self._move_to_end(key)
        return made

    def touch(self, key: SessionKey, session: Session, now_ns: int) -> None:
        """A packet of this session was accepted."""
        session.used_ns = now_ns
        self._move_to_end(key)

    def _move_to_end(self, key: SessionKey) -> None:
        self._sessions.move_to_end(key)
        self._of_source[source_of(key[0])].move_to_end(key)

    def _make_room(self, source: bytes, now_ns: int) -> bool:
        own = self._of_source.get(source, ())
        if len(own) >= self._source_limit:
            return self._forget_idle(next(iter(own)), now_ns)
        return len(self._sessions) < self._limit or self._forget_idle(next(iter(self._sessions)), now_ns)

    def _forget_idle(self, key: SessionKey, now_ns: int) -> bool:
        if now_ns - self._sessions[key].used_ns < IDLE_NS:
            return False
        del self._sessions[key]
        source = source_of(key[0])
        del self._of_source[source][key]
        if not self._of_source[source]:
            del self._of_source[source]
        return True
