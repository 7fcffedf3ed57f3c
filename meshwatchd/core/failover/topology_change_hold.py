"""The mesh's own agent at work: Kilo changing leaders or starting again is no fault, and silence meanwhile none either.

A leader that dies leaves every kernel as it was; Kilo rewrites it. That tells the two apart:

    kilo0 goes down or vanishes, Kilo's routes go   TRANSIENT_NS: an agent that starts again makes it anew in 0.2 s
    kilo0 comes up, its peers or Kilo's routes      CHANGE_NS: a leader change is settled by its second handshake, and
    become others                                   by then the mesh has been taken over as it is

A node whose device it is tells all others at once: two bits of the banner say "here" and "at a neighbour of mine", so
that a relay's word crosses the tunnel over a standby link while the tunnel itself is being made anew. While it lasts
nobody proposes and nobody grants to go back to the primary path, and no verdict is stated. Traffic may leave that
path: standby links do not depend on what Kilo rewrites. It ends after MAX_NS whatever is done or said: who rewrites
for longer is broken.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshwatchd.model.events import Banner, MeshStirred
from meshwatchd.model.settings import MS, SECOND, MeshSettings
from meshwatchd.model.snapshot import Snapshot, WireGuardPeer, WireGuardState

TRANSIENT_NS = 400 * MS
CHANGE_NS = 2500 * MS
MAX_NS = 5 * SECOND
CALM_NS = 10 * SECOND
"""After so much calm patience is whole again, and after a part of it in part."""
REST_NS = 3 * SECOND
"""Less is no calm: an agent's own pauses between two of its changes are shorter."""

HEARSAY_NS = 600 * MS
"""A peer's word counts for so long unless it is repeated, as each of its packets does, or taken back."""

KILO_PROTOCOL = 4
"""RTPROT_STATIC: Kilo's routes (kilo.md 3.0)."""

HERE = 1 << 30
NEARBY = 1 << 31
"""Bits of the banner's masks that no pair of locations uses: known and up, it is so; HERE known and not up, there is no
agent here, since it has ended."""

ABOUT_NODE = HERE | NEARBY


def is_agent_away(banner: Banner) -> bool:
    """Whether a node says that its agent has ended; while one is at work there the same bit says that."""
    return bool(banner.view_known & ~banner.view_up & HERE)


