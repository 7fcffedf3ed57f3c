"""When the engine looks at the mesh's WireGuard device, and what it tells the core of it."""

from __future__ import annotations

from typing import cast

from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.wireguard.glance import Glance
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.model.snapshot import WireGuardPeer
from meshwatchd.runtime.tunnel_glance import CALM_NS, DOUBT_NS, PATIENCE_NS, TunnelGlance

GONE = MeshStirred(what="kilo0 has lost peers", is_rebuilding=False)
BACK = MeshStirred(what="kilo0 has other peers", is_rebuilding=True)
OLD = (WireGuardPeer(public_key="a1", handshake_ns=1, rx_bytes=900, tx_bytes=900),)
NEW = (WireGuardPeer(public_key="a1", handshake_ns=2, rx_bytes=92, tx_bytes=148),)


class Room:
    """A device that is played, with virtual time in milliseconds."""

    def __init__(self, *, device="kilo0"):
        self.now = 10 * SECOND
        self.peers = OLD
        self.is_waiting = False
        self.asked: list[float] = []
        self.told: list[tuple[float, MeshStirred]] = []
        self.look = TunnelGlance(
            poller=cast("Poller", None),
            emit=lambda stirred: self.told.append((self.ms, stirred)),
            glance=self._glance,
            clock=lambda: self.now,
        )
        self.look.use(device)

    @property
    def ms(self):
        """Since the beginning."""
        return self.now / MS - 10_000

    def _glance(self, *, poller, take):
        self.take = take
        return cast("Glance", self)

    def ask(self, device):
        """As Glance's."""
        self.asked.append(self.ms)
        if not self.is_waiting:
            self.take(device, self.peers)

    def live(self, until_ms, **peers):
        """The loop goes round every 5 ms; `at_20=NEW` changes the device 20 ms after the beginning."""
        changes = {int(name.removeprefix("at_")): found for name, found in peers.items()}
        while self.ms < until_ms:
            self.peers = changes.get(round(self.ms), self.peers)
            self.look.advance(self.now)
            self.now += 5 * MS


def test_peers_that_vanish_for_a_fifth_of_a_second_are_told_twice():
    """They are gone when the first answer is missed, or a moment later; and one doubt is enough."""
    room = Room()
    room.look.refresh(room.now)
    room.look.doubt(room.now)
    room.live(1500, at_30=(), at_230=NEW)
    (gone, first), (back, second) = room.told
    assert (GONE, BACK) == (first, second)
    assert 30 <= gone < 60
    assert 230 <= back < 260
    assert max(room.asked) < 1300, "a second after the last change nothing is expected any more"


def test_peers_that_are_the_same_again_are_told_by_their_counters():
    """Nobody looked while they were gone."""
    room = Room()
    room.look.refresh(room.now)
    room.peers = NEW
    room.look.doubt(room.now)
    assert [(0, BACK)] == room.told


def test_doubt_about_something_else_costs_a_few_looks():
    """The device is as it was: nothing is told."""
    room = Room()
    room.look.refresh(room.now)
    room.look.doubt(room.now)
    room.live(1000)
    assert [] == room.told
    assert 2 < len(room.asked) < 15
    assert max(room.asked) <= DOUBT_NS / MS


def test_in_calm_it_is_remembered_what_the_device_is_like():
    """Every five seconds; a first look tells nothing, as there is nothing to compare it with."""
    room = Room()
    for second in range(11):
        room.now = (10 + second) * SECOND
        room.look.refresh(room.now)
    assert [0, CALM_NS / MS, 2 * CALM_NS / MS] == room.asked
    assert [] == room.told


def test_a_node_that_does_not_lead_looks_at_nothing():
    """Its kilo0 is down and carries nothing; one that leads from here on begins with a look of its own."""
    room = Room(device="")
    room.look.refresh(room.now)
    room.look.doubt(room.now)
    room.live(100)
    assert [] == room.asked
    room.look.use("kilo0")
    room.look.refresh(room.now)
    room.take("wg9", ())
    assert [] == room.told, "an answer about another device than the one that is looked at"
    room.look.doubt(room.now)
    assert [100, 100] == room.asked


def test_a_process_that_is_slow_is_waited_for():
    """Asked anew every 20 ms it would never come to answer."""
    room = Room()
    room.is_waiting = True
    for _ in range(3):
        room.look.doubt(room.now)
        room.live(room.ms + 200)
    assert [0, PATIENCE_NS / MS] == room.asked
