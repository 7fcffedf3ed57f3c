"""What the reflector remembers of its senders."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.stamp_interop.sessions import IDLE_NS, REORDERED, Session, Sessions

KEY, OTHER = ("10.0.0.1", 1, b"", 0), ("10.0.0.2", 1, b"", 0)


def test_each_answer_has_the_next_number():
    """And what left last can be followed up."""
    session = Session(0)
    numbers = [session.count() for _ in range(3)]
    session.left(99)

    assert ([0, 1, 2], 2, 99) == (numbers, session.follow_up_sequence, session.follow_up_ntp)


def test_a_later_first_packet_starts_the_count_again():
    """An earlier or equal one does not."""
    session = Session(0)
    session.begin_again(0, 10)
    session.count()
    session.begin_again(0, 10)
    session.begin_again(0, 9)
    assert 1 == session.count()
    session.begin_again(1, 11)
    assert 2 == session.count()
    session.begin_again(0, 12)
    assert 0 == session.count()


def test_no_packet_is_taken_twice():
    """Neither soon nor late; reordered ones are taken."""
    session = Session(0)
    times = [2, 1, *range(3, 3 * REORDERED)]

    assert not any(session.is_replay(number, number) for number in times)
    assert all(session.is_replay(number, number) for number in times)
    assert session.is_replay(5_000_000, 1)


def test_time_goes_on_after_2036():
    """The era ends, the session does not."""
    session = Session(0)
    last = (1 << 64) - 1
    times = [*range(last - 3 * REORDERED, last), *range(3 * REORDERED)]

    assert not any(session.is_replay(1, number % (1 << 64)) for number in times)


def test_a_full_table_keeps_those_that_are_alive():
    """Whoever invents senders pushes out only who is silent."""
    sessions = Sessions(limit=1)
    first = sessions.session(KEY, 0)
    assert first is not None
    sessions.touch(KEY, first, 5)

    assert first is sessions.session(KEY, IDLE_NS)
    assert sessions.session(OTHER, IDLE_NS + 4) is None
    assert sessions.session(OTHER, IDLE_NS + 5) is not None
    assert 1 == len(sessions)


def test_a_source_has_its_share_and_no_more():
    """Of an address, or of an IPv6 /64, whose addresses cost nothing; its idle sessions give way to new ones."""
    sessions = Sessions(limit=10, source_limit=2)
    many = [("2001:db8::1", 1, b"", 0), ("2001:db8::2", 1, b"", 0), ("2001:db8::3%eth0", 1, b"", 0)]
    assert [True, True, False] == [sessions.session(key, 0) is not None for key in many]
    assert sessions.session(("2001:db8:0:1::1", 1, b"", 0), 0) is not None
    assert sessions.session(KEY, 0) is not None
    assert sessions.session(many[2], IDLE_NS) is not None
    assert 4 == len(sessions)
    assert sessions.session(many[1], IDLE_NS - 1) is not None


def test_an_idle_session_of_another_source_gives_way_when_all_are_in_use():
    """And its source may have new ones after that."""
    sessions = Sessions(limit=2, source_limit=2)
    for port in (1, 2):
        assert sessions.session(("10.0.0.1", port, b"", 0), 0) is not None
    for port in (1, 2):
        assert sessions.session(("10.0.0.2", port, b"", 0), IDLE_NS) is not None
    assert sessions.session(("10.0.0.1", 1, b"", 0), IDLE_NS) is None
    assert sessions.session(("10.0.0.1", 1, b"", 0), 2 * IDLE_NS) is not None


@pytest.mark.parametrize("later_ns", [IDLE_NS, 2 * IDLE_NS])
def test_a_sender_that_was_silent_starts_afresh(later_ns):
    """Its clock may have been set back since."""
    sessions = Sessions()
    first = sessions.session(KEY, 0)

    assert first is not sessions.session(KEY, later_ns)
    assert 1 == len(sessions)


def test_the_count_of_a_slow_sender_goes_on():
    """One packet in a minute and more; unless its numbers begin again, its count does not."""
    sessions, numbers = Sessions(), []
    for minute, sequence in enumerate((0, 1, 2, 0, 1)):
        session = sessions.session(KEY, minute * IDLE_NS)
        assert session is not None
        session.begin_again(sequence, 1000 + minute)
        numbers.append(session.count())

    assert [0, 1, 2, 0, 1] == numbers
