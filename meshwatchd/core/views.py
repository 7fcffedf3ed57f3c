"""What nodes tell each other about their own legs, as bits in every packet's banner.

Bit `BITS_PER_PAIR * pair + Leg` of `view_up` says that the leg is good, of `view_known` that the sender knows. Six
pairs, those of four locations, fit in 32 bits; a bigger mesh keeps quiet about the rest, and verdicts there rest on
local evidence alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from meshwatchd.core.classifier import Leg
from meshwatchd.model.events import Banner
from meshwatchd.model.settings import MINUTE, SECOND

BITS_PER_PAIR = 5
VIEW_BITS = 32
VIEW_PAIRS = VIEW_BITS // BITS_PER_PAIR


class View(IntEnum):
    """The legs a node speaks of."""

    WIREGUARD = 0
    MEMBERS_OVERLAY = 1
    RELAY_PATH = 2
    LEADER_UNDERLAY = 3
    LEADER_IPIP = 4


def encode(legs: dict[tuple[int, View], Leg]) -> tuple[int, int]:
    """Turn legs, by pair and kind, into the (up, known) bit masks."""
    up = known = 0
    for (pair, view), leg in legs.items():
        if pair >= VIEW_PAIRS or leg is Leg.UNKNOWN:
            continue
        bit = pair * BITS_PER_PAIR + view
        known |= 1 << bit
        if leg is Leg.ALIVE:
            up |= 1 << bit
    return up, known


def without(banner: Banner, pairs: Iterable[int]) -> Banner:
    """A banner that says nothing about some pairs."""
    dropped = frozenset(pairs)
    bits = sum(((1 << BITS_PER_PAIR) - 1) << pair * BITS_PER_PAIR for pair in dropped if pair < VIEW_PAIRS)
    return Banner(
        view_up=banner.view_up & ~bits,
        view_known=banner.view_known & ~bits,
        active=tuple(active for active in banner.active if active.pair not in dropped),
    )


KEY_NEWS_NS = 5 * SECOND
"""How long a packet under another key counts: nodes send many a second, the adapter tells one of them."""

KEY_REPEAT_NS = MINUTE
"""How often the same is told again while it goes on."""


LOST_NS = 1 * SECOND
"""Several probes of the slowest kind, in each of which a live daemon would have spoken."""

DRAIN_MEMORY_NS = 60 * MINUTE
"""A drained node that is silent is being worked on; after so long its silence is worth a look all the same."""


class PeerViews:
    """The latest banner of every peer, and when the peer was last heard."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[Banner, int]] = {}
        self._other_keys: dict[str, int] = {}
        self._key_told: dict[str, tuple[int, int]] = {}

    def note(self, peer: str, banner: Banner, now: int) -> None:
        """Keep what a peer says."""
        self._latest[peer] = (banner, now)

    def is_lost(self, peer: str, now: int) -> bool:
        """Whether a peer's daemon has not been heard for so long that nothing can be agreed with it."""
        return now - self._latest.get(peer, (None, 0))[1] >= LOST_NS

    def is_admin_down(self, peer: str, now: int) -> bool:
        """Whether a peer's last word was that it is taken out of service."""
        banner, heard_at = self._latest.get(peer, (None, 0))
        return banner is not None and banner.is_admin_down and now - heard_at <= DRAIN_MEMORY_NS

    def note_other_key(self, peer: str, key_id: int, now: int, *, is_known: bool = False) -> bool:
        """A packet in a peer's name is signed with another key than ours; True when that is worth telling.

        A key that is accepted here is no news: during a rotation it is what the others still use.
        """
        self._other_keys[peer] = now
        if is_known:
            return False
        told_id, told_at = self._key_told.get(peer, (-1, now))
        if key_id == told_id and now - told_at < KEY_REPEAT_NS:
            return False
        self._key_told[peer] = (key_id, now)
        return True

    def other_keys(self, now: int) -> tuple[str, ...]:
        """Peers in whose name such packets have come lately, sorted."""
        return tuple(sorted(peer for peer, at in self._other_keys.items() if now - at <= KEY_NEWS_NS))

    def read(self, peer: str, pair: int, view: View, *, since: int) -> Leg:
        """What a peer says of one leg; nothing when it was not heard since the given instant."""
        banner, heard_at = self._latest.get(peer, (Banner(), -1))
        bit = pair * BITS_PER_PAIR + view
        if heard_at < since or pair >= VIEW_PAIRS or not banner.view_known >> bit & 1:
            return Leg.UNKNOWN
        return Leg.ALIVE if banner.view_up >> bit & 1 else Leg.DEAD