class _Patience:
    """How long an agent at work, or talk of it, excuses silence: MAX_NS in all, which calm gives back.

    An agent that ends and another that starts some seconds later are two times of work, each excused for as long as it
    needs. Who never rests gets nothing back.
    """

    __slots__ = ("_last", "_left_ns", "_until")

    def __init__(self) -> None:
        self._left_ns, self._last, self._until = MAX_NS, 0, 0

    def excuse(self, now: int, lasts_ns: int) -> int:
        """Something was done or said at this moment; until when it excuses, `lasts_ns` later at most."""
        calm_ns = now - self._last
        if calm_ns >= REST_NS:
            self._left_ns = min(MAX_NS, self._left_ns + calm_ns * MAX_NS // CALM_NS)
        begins = max(now, self._until)
        ends = min(now + lasts_ns, begins + self._left_ns)
        if ends > begins:
            self._left_ns -= ends - begins
            self._until = ends
        self._last = now
        return self._until


class Unrest:
    """What is known of rewriting in progress, here and elsewhere."""

    def __init__(self) -> None:
        self._until = 0
        self._work = _Patience()
        self._nearby: dict[str, int] = {}
        self._elsewhere: dict[str, tuple[str, int]] = {}
        self._words: dict[str, _Patience] = {}

    def stirred(self, now: int, *, is_rebuilding: bool) -> bool:
        """An object of the mesh's own agent was changed on this node; whether that is news.

        Args:
            now: nanoseconds.
            is_rebuilding: something came into being, or another took its place; else something only went.
        """
        was_on = now < self._until
        self._until = self._work.excuse(now, CHANGE_NS if is_rebuilding else TRANSIENT_NS)
        return not was_on and now < self._until

    def heard(self, peer: str, banner: Banner, now: int, *, location: str, home: str) -> bool:
        """A peer's banner has one of the bits; whether its location is this node's and that is news.

        Who says so for longer than any agent needs is believed again when it has been silent about it for a while.
        """
        until = self._words.setdefault(peer, _Patience()).excuse(now, HEARSAY_NS)
        if now >= until:
            self.unsaid(peer)
            return False
        if location != home:
            self._elsewhere[peer] = location, until
            return False
        if not banner.view_up & HERE:
            return False
        was_on = bool(self.bits(now))
        self._nearby[peer] = until
        return not was_on

    def unsaid(self, peer: str) -> None:
        """A peer's banner has none of the bits: it is over there."""
        self._nearby.pop(peer, None)
        self._elsewhere.pop(peer, None)

    @property
    def has_hearsay(self) -> bool:
        """Whether a peer has said anything that is not taken back."""
        return bool(self._nearby or self._elsewhere)

    def is_told_by_others(self, now: int) -> bool:
        """Whether a node of another location speaks of it: it has told everybody, here as well."""
        return any(now < until for _, until in self._elsewhere.values())

    def is_on(self, remote: str, now: int) -> bool:
        """Whether silence between this node's location and another accuses nobody at this moment."""
        # Asked several times for each packet, and nearly always there is nothing to look through.
        if now < self._until:
            return True
        if not self.has_hearsay:
            return False
        elsewhere = self._elsewhere.values()
        return self._is_nearby(now) or any(place == remote and now < until for place, until in elsewhere)

    def bits(self, now: int) -> int:
        """What the banner says of it."""
        return (HERE if now < self._until else 0) | (NEARBY if self._is_nearby(now) else 0)

    def _is_nearby(self, now: int) -> bool:
        return bool(self._nearby) and any(now < until for until in self._nearby.values())


def rewritten(before: Snapshot, after: Snapshot, mesh: MeshSettings) -> str:
    """What of the mesh's own agent a later snapshot shows made anew; empty for nothing, and for what only went."""
    device = mesh.wireguard_device
    old, new = before.link(device), after.link(device)
    if new is not None and (old is None or old.index != new.index or (new.is_up and not old.is_up)):
        return f"{device} was made or brought up"
    peers = [{p.public_key for s in each.wireguard if s.device == device for p in s.peers} for each in (before, after)]
    if peers[0] and peers[1] - peers[0]:
        return f"{device} has other peers"
    if before.is_bounded or after.is_bounded:
        return ""
    ways = [
        {(r.dst, r.table): (r.dev, r.via) for r in each.device_routes if r.protocol == KILO_PROTOCOL}
        for each in (before, after)
    ]
    moved = [key for key, way in ways[1].items() if ways[0].get(key, way) != way]
    return f"routes to {moved[0][0]} and {len(moved) - 1} more lead another way" if moved else ""


def exchanged(before: Sequence[WireGuardState], after: Sequence[WireGuardState]) -> MeshStirred | None:
    """What was done to the peers of the mesh's WireGuard device between two looks at it; None for nothing.

    Kilo replaces all peers at once: those that are the same have no session afterwards, hence no handshake, and count
    from nothing again. The handshake is soon made up for; the counters tell for longer.
    """
    old = {(state.device, peer.public_key): peer for state in before for peer in state.peers}
    known = {state.device for state in before}
    new = {(s.device, peer.public_key): peer for s in after if s.device in known for peer in s.peers}
    came = [key for key, peer in new.items() if key not in old or _is_anew(old[key], peer)]
    went = [key for key in old if key not in new and key[0] in {state.device for state in after}]
    if not came and not went:
        return None
    word = "has other peers" if came else "has lost peers"
    return MeshStirred(what=f"{(came or went)[0][0]} {word}", is_rebuilding=bool(came))


def _is_anew(before: WireGuardPeer, after: WireGuardPeer) -> bool:
    has_lost_session = before.handshake_ns > 0 == after.handshake_ns
    return has_lost_session or after.rx_bytes < before.rx_bytes or after.tx_bytes < before.tx_bytes
