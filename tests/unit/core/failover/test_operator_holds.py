"""Standing orders: named, about a location, and over some day."""

from __future__ import annotations

import msgspec

from meshwatchd.core.failover.operator_holds import MAX_ORDERS, RESERVED_ORDERS, Orders
from meshwatchd.model.policy_state import Order, OrderKind

PAUSE = Order(kind=OrderKind.PAUSE, name="ann", until_ns=100, location="cloud")


def _orders(*orders):
    found = Orders()
    for order in orders:
        assert found.give(order)
    return found


def test_an_order_holds_for_its_location():
    """An empty location stands for all."""
    orders = _orders(PAUSE)
    assert PAUSE == orders.about(OrderKind.PAUSE, "cloud")
    assert None is orders.about(OrderKind.PAUSE, "onprem")
    assert None is orders.about(OrderKind.PIN, "cloud")
    everywhere = msgspec.structs.replace(PAUSE, location="")
    assert everywhere == _orders(everywhere).about(OrderKind.PAUSE, "onprem")


def test_two_owners_pause_until_both_resume():
    """Ann's end is not Bob's."""
    orders = _orders(PAUSE, msgspec.structs.replace(PAUSE, name="bob"))
    assert (PAUSE,) == orders.take_back(OrderKind.PAUSE, name="ann")
    assert "bob" == orders.about(OrderKind.PAUSE, "cloud").name
    assert 1 == len(orders.take_back(OrderKind.PAUSE))
    assert None is orders.about(OrderKind.PAUSE, "cloud")


def test_the_same_owners_second_word_replaces_the_first():
    """Longer or shorter."""
    orders = _orders(PAUSE, msgspec.structs.replace(PAUSE, until_ns=50))
    assert [50] == [order.until_ns for order in orders.standing]


def test_orders_expire_one_after_the_other():
    """To the nanosecond, and the next expiry is known."""
    late = msgspec.structs.replace(PAUSE, name="bob", until_ns=200)
    orders = _orders(PAUSE, late)
    assert 100 == orders.next_expiry
    assert () == orders.expire(99)
    assert (PAUSE,) == orders.expire(100)
    assert 200 == orders.next_expiry
    assert (late,) == orders.expire(10_000)
    assert None is orders.next_expiry


def test_only_a_drain_drains():
    """A pause leaves the node in service."""
    orders = _orders(PAUSE)
    assert not orders.is_draining
    orders.give(Order(kind=OrderKind.DRAIN, name="ann", until_ns=1))
    assert orders.is_draining


def test_a_script_that_runs_wild_is_refused():
    """What stands already may still be changed."""
    orders = _orders(*(msgspec.structs.replace(PAUSE, name=str(number)) for number in range(MAX_ORDERS)))
    assert not orders.give(PAUSE)
    assert orders.give(msgspec.structs.replace(PAUSE, name="3", until_ns=7))


def test_orders_survive_a_restart():
    """Those whose time is over meanwhile end with the next look."""
    before = _orders(PAUSE)
    after = Orders()
    after.restore(before.standing)
    assert before.standing == after.standing
    assert (PAUSE,) == after.expire(100)


def test_root_has_room_when_operators_have_none():
    """Whose order stands already may say it again."""
    given = [msgspec.structs.replace(PAUSE, name=str(number)) for number in range(MAX_ORDERS)]
    orders = _orders(*given[: MAX_ORDERS - RESERVED_ORDERS])
    assert orders.has_room(given[0], is_from_root=False)
    assert not orders.has_room(given[-1], is_from_root=False)
    assert orders.has_room(given[-1])
    assert not _orders(*given).has_room(PAUSE)
