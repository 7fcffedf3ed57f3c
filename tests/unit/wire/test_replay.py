"""Replayed requests change nothing: windows per session, epochs believed only when proven."""

from __future__ import annotations

from meshwatchd.wire.replay import (
    FIRST_SERIES,
    MAX_SESSIONS,
    MAX_UNPROVEN,
    SERIES_SIZE,
    WINDOW,
    ReplayGuard,
    ReplayVerdict,
)

FRESH, DUPLICATE, TOO_OLD = ReplayVerdict.FRESH, ReplayVerdict.DUPLICATE, ReplayVerdict.TOO_OLD
UNCONFIRMED = ReplayVerdict.UNCONFIRMED_EPOCH


def _guard(epoch=7):
    guard = ReplayGuard()
    guard.confirm(epoch)
    return guard


def test_nothing_counts_before_the_epoch_is_proven():
    """A whole recorded session, replayed to a node that has just started, is worth nothing."""
    guard = ReplayGuard()

    assert {ReplayVerdict.UNCONFIRMED_EPOCH} == {guard.accept(7, sequence) for sequence in range(10)}
    assert guard.confirm(7)
    assert FRESH is guard.accept(7, 3)


def test_each_number_counts_once():
    """In order, out of order, and never again."""
    guard = _guard()

    assert [FRESH] * 5 == [guard.accept(7, sequence) for sequence in (0, 1, 5, 3, 2)]
    assert [DUPLICATE] * 5 == [guard.accept(7, sequence) for sequence in (0, 1, 5, 3, 2)]
    assert FRESH is guard.accept(7, 4)


def test_the_window_is_exactly_as_wide_as_stated():
    """1 023 behind is tracked, 1 024 is too old."""
    guard = _guard()
    guard.accept(7, 5000)

    assert FRESH is guard.accept(7, 5000 - WINDOW + 1)
    assert TOO_OLD is guard.accept(7, 5000 - WINDOW)


def test_a_jump_over_the_window_forgets_it_at_no_cost():
    """The largest number there is; a shift by so many bits would need half a gigabyte."""
    guard = _guard()
    guard.accept(7, 0)

    assert FRESH is guard.accept(7, 2**32 - 1)
    assert TOO_OLD is guard.accept(7, 0)
    assert DUPLICATE is guard.accept(7, 2**32 - 1)
    assert FRESH is guard.accept(7, 2**32 - 2)


def test_sessions_number_their_packets_separately():
    """The SSID is signed, so it can tell them apart."""
    guard = _guard()

    assert [FRESH, FRESH, DUPLICATE] == [guard.accept(7, 1, session=session) for session in (1, 2, 1)]


def test_sessions_are_bounded():
    """Even a peer that goes mad cannot make us remember without end."""
    guard = _guard()

    verdicts = [guard.accept(7, 0, session=session) for session in range(MAX_SESSIONS + 1)]

    assert [FRESH, TOO_OLD] == verdicts[-2:]


def test_a_restarted_peer_is_believed_once_it_proved_itself():
    """Its numbers begin anew, and its former life is over."""
    guard = _guard(7)
    guard.accept(7, 50)

    assert ReplayVerdict.UNCONFIRMED_EPOCH is guard.accept(8, 0)
    assert guard.confirm(8)
    assert FRESH is guard.accept(8, 0)
    assert ReplayVerdict.OLD_EPOCH is guard.accept(7, 51)
    assert 8 == guard.epoch


def test_a_peer_whose_clock_was_set_back_is_believed_too():
    """A smaller epoch that answers our nonce is alive; the larger one is not obeyed any more."""
    guard = _guard(1000)

    assert ReplayVerdict.OLD_EPOCH is guard.accept(3, 0)
    assert guard.confirm(3)
    assert FRESH is guard.accept(3, 0)
    assert ReplayVerdict.UNCONFIRMED_EPOCH is guard.accept(1000, 1)


def test_an_answer_overtaken_by_a_restart_does_not_reopen_the_windows():
    """Confirming is idempotent and never goes back by one."""
    guard = _guard(7)
    guard.confirm(8)
    guard.accept(8, 0)

    assert not guard.confirm(7)
    assert not guard.confirm(8)
    assert DUPLICATE is guard.accept(8, 0)


def test_a_request_of_an_unproven_epoch_is_answered_once():
    """Nothing proves the epoch of a peer that this node does not ask; what is recorded of it gets no second answer."""
    guard = ReplayGuard()
    sent = [(epoch, number, session) for epoch in (7, 8) for session in (1, 2) for number in range(3)]

    assert {UNCONFIRMED} == {guard.accept(epoch, number, session=session) for epoch, number, session in sent}
    assert {DUPLICATE} == {guard.accept(epoch, number, session=session) for epoch, number, session in sent}
    assert UNCONFIRMED is guard.accept(7, 3, session=1)


def test_all_series_of_a_bisection_are_answered():
    """One session, an epoch that nothing proves, and a thousand numbers between series that are sent at once."""
    guard = _guard(7)
    numbers = [series * SERIES_SIZE + number for number in range(20) for series in range(5)]

    assert {UNCONFIRMED} == {guard.accept(9, number, session=FIRST_SERIES) for number in numbers}
    assert {DUPLICATE} == {guard.accept(9, number, session=FIRST_SERIES) for number in numbers}


def test_what_is_remembered_of_unproven_epochs_is_bounded():
    """The sessions used last; who is forgotten is answered."""
    guard = ReplayGuard()
    for session in range(MAX_UNPROVEN + 1):
        guard.accept(7, 0, session=session)

    assert DUPLICATE is guard.accept(7, 0, session=1)
    assert UNCONFIRMED is guard.accept(7, 0, session=0)
    assert MAX_UNPROVEN == len(guard._unproven)
