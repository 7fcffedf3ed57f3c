"""Whose questions are answered, how long taps stay open, and that one exchange does not spoil another."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from meshwatchd.bisect.leg import find_leg
from meshwatchd.bisect.peer import UdpPeerTaps
from meshwatchd.model.bisection import PeerCounts, SeriesName
from meshwatchd.model.errors import KernelError
from meshwatchd.model.ids import NodeName
from meshwatchd.runtime.remote_tap import DATAGRAMS_PER_S, LIFE_S, LOOKED_AT_PER_S, TapDesk
from meshwatchd.wire.auth import MeshKeys, MeshSecret, PairKey, Purpose
from meshwatchd.wire.tap_request import TapContent, TapKind, TapMessage, decode, encode, find_pair
from tests.support.lab_mesh import declared_mesh
from tests.support.tap_responder import TapResponder

SECRET = MeshSecret(secret=bytes(range(32)))


def keys_of(node: str, secret: MeshSecret = SECRET) -> MeshKeys:
    """A node's keys for all nodes of the mesh, and for one that is not."""
    keys = MeshKeys(node, [secret], Purpose.TAPS)
    for name in (*(each.name for each in declared_mesh().node), "x9"):
        if name != node:
            keys.admit(name)
    return keys


KEYS = keys_of("b1")
STRANGE = MeshSecret(secret=bytes(32))


class FakeTaps:
    """Counts three of everything."""

    def __init__(self) -> None:
        self.is_closed = False
        self.readings = 0

    def read(self) -> None:
        """Count it."""
        self.readings += 1

    def at_lower(self, series, *, is_outgoing, is_answer):
        """Requests in, answers out."""
        return 3 if is_outgoing is is_answer else 0

    at_overlay = at_lower

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


class Room:
    """A desk of b1 with a clock and the taps it has opened."""

    def __init__(self, keys: MeshKeys | None = KEYS) -> None:
        self.now_s = 100.0
        self.opened: list[tuple[str, int, FakeTaps]] = []
        self.error: KernelError | None = None
        self.desk = TapDesk("b1", mesh=declared_mesh, keys=lambda: keys, open_taps=self._open, clock=lambda: self.now_s)

    def _open(self, asker, ssid):
        if self.error is not None:
            raise self.error
        self.opened.append((asker.name, ssid, FakeTaps()))
        return self.opened[-1][2]

    def ask(
        self, kind: TapKind, *, nonce: int = 1, sender: str = "b3", target: str = "b1", secret: MeshSecret = SECRET
    ):
        """The decoded answer to a question, or None."""
        content = TapContent(sender=NodeName(sender), target=NodeName(target), ssid=0xC001)
        own = keys_of(sender, secret)
        answer = self.desk.take(encode(TapMessage(kind=kind, nonce=nonce, content=content), own.sending("b1")))
        if answer is None:
            return None
        pair = find_pair(answer, own)
        assert isinstance(pair, PairKey)
        return decode(answer, pair)


def test_an_exchange():
    """Taps for the asker's session, ready, and what they saw, with the asker's nonce and name."""
    room = Room()
    ready, counts = room.ask(TapKind.BEGIN), room.ask(TapKind.COLLECT)

    assert [("b3", 0xC001)] == [(asker, ssid) for asker, ssid, _taps in room.opened]
    assert (TapKind.READY, 1, "b1", "b3") == (ready.kind, ready.nonce, ready.content.sender, ready.content.target)
    assert (TapKind.COUNTS, len(SeriesName)) == (counts.kind, len(counts.content.counts))
    assert (
        PeerCounts(name=SeriesName.UNDERLAY, at_lower=3, at_overlay=3, answers_at_overlay=3, answers_at_lower=3)
        == counts.content.counts[0]
    )


def test_questions_may_come_twice():
    """A lost answer is asked for again: the same taps, the same counts."""
    room = Room()

    assert room.ask(TapKind.BEGIN) == room.ask(TapKind.BEGIN)
    assert 1 == len(room.opened)
    assert room.ask(TapKind.COLLECT) == room.ask(TapKind.COLLECT) is not None


@pytest.mark.parametrize(
    "question",
    [
        {"secret": STRANGE},
        {"target": "b2"},
        {"sender": "x9"},
    ],
)
def test_strangers_get_nothing(question):
    """Another key, a question for somebody else, a name that is not of the mesh."""
    room = Room()

    assert room.ask(TapKind.BEGIN, **question) is None
    assert [] == room.opened


