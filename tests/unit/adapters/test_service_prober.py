"""Which questions are under way, and what becomes of those that nobody waits for."""

from __future__ import annotations

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.service_canary import EXCHANGE_LIFE_NS
from meshwatchd.adapters.service_prober import MAX_OPEN
from meshwatchd.model.canary import CanaryKind
from meshwatchd.model.events import SendFailed
from meshwatchd.model.service_check import NOT_SEEN, ServiceSeen
from tests.support.service_stage import full_listener
from tests.unit.adapters.test_service_canary import SESSION, asking


def test_exchanges_are_bounded_and_a_new_table_forgets_them():
    """Four of a canary at most: the oldest is told as it is. Nothing of a canary that is gone is told."""
    with full_listener() as port, asking(port, CanaryKind.TLS) as asker:
        for seq in range(6, 6 + MAX_OPEN):
            asker.send(seq=seq)
        assert [5] == [each.seq for each in asker.events if isinstance(each, ServiceSeen)]
        asker.events.clear()
        asker.prober.configure(())
        asker.prober.expire(monotonic_ns() + EXCHANGE_LIFE_NS)

        assert [] == asker.events
        assert asker.prober.deadline() is None


def test_what_may_have_been_slept_through_is_not_told():
    """The end of the exchange is known, and at its end only that nobody was there to see it."""
    with full_listener() as port, asking(port, CanaryKind.TLS) as asker:
        due_ns = asker.prober.deadline()
        assert due_ns is not None
        assert 0 < due_ns - monotonic_ns() <= EXCHANGE_LIFE_NS
        asker.prober.give_up(due_ns - 1, NOT_SEEN)
        assert [] == asker.events
        asker.prober.give_up(due_ns, NOT_SEEN)

        assert [SendFailed(session=SESSION, seq=5, errno=NOT_SEEN)] == asker.events
        assert asker.prober.deadline() is None
