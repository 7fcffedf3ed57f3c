"""WireGuard devices between two looks: what is told, when, and how often is looked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import cast

import msgspec
import pytest

from meshwatchd.adapters.wireguard.poll import Poll
from meshwatchd.model.events import MeshStirred
from meshwatchd.model.snapshot import Link, WireGuardPeer, WireGuardState
from meshwatchd.runtime.tunnel_poll import (
    KEPT_S,
    POLL_IN_DOUBT_S,
    POLL_S,
    POLL_STIRRED_S,
    STIRRED_PEERS,
    STIRRED_S,
    Surroundings,
    TunnelPoll,
)
from tests.unit.runtime.test_debounce import VirtualLoop

LINKS = tuple(
    Link(name=name, index=index, kind="wireguard", is_up=True, mtu_bytes=1420)
    for index, name in enumerate(("kilo0", "mw0"))
)


class Room:
    """Devices that change at given instants, and everything that is told, with virtual seconds.

    Args:
        lives: by device, instants and the peers from there on.
        look_s: how long a look takes.
    """

    def __init__(self, lives, *, is_calm=True, look_s=0.0):
        self.lives, self.loop, self.look_s = lives, VirtualLoop(), look_s
        self.links = LINKS
        self.problems: dict[str, str] = {}
        self.looks: list[tuple[float, int]] = []
        self.stirs: list[tuple[float, MeshStirred]] = []
        self.changes: list[float] = []
        self.unread: list[tuple[str, str]] = []
        around = Surroundings(
            links=lambda: self.links,
            device=lambda: "kilo0",
            is_calm=lambda: is_calm,
            observed=lambda states: self.looks.append((self.now, len(states))),
            changed=lambda: self.changes.append(self.now),
            stirred=lambda stirred: self.stirs.append((self.now, stirred)),
            unread=lambda device, why: self.unread.append((device, why)),
        )
        self.poll = TunnelPoll(around, poll=lambda: cast("Poll", self), until_next_s=lambda period_s: period_s)

    @property
    def now(self):
        """Virtual seconds, rounded."""
        return round(self.loop.time(), 2)

    async def states(self, links):
        """Of the devices that live; the others give no answer."""
        await asyncio.sleep(self.look_s)
        self.problems = {link.name: "no socket" for link in links if self._is_mute(link.name)}
        return tuple(
            WireGuardState(
                device=link.name,
                public_key="own",
                listen_port=1,
                at_ns=1,
                peers=tuple(WireGuardPeer(public_key=key, handshake_ns=1) for key in self._peers(link.name)),
            )
            for link in links
            if link.name in self.lives and not self._is_mute(link.name)
        )

    def _is_mute(self, name):
        return name in self.lives and self._peers(name) is None

    def _peers(self, name):
        return [peers for at, peers in self.lives[name] if at <= self.now][-1]

    def live(self, seconds, *doubts):
        """For so long, with doubt at these instants."""

        async def scenario():
            for instant in doubts:
                self.loop.call_at(instant, self.poll.doubt)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.poll.watch()

        try:
            self.loop.run_until_complete(scenario())
        finally:
            self.loop.close()
        return self


def test_all_devices_are_looked_at_in_their_time():
    """Every other second, more often while something is wrong, and what is told has changed."""
    calm = Room({"kilo0": [(0, "a")], "mw0": [(0, "b"), (3, "c")]}).live(7)
    assert [(0, 2), (POLL_S, 2), (2 * POLL_S, 2), (3 * POLL_S, 2)] == calm.looks
    assert [0, 2 * POLL_S] == calm.changes
    assert [] == calm.stirs, "mw0 is our own"
    assert 7 == len(Room({"kilo0": [(0, "a")]}, is_calm=False).live(6 * POLL_IN_DOUBT_S + 0.5).looks)


def test_another_peer_is_seen_without_doubt_as_well():
    """By the next look, and only once."""
    room = Room({"kilo0": [(0, "a"), (1, "b")]}).live(5)
    assert [(POLL_S, MeshStirred(what="kilo0 has other peers", is_rebuilding=True))] == room.stirs


def test_peers_that_are_soon_back_are_not_missing_until_the_next_look_of_calm():
    """What a look in between has seen is looked at again several times before it would be called a fault."""
    looks = [at for at, _ in Room({"kilo0": [(0, "a"), (1.9, ""), (2.1, "a")]}).live(12).looks]
    gaps = {at: then - at for at, then in itertools.pairwise(looks)}
    stirred_until = POLL_S + STIRRED_S
    assert max(gap for at, gap in gaps.items() if POLL_S <= at < stirred_until - 0.1) == pytest.approx(POLL_STIRRED_S)
    assert {POLL_S} == {round(gap, 1) for at, gap in gaps.items() if at > stirred_until}


@pytest.mark.parametrize(("peers", "least"), [(1, 2), (STIRRED_PEERS + 1, 0)])
def test_a_busy_machine_does_not_keep_the_looks_after_a_change_apart(peers, least):
    """Nor does the pause that a slow look is worth; a device with many peers has its pause."""
    many = [f"peer {number}" for number in range(peers)]
    room = Room({"kilo0": [(0, many), (1, [*many[1:], "another"])]}, look_s=0.06).live(30)
    looks = [at for at, _ in room.looks]
    stirred = next(at for at, _ in room.stirs)
    assert least <= sum(stirred < at <= stirred + 1.5 for at in looks) <= least + 1


def test_a_device_that_changes_all_the_time_is_looked_at_for_that_a_third_of_the_time():
    """Somebody may change it for ever."""
    peers = [(at / 4, "ab"[at % 2]) for at in range(400)]
    looks = [at for at, _ in Room({"kilo0": peers}).live(90).looks]
    assert len(looks) < 90 / POLL_S * 2


def test_in_doubt_the_next_look_is_due_at_once():
    """Unless the last one is as young as half a percent of the time demands; nothing is told of what is as it was."""
    room = Room({"kilo0": [(0, "a")]}).live(1.9, 0.5)
    assert [] == room.stirs
    assert [(0, 1), (0.5, 1)] == room.looks


def test_a_device_without_an_answer_is_told_once():
    """It has lost no peers: what they are is not known."""
    room = Room({"kilo0": [(0, "a"), (1, None)]}).live(4 * POLL_S)
    assert [("kilo0", "no socket")] == room.unread
    assert [] == room.stirs


def test_a_device_without_an_answer_is_as_it_was_until_it_is_read():
    """What could not be read is not gone: a finding about it, or about what it sends to, stands."""
    lives = {"mw0": [(0, "c")], "kilo0": [(0, "a"), (1, None), (7, "b")]}
    room = Room(lives).live(5)
    assert [0] == room.changes
    assert [("kilo0", "a"), ("mw0", "c")] == [(each.device, each.peers[0].public_key) for each in room.poll.told]
    assert room.poll.told == room.poll.states
    assert [(0, 2), (POLL_S, 2), (2 * POLL_S, 2)] == room.looks

    room = Room(lives).live(9)
    assert [0, 4 * POLL_S] == room.changes
    assert "b" == room.poll.states[0].peers[0].public_key


def test_a_device_that_gives_no_answer_for_a_minute_is_no_longer_as_it_was():
    """Its counters stand still: a peer that falls silent would never be told, and one that has come back never end."""
    room = Room({"kilo0": [(0, "a"), (3, None), (70, "a")], "mw0": [(0, "c")]}).live(72)
    last_read_s = POLL_S
    looks = dict(room.looks)

    assert {2} == {count for at, count in room.looks if at < last_read_s + KEPT_S}
    assert 1 == looks[last_read_s + KEPT_S]
    assert 2 == looks[70]
    assert [0, last_read_s + KEPT_S, 70] == room.changes
    assert [("kilo0", "no socket")] == room.unread


def test_a_device_whose_process_has_ended_is_gone():
    """Its socket is away, and its tun stays where it was made to: nothing says that it speaks WireGuard."""
    room = Room({"kilo0": [(0, "a")], "mw0": [(0, "c")]})
    room.loop.call_at(3, lambda: room.lives.pop("kilo0"))
    room.live(5)

    assert ["mw0"] == [each.device for each in room.poll.states]
    assert [0, 2 * POLL_S] == room.changes


@pytest.mark.parametrize("links", [LINKS[1:], (msgspec.structs.replace(LINKS[0], index=9), LINKS[1])])
def test_a_device_that_was_deleted_is_gone_read_or_not(links):
    """Also where another has its name and gives no answer yet."""
    room = Room({"kilo0": [(0, "a"), (1, None)], "mw0": [(0, "c")]})
    room.loop.call_at(3, lambda: setattr(room, "links", links))
    room.live(5)
    assert [0, 2 * POLL_S] == room.changes
    assert ["mw0"] == [each.device for each in room.poll.told]
    assert [(0, 2), (POLL_S, 2), (2 * POLL_S, 1)] == room.looks
