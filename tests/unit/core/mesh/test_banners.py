"""What rides in every packet: when this node says something else, and what it makes of others' words."""

from __future__ import annotations

import msgspec

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.settings import SECOND
from tests.support.bench import message, primary_is_silent, ready


def test_words_about_an_unknown_pair_are_ignored():
    """A peer with a bigger mesh in its configuration."""
    bench = ready("b3")
    banner = ev.Banner(active=(ev.ActivePath(pair=5, rank=1, generation=1),))
    notice = msgspec.structs.replace(message(ev.CoordinationKind.NOTICE, rank=1, target="b3"), pair=5)
    bench.hear("b2", notice, banner)

    assert [] == bench.said(out.ApplySwitch)


def test_the_banner_is_set_only_when_it_changes():
    """It is encoded into every prepared packet."""
    bench = ready("a3")
    bench.run(2 * SECOND)
    count = len(bench.said(out.SetBanner))
    bench.run(5 * SECOND)
    assert count == len(bench.said(out.SetBanner))
    bench.silent = primary_is_silent
    bench.run(SECOND)

    assert count < len(bench.said(out.SetBanner))


def test_a_doubt_is_known_to_every_pair_until_it_is_taken_back():
    """By the next packet that speaks without it."""
    bench = ready("a1")
    up, known = encode({(0, View.RELAY_PATH): Leg.DEAD})
    told = (bench.controller.active,)
    bench.hear("a2", None, ev.Banner(view_up=up, view_known=known, active=told))
    assert bench.controller.suspicion.has_doubters

    bench.hear("a2", None, ev.Banner(active=told))
    assert not bench.controller.suspicion.has_doubters
