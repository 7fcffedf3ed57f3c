"""What nodes say of their legs, in 32 bits a window."""

from __future__ import annotations

import pytest

from meshwatchd.core.diagnosis.banner_windows import cut
from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import (
    DRAIN_MEMORY_NS,
    KEY_NEWS_NS,
    KEY_PROOF_NS,
    KEY_REPEAT_NS,
    LOST_NS,
    PeerViews,
    View,
    encode,
)
from meshwatchd.model.events import Banner


def _banner(legs):
    up, known = encode(legs)
    return Banner(view_up=up, view_known=known)


def test_the_bits_lie_where_the_banner_says():
    """Bit 5 * pair + leg, as everybody's wire format has it."""
    up, known = encode({(0, View.WIREGUARD): Leg.ALIVE, (1, View.RELAY_PATH): Leg.DEAD})

    assert (0b1, 0b1000_0001) == (up, known)


@pytest.mark.parametrize("leg", list(Leg))
@pytest.mark.parametrize("view", list(View))
@pytest.mark.parametrize("pair", [0, 1, 5])
def test_what_is_said_is_what_is_read(pair, view, leg):
    """Alive, dead and unknown survive, and touch no other bit."""
    views = PeerViews()
    views.note("b1", _banner({(pair, view): leg}), 10)

    assert leg is views.read("b1", pair, view, since=0)
    others = [(p, v) for p in (0, 1, 5) for v in View if (p, v) != (pair, view)]
    assert {Leg.UNKNOWN} == {views.read("b1", p, v, since=0) for p, v in others}


def test_another_key_is_told_once_a_minute_whatever_it_claims_to_be():
    """Each peer's for itself; one that is accepted here is no news."""
    views = PeerViews()
    assert not views.note_other_key("b1", 0, is_known=True)
    assert views.note_other_key("b1", 0)
    assert not views.note_other_key("b1", KEY_REPEAT_NS - 1)
    assert views.note_other_key("b1", KEY_REPEAT_NS)
    assert views.note_other_key("a3", KEY_REPEAT_NS)


def test_a_key_that_is_accepted_here_names_its_node_at_once():
    """Its packets are signed, so nobody else has sent them."""
    views = PeerViews()
    views.note_other_key("b1", 0, is_known=True)

    assert ("b1",) == views.other_keys(KEY_NEWS_NS)
    assert () == views.other_keys(KEY_NEWS_NS + 1)


def test_one_packet_under_an_unknown_key_names_nobody():
    """Anybody can make one up; a node that has another key goes on."""
    views = PeerViews()
    views.note_other_key("b1", 0)
    assert () == views.other_keys(0)
    views.note_other_key("b1", KEY_NEWS_NS + 1)
    assert () == views.other_keys(KEY_NEWS_NS + 1)

    views.note_other_key("b1", KEY_NEWS_NS + 1 + KEY_PROOF_NS)
    assert ("b1",) == views.other_keys(KEY_NEWS_NS + 1 + KEY_PROOF_NS)


def test_the_bits_of_the_node_say_nothing_of_a_seventh_pair():
    """A banner that is all there is to say knows six pairs and two bits about its node."""
    views = PeerViews()
    views.note("b1", Banner(view_up=2**32 - 1, view_known=2**32 - 1), 10)

    assert Leg.UNKNOWN is views.read("b1", 6, View.WIREGUARD, since=0)


def test_windows_are_kept_each_for_itself():
    """What was said of pair 8 a moment ago is not taken back by a packet about the first six pairs, and grows old."""
    whole = _banner({(1, View.WIREGUARD): Leg.ALIVE, (8, View.WIREGUARD): Leg.DEAD})
    views = PeerViews()
    views.note("b1", cut(whole, 2), 10)
    views.note("b1", cut(whole, 1), 20)

    assert Leg.DEAD is views.read("b1", 8, View.WIREGUARD, since=10)
    assert Leg.UNKNOWN is views.read("b1", 8, View.WIREGUARD, since=11)
    assert Leg.ALIVE is views.read("b1", 1, View.WIREGUARD, since=20)
    assert Leg.UNKNOWN is views.read("b1", 14, View.WIREGUARD, since=0)
    assert not views.is_lost("b1", 20)


def test_old_words_are_no_words():
    """What a peer said before the fault says nothing about it."""
    views = PeerViews()
    views.note("b1", _banner({(0, View.WIREGUARD): Leg.ALIVE}), 10)

    assert Leg.ALIVE is views.read("b1", 0, View.WIREGUARD, since=10)
    assert Leg.UNKNOWN is views.read("b1", 0, View.WIREGUARD, since=11)
    assert Leg.UNKNOWN is views.read("b2", 0, View.WIREGUARD, since=0)


def test_the_latest_word_counts():
    """The same banner again counts as heard; another one replaces it."""
    views = PeerViews()
    views.note("b1", _banner({(0, View.WIREGUARD): Leg.ALIVE}), 1)
    views.note("b1", _banner({(0, View.WIREGUARD): Leg.ALIVE}), 9)
    assert Leg.ALIVE is views.read("b1", 0, View.WIREGUARD, since=9)
    views.note("b1", _banner({(0, View.WIREGUARD): Leg.DEAD}), 10)

    assert Leg.DEAD is views.read("b1", 0, View.WIREGUARD, since=9)


def test_a_drained_peer_may_be_silent_for_an_hour():
    """Its last word counts; one that has not come back by then is worth a look."""
    views = PeerViews()
    assert not views.is_admin_down("b2", 10)
    views.note("b2", Banner(is_admin_down=True), 10)
    assert views.is_admin_down("b2", 10 + DRAIN_MEMORY_NS)
    assert not views.is_admin_down("b2", 11 + DRAIN_MEMORY_NS)
    views.note("b2", Banner(), 20)
    assert not views.is_admin_down("b2", 20)


def test_who_has_not_been_heard_for_a_second_is_lost():
    """And who has never been."""
    views = PeerViews()
    assert views.is_lost("b2", LOST_NS)
    views.note("b2", Banner(), 10)
    assert not views.is_lost("b2", 9 + LOST_NS)
    assert views.is_lost("b2", 10 + LOST_NS)
