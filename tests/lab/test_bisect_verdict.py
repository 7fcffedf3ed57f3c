"""A verdict on an overlay finds its place by itself: the culprit's location looks, and `explain` tells."""

from __future__ import annotations

import pytest

from netnslab import Lab, faults
from netnslab.daemons import Daemons, Event
from netnslab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

READY_S, PROVEN_S = 90, 120


def test_a_black_hole_below_the_nic_is_named_where_it_is(tmp_path):
    """The leader and its members name the wire, once each; the other location has nothing to look at."""
    with (
        Lab.up("kilo-flannel") as lab,
        Daemons(lab, tmp_path, settings={"daemon": {"mode": "observe"}}) as daemons,
    ):
        daemons.wait_ready(timeout_s=READY_S)

        def proofs() -> list[Event]:
            told = daemons.events(since_ns=0)
            return [event for event in told if event.name == "path.bisected"]

        assert [] == proofs()
        with faults.overlay_black_hole(lab, "b1"):
            wait_until(
                lambda: {"b1", "b2", "b3"} == {event.node for event in proofs()},
                timeout_s=PROVEN_S,
                what="proofs of all three",
                poll_s=1,
            )
            page = daemons.control("b3", "explain").stdout

        found = proofs()
        assert {"b2", "b1"} == {str(event.fields["peer"]) for event in found}
        assert {"wire"} == {str(event.fields["place"]) for event in found}
        assert "bisected the way to b1: packets die at wire" in page
