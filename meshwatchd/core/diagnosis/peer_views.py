"""What nodes tell each other about their own legs, as bits in every packet's banner.

A bit of `view_up` (`banner_windows.bit_of`) says that the leg is good, of `view_known` that the sender knows. Six
pairs, those of four locations, fit in one banner; in a bigger mesh peers say one window after the other, and each is
kept by itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import IntEnum

from meshwatchd.core.diagnosis.banner_windows import PAIR_BITS, WINDOW_PAIRS, bit_of
from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.model.events import Banner
from meshwatchd.model.settings import MINUTE, SECOND


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
        if leg is Leg.UNKNOWN:
            continue
        bit = bit_of(pair, view)
        known |= 1 << bit
        if leg is Leg.ALIVE:
            up |= 1 << bit
    return up, known


def without(banner: Banner, pairs: Iterable[int]) -> Banner:
    """A banner that says nothing about some pairs."""
    dropped = frozenset(pairs)
    bits = sum(((1 << PAIR_BITS) - 1) << bit_of(pair, 0) for pair in dropped)
    return Banner(
        view_up=banner.view_up & ~bits,
        view_known=banner.view_known & ~bits,
        active=tuple(active for active in banner.active if active.pair not in dropped),
        is_admin_down=banner.is_admin_down,
        has_misfit=banner.has_misfit,
        window=banner.window,
    )


KEY_NEWS_NS = 5 * SECOND
"""How long a packet under another key counts: nodes send many a second, the adapter tells one of them."""

KEY_PROOF_NS = 2 * SECOND
"""How long they have to come: nobody can tell who sent one that is signed with an unknown key. A node that has another
key goes on for ever; what is recorded or made up once names nobody."""

KEY_REPEAT_NS = MINUTE
"""How often it is told again while it goes on, whatever keys they claim."""


LOST_NS = 1 * SECOND
"""Several probes of the slowest kind, in each of which a live daemon would have spoken."""

OUTDATED_NS = 1 * MINUTE
"""At rest two nodes of different locations may not speak to each other for a quarter of that."""

DRAIN_MEMORY_NS = 60 * MINUTE
"""A drained node that is silent is being worked on; after so long its silence is worth a look all the same."""


_NOTHING = Banner(), -1


class PeerViews:
    """The latest banner of every peer, and when the peer was last heard."""

    def __init__(self) -> None:
        self._latest: dict[str, tuple[Banner, int]] = {}
        self._windows: dict[tuple[str, int], tuple[Banner, int]] = {}
        self._other_keys: dict[str, tuple[int, int]] = {}
        self._key_told: dict[str, int] = {}

    def note(self, peer: str, banner: Banner, now: int) -> None:
        """Keep what a peer says."""
        self._latest[peer] = (banner, now)
        if banner.window:
            self._windows[peer, banner.window] = (banner, now)

    def retain(self, peers: Container[str]) -> None:
        """Forget all others: nodes that come and go have a name of their own each."""
        self._latest = {peer: said for peer, said in self._latest.items() if peer in peers}
        self._windows = {key: said for key, said in self._windows.items() if key[0] in peers}
        self._other_keys = {peer: at for peer, at in self._other_keys.items() if peer in peers}
        self._key_told = {peer: told for peer, told in self._key_told.items() if peer in peers}

    def is_lost(self, peer: str, now: int) -> bool:
        """Whether a peer's daemon has not been heard for so long that nothing can be agreed with it."""
        return now - self._latest.get(peer, (None, 0))[1] >= LOST_NS

    def is_outdated(self, peer: str, now: int) -> bool:
        """Whether what a peer said of itself last is too old to go on being believed."""
        return now - self._latest.get(peer, (None, 0))[1] >= OUTDATED_NS

    def was_heard(self, peer: str, *, since: int) -> bool:
        """Whether a peer has been heard since an instant."""
        latest = self._latest.get(peer)
        return latest is not None and latest[1] >= since

    def is_admin_down(self, peer: str, now: int) -> bool:
        """Whether a peer's last word was that it is taken out of service."""
        banner, heard_at = self._latest.get(peer, (None, 0))
        return banner is not None and banner.is_admin_down and now - heard_at <= DRAIN_MEMORY_NS

    def said_by(self, peer: str) -> Banner:
        """A peer's last word."""
        return self._latest.get(peer, _NOTHING)[0]

    def note_other_key(self, peer: str, now: int, *, is_known: bool = False) -> bool:
        """A packet in a peer's name is signed with another key than ours; True when that is worth telling.

        A key that is accepted here is no news: during a rotation it is what the others still use.
        """
        since, last = self._other_keys.get(peer, (now, now))
        if is_known:
            since = now - KEY_PROOF_NS
        elif now - last > KEY_NEWS_NS:
            since = now
        self._other_keys[peer] = (since, now)
        if is_known or now - self._key_told.get(peer, -KEY_REPEAT_NS) < KEY_REPEAT_NS:
            return False
        self._key_told[peer] = now
        return True

    def other_keys(self, now: int) -> tuple[str, ...]:
        """Peers in whose name such packets have been coming lately, sorted."""
        return tuple(
            sorted(
                peer
                for peer, (since, last) in self._other_keys.items()
                if last - since >= KEY_PROOF_NS and now - last <= KEY_NEWS_NS
            )
        )

    def generations(self, pair: int, *, since: int) -> list[int]:
        """The generations of a pair that peers heard since an instant are at."""
        windows = ((peer, said) for (peer, _), said in self._windows.items())
        said = {
            peer: active.generation
            for peer, (banner, heard_at) in (*self._latest.items(), *windows)
            for active in banner.active
            if heard_at >= since and active.pair == pair
        }
        return list(said.values())

    def read(self, peer: str, pair: int, view: View, *, since: int) -> Leg:
        """What a peer says of one leg; nothing when it was not heard since the given instant."""
        banner, heard_at = self._latest.get(peer, _NOTHING)
        if banner.window:
            banner, heard_at = self._windows.get((peer, pair // WINDOW_PAIRS + 1), _NOTHING)
        bit = bit_of(pair, view)
        if heard_at < since or not banner.view_known >> bit & 1:
            return Leg.UNKNOWN
        return Leg.ALIVE if banner.view_up >> bit & 1 else Leg.DEAD