def test_noise_and_answers_get_nothing():
    """What is no question is not answered, or two desks would talk for ever."""
    room = Room()

    assert room.desk.take(b"noise") is None
    assert room.ask(TapKind.READY) is None
    assert room.ask(TapKind.COUNTS) is None
    assert room.ask(TapKind.COLLECT) is None


def test_without_a_key_nobody_is_believed():
    """A daemon fresh from its package."""
    assert Room(keys=None).ask(TapKind.BEGIN) is None


def test_one_exchange_at_a_time():
    """Another asker waits for the counts to be fetched, the same asker begins anew."""
    room = Room()
    room.ask(TapKind.BEGIN, nonce=1)

    assert room.ask(TapKind.BEGIN, nonce=2, sender="b2") is None
    assert room.ask(TapKind.BEGIN, nonce=3) is not None
    assert room.ask(TapKind.COLLECT, nonce=1) is None
    assert room.ask(TapKind.COLLECT, nonce=3, sender="b2") is None
    assert room.ask(TapKind.COLLECT, nonce=3) is not None
    assert room.ask(TapKind.BEGIN, nonce=4, sender="b2") is not None
    assert [True, True, False] == [taps.is_closed for _, _, taps in room.opened]


def test_taps_that_nobody_closes_are_closed():
    """The asker was killed; until then what passes is taken in."""
    room = Room()
    room.ask(TapKind.BEGIN)
    room.now_s += LIFE_S - 0.1
    room.desk.read()
    room.now_s += 0.1
    room.desk.read()

    assert not room.desk.is_open
    assert room.opened[0][2].is_closed
    assert room.opened[0][2].readings >= 2
    assert room.ask(TapKind.COLLECT) is None


def test_taps_that_cannot_be_opened_are_not_promised():
    """No permission here: the run there stays one-sided."""
    room = Room()
    room.error = KernelError("tap eth0", 1, "not permitted")

    assert room.ask(TapKind.BEGIN) is None
    assert not room.desk.is_open


def test_a_flood_is_not_looked_at():
    """So many in a second, and in the next one again."""
    room = Room()
    for _ in range(LOOKED_AT_PER_S):
        room.desk.take(b"noise")

    assert room.ask(TapKind.BEGIN) is None
    room.now_s += 1
    assert room.ask(TapKind.BEGIN) is not None


def test_noise_uses_up_nobodys_questions():
    """Whoever has no key is not counted among those that have."""
    room = Room()
    for _ in range(LOOKED_AT_PER_S - 1):
        room.desk.take(b"noise")

    assert room.ask(TapKind.BEGIN) is not None


def test_a_signed_question_may_come_so_often_in_a_second():
    """A key that has got out of hand."""
    room = Room()
    answers = [room.ask(TapKind.BEGIN) for _ in range(DATAGRAMS_PER_S + 1)]

    assert None is answers.pop()
    assert all(answers)


def test_an_exchange_that_is_replayed_keeps_nobody_waiting():
    """It had its taps; replayed, it neither opens them again nor uses up what others may ask."""
    room = Room()
    room.ask(TapKind.BEGIN, nonce=1)
    room.ask(TapKind.COLLECT, nonce=1)
    room.now_s += LIFE_S
    for _ in range(DATAGRAMS_PER_S):
        assert room.ask(TapKind.BEGIN, nonce=1) is None

    assert room.ask(TapKind.BEGIN, nonce=2, sender="b2") is not None


def test_closing_without_an_exchange_is_nothing():
    """At the end of the agent."""
    desk = Room().desk
    desk.close()
    desk.read()

    assert not desk.is_open


def test_the_mesh_is_looked_up_at_each_question():
    """A node that was found out a moment ago may ask."""
    room = Room()
    mesh = declared_mesh()
    room.desk._mesh = lambda: msgspec.structs.replace(mesh, node=())
    assert room.ask(TapKind.BEGIN) is None
    room.desk._mesh = lambda: mesh
    assert room.ask(TapKind.BEGIN) is not None


def test_asker_and_asked_understand_each_other():
    """Both sides' own code over a socket: the counts arrive, for every series."""
    leg = msgspec.structs.replace(
        find_leg(declared_mesh(), "b3", "b1", port=1), underlay_source="127.0.0.1", underlay_destination="127.0.0.1"
    )
    room = Room()
    with TapResponder(room.desk.take) as desk, UdpPeerTaps(keys_of("b3"), Random(1)) as taps:
        taps.begin(msgspec.structs.replace(leg, underlay_port=desk.port), 0xC009)
        counts = taps.counts()

    assert [("b3", 0xC009)] == [(asker, ssid) for asker, ssid, _taps in room.opened]
    assert list(SeriesName) == [each.name for each in counts]
    assert {3} == {each.at_lower for each in counts}
