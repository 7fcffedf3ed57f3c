"""What counts as an agent's silence, and what does not."""

from __future__ import annotations

from meshwatchd.model.settings import MS, SECOND
from meshwatchd.runtime.heartbeat import LOOKS, Heartbeat, Patience

PATIENCE = Patience(first_ns=30 * SECOND, later_ns=5 * SECOND)
ASLEEP = 0, lambda: False


def _used(total_ns):
    """An agent that runs, or waits for a CPU, and has had so much of one since its start."""
    return total_ns, lambda: True


def _asked(usage=ASLEEP):
    """An agent that has answered once, and was asked again."""
    heartbeat = Heartbeat(PATIENCE, 0)
    heartbeat.look(0, *usage)
    heartbeat.answered()
    assert heartbeat.look(SECOND, *usage)
    return heartbeat


def test_an_agent_that_answers_is_asked_again():
    """At each look, and nothing adds up."""
    heartbeat = Heartbeat(PATIENCE, 0)
    for look in range(20):
        assert heartbeat.look(look * SECOND, *ASLEEP)
        assert (look + 1) * SECOND == heartbeat.due_ns
        heartbeat.answered()

    assert (0, False) == (heartbeat.silent_ns, heartbeat.is_hung)


def test_five_looks_in_vain_are_a_hang():
    """It is asked once: what would be asked again waits in its socket."""
    heartbeat = _asked()
    hung = []
    for look in range(LOOKS):
        assert not heartbeat.look((2 + look) * SECOND, *ASLEEP)
        hung.append(heartbeat.is_hung)

    assert [False, False, False, False, True] == hung


def test_a_new_agent_has_more_time():
    """Until its first answer."""
    heartbeat = Heartbeat(PATIENCE, 0)
    hung = [look for look in range(40) if not heartbeat.look(look * SECOND, *ASLEEP) and heartbeat.is_hung]

    assert 30 == hung[0]


def test_a_look_that_comes_late_counts_once():
    """An engine that was stopped for an hour, or starved, heard nothing: that is no silence of the agent."""
    heartbeat = _asked()
    heartbeat.look(3600 * SECOND, *ASLEEP)

    assert SECOND == heartbeat.silent_ns


def test_a_look_that_comes_early_counts_for_what_has_passed():
    """It is taken with a status that leaves anyway, and three of those in a second are no three seconds of silence."""
    heartbeat = _asked()
    for tenths in (11, 14, 20):
        heartbeat.look(tenths * 100 * MS, *ASLEEP)

    assert SECOND == heartbeat.silent_ns


def test_an_agent_that_waits_for_a_cpu_is_not_silent():
    """A tenth of a CPU is a tenth of the time."""
    heartbeat = _asked(_used(7 * SECOND))
    for look in range(40):
        heartbeat.look((2 + look) * SECOND, *_used(7 * SECOND + (1 + look) * 100 * MS))

    assert (4 * SECOND, False) == (heartbeat.silent_ns, heartbeat.is_hung)


def test_an_agent_that_spins_is_silent():
    """It has all the CPU time that it wants, with several threads more than one look is worth."""
    heartbeat = _asked()
    for look in range(LOOKS):
        heartbeat.look((2 + look) * SECOND, *_used(3 * (1 + look) * SECOND))

    assert (5 * SECOND, True) == (heartbeat.silent_ns, heartbeat.is_hung)


def test_an_answer_ends_a_silence():
    """Silences on both sides of one do not add up."""
    heartbeat = _asked()
    for look in range(8):
        if look == LOOKS - 1:
            heartbeat.answered()
        heartbeat.look((2 + look) * SECOND, *ASLEEP)
        assert not heartbeat.is_hung


def test_who_answers_is_not_looked_at():
    """Whether its threads run is in a dozen files of /proc, and an agent in health owes nothing."""
    heartbeat, asked = Heartbeat(PATIENCE, 0), []

    def is_runnable():
        asked.append(True)
        return True

    for look in range(3):
        heartbeat.look(look * SECOND, 0, is_runnable)
        heartbeat.answered()
    assert [] == asked

    for look in range(3, 5):
        heartbeat.look(look * SECOND, 0, is_runnable)
    assert [True] == asked
