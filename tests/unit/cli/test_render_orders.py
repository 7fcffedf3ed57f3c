"""Standing orders, a line each."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.render_orders import render_orders
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.ids import NodeName
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import MINUTE
from tests.support.example_status import HEALTHY, NOW_NS


def _lines(*orders, drained=()):
    shown = msgspec.structs.replace(HEALTHY, orders=orders, drained=drained)
    return list(render_orders(shown, NOW_NS, paint_nothing))


BACKUPS = NodeName("b2"), NodeName("a2")


@pytest.mark.parametrize(
    ("order", "line"),
    [
        (
            Order(kind=OrderKind.PAUSE, name="ann", reason="new switch", until_ns=NOW_NS + 90 * MINUTE),
            "PAUSE  everywhere: automatic failover is suspended, by ann: new switch, for 1.5 h more",
        ),
        (
            Order(kind=OrderKind.PIN, name="ann", location="onprem", rank=3, until_ns=NOW_NS + MINUTE),
            "PIN  traffic to onprem is pinned to rank 3, and comes back there after a failover, by ann, for 1 min more",
        ),
        (
            Order(kind=OrderKind.DRAIN, name="ann", until_ns=NOW_NS),
            "DRAIN  this node is taken out of service: others move off it, by ann, about to end",
        ),
        (
            Order(kind=OrderKind.PIN, name="", location="onprem", rank=3, relays=BACKUPS, until_ns=NOW_NS + MINUTE),
            "PIN  traffic to onprem is pinned to b2 - a2, and comes back there after a failover, for 1 min more",
        ),
        (
            Order(kind=OrderKind.CONFIRM, name="", location="onprem", rank=0, until_ns=NOW_NS + MINUTE // 2),
            "CONFIRM  to onprem: back to rank 0 unless you run `meshwatchctl confirm`, for 30 s more",
        ),
    ],
)
def test_an_order_says_what_whose_and_how_long(order, line):
    """What a person on call has to know before asking its owner."""
    assert [line] == _lines(order)


def test_other_drained_nodes_are_named():
    """This node's own drain has a line already."""
    assert ["DRAINED  a1: taken out of service on purpose"] == _lines(drained=(NodeName("a1"), HEALTHY.node))
