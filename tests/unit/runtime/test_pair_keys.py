"""Who may speak for a name, and what the engine is told of the keys of pairs."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.identity import NodeIdentity, load_identity
from meshwatchd.core.membership.identities import GRACE_NS, HOLD_NS
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND
from meshwatchd.runtime.pair_keys import NOTHING_HELD, PairKeys
from meshwatchd.wire.hello import Greeting, Stamp, fingerprint
from tests.support import hellos

A1, B1 = NodeName("a1"), NodeName("b1")
PEER = NodeIdentity(b"b" * 32)
FORGET_NS = 1000 * SECOND
YEAR_NS = 365 * 86_400 * SECOND


def _pair_keys(folder):
    told: list[PairBinding] = []
    return PairKeys(A1, folder, forget_ns=FORGET_NS, tell=told.extend), told


def _greeting(identity=PEER, **more):
    public = None if identity is None else identity.public
    return Greeting(sender=B1, stamp=Stamp(1, 1), hello=hellos.hello("b1"), identity=public, **more)


def test_the_engine_hears_of_each_step(tmp_path):
    """It accepts first, then signs, then refuses what others could have signed."""
    pairs, told = _pair_keys(tmp_path)
    (own,) = told
    assert (A1, True, True) == (own.peer, own.signs, own.is_alone)
    assert pairs.identity is not None
    mine = fingerprint(pairs.identity.public)
    steps = []
    for now, word in (
        (0, {}),
        (2 * HOLD_NS, {"holds": mine}),
        (3 * HOLD_NS, {"holds": mine, "signs_pair": True}),
        (3 * HOLD_NS + GRACE_NS, {}),
    ):
        pairs.hear(_greeting(**word), now)
        assert ("b1",) == pairs.advance(now)
        steps.append((told[-1].signs, told[-1].is_alone))

    assert [(False, False), (True, False), (True, False), (True, True)] == steps
    assert {PEER.share(pairs.identity.public)} == {each.shared for each in told[1:]}


def test_the_word_to_a_peer_follows_what_the_engine_does(tmp_path):
    """Nothing before the engine has had time to accept."""
    pairs, _told = _pair_keys(tmp_path)
    assert pairs.identity is not None
    pairs.hear(_greeting(holds=fingerprint(pairs.identity.public)), 0)

    assert (NOTHING_HELD, False) == pairs.word_to(B1, HOLD_NS - 1)
    assert (fingerprint(PEER.public), True) == pairs.word_to(B1, HOLD_NS)
    assert (NOTHING_HELD, False) == pairs.word_to(NodeName("b2"), HOLD_NS)


def test_a_restart_goes_on_with_what_was_kept(tmp_path):
    """Unless this node is known by another identity than the one its peers spoke of."""
    pairs, _told = _pair_keys(tmp_path)
    assert pairs.identity is not None
    pairs.hear(_greeting(holds=fingerprint(pairs.identity.public), signs_pair=True), 0)
    kept = pairs.kept(GRACE_NS, GRACE_NS + 1000)

    for own, is_bound in ((pairs.identity.public, True), (PEER.public, False), (None, False)):
        again, told = _pair_keys(tmp_path)
        again.restore(kept, own, now=10, wall_ns=GRACE_NS + 1010)
        assert ("b1",) == again.advance(10)
        assert (is_bound, is_bound) == (told[-1].signs, told[-1].is_alone)
        assert not again.accepts(_greeting(NodeIdentity(b"t" * 32)), 11)


def test_a_clock_that_is_behind_puts_off_no_key_of_a_pair(tmp_path):
    """A machine without a clock of its own begins in the past: what was kept then seems to come from the future."""
    pairs, _told = _pair_keys(tmp_path)
    assert pairs.identity is not None
    pairs.hear(_greeting(holds=fingerprint(pairs.identity.public), signs_pair=True), 0)
    kept = pairs.kept(GRACE_NS, 56 * YEAR_NS)

    again, told = _pair_keys(tmp_path)
    again.restore(kept, pairs.identity.public, now=10, wall_ns=0)
    again.advance(10)
    assert not told[-1].is_alone
    assert ("b1",) == again.advance(10 + GRACE_NS)
    assert told[-1].is_alone


def test_what_is_forgotten_is_taken_from_the_engine(tmp_path):
    """The next identity of the name is a first one."""
    pairs, told = _pair_keys(tmp_path)
    pairs.hear(_greeting(), 0)
    thief = _greeting(NodeIdentity(b"t" * 32))
    assert not pairs.accepts(thief, 1)
    assert "meshwatchctl forget" in pairs.problems(2)[0]

    assert pairs.forget("b1", 3)
    pairs.advance(3)
    assert (B1, b"") == (told[-1].peer, told[-1].shared)
    assert pairs.accepts(thief, 4)
    assert () == pairs.problems(4)


def test_a_node_that_cannot_have_an_identity_says_why_and_goes_on(tmp_path):
    """It is watched and watches; others may speak in its name."""
    load_identity(tmp_path)
    (tmp_path / "identity.key").chmod(0o666)
    pairs, told = _pair_keys(tmp_path)
    pairs.hear(_greeting(), 0)

    assert pairs.identity is None
    assert "others can speak in this node's name" in pairs.problems(0)[0]
    assert ("b1",) == pairs.advance(0)
    assert [] == told
    assert not pairs.accepts(_greeting(None), 1)


@pytest.mark.parametrize("field", ["identity", "step"])
def test_what_is_kept_fits_into_the_file(tmp_path, field):
    """Bytes survive JSON."""
    pairs, _told = _pair_keys(tmp_path)
    pairs.hear(_greeting(), 0)
    (kept,) = pairs.kept(0, 0)

    again = msgspec.json.decode(msgspec.json.encode(kept), type=type(kept))
    assert getattr(kept, field) == getattr(again, field)
