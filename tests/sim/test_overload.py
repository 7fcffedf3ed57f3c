"""An engine that cannot keep up accuses nobody for it, sends less, and goes on finding what is broken."""

from __future__ import annotations

import pytest

from meshwatchd.model.settings import SECOND
from tests.sim.overload import MEMBERS, Machine

LEGS = 100
PER_SECOND = LEGS * MEMBERS * 10
"""Probes of all sessions at ten a second each."""


def _overloaded(times: float, *, room: int = 1 << 30) -> Machine:
    """A core on which all probes and answers of a second take so many seconds."""
    each_ns = int(times * SECOND / PER_SECOND / 2)
    return Machine(LEGS, answer_ns=each_ns, probe_ns=each_ns, room=room)


@pytest.mark.parametrize("times", [1.2, 2.0, 4.0])
def test_an_engine_with_more_work_than_time_accuses_nobody(times):
    """Answers that are here and not read yet are not missing: no leg is condemned, nor even in doubt."""
    machine = _overloaded(times)
    machine.run(6 * SECOND)

    assert [] == machine.told.of("down")
    assert 0 == machine.engine.states()["suspicions"]


def test_it_sends_less_until_it_has_time_to_spare():
    """By as much as it must, and it says so with figures."""
    machine = _overloaded(2.0)
    machine.run(8 * SECOND)
    told = machine.told.of("overloaded")
    sent, worked_ns, began = machine.sent, machine.worked_ns, machine.now
    machine.run(3 * SECOND)
    elapsed_ns = machine.now - began

    assert 2.0 <= machine.engine.schedule.slowdown <= 3.5
    assert 0.6 * elapsed_ns <= machine.worked_ns - worked_ns <= 0.95 * elapsed_ns
    assert PER_SECOND * 3 / 3.6 <= machine.sent - sent <= PER_SECOND * 3 / 1.9
    assert [1.5, 2.25, 3.38][: len(told)] == [fields["slowdown"] for fields in told] != []


def test_what_its_own_socket_loses_is_no_miss():
    """A socket with room for a hundred answers, when they come by the hundreds: the kernel says that it was full."""
    machine = _overloaded(3.0, room=100)
    machine.run(6 * SECOND)

    assert machine.told.of("dropped")
    assert [] == machine.told.of("down")


def test_an_engine_with_time_to_spare_keeps_its_pace():
    """Two thirds of a core are enough."""
    machine = _overloaded(0.66)
    machine.run(5 * SECOND)

    assert 1.0 == machine.engine.schedule.slowdown
    assert [] == machine.told.of("overloaded")


@pytest.mark.parametrize("times", [0.5, 2.0])
def test_a_leg_that_dies_is_found_all_the_same(times):
    """Overloaded or not, and no other one is."""
    machine = _overloaded(times)
    machine.run(5 * SECOND)
    machine.dead.add(7)
    machine.run(2 * SECOND if times < 1 else 4 * SECOND)

    assert [7] == [fields["group"] for fields in machine.told.of("down")]
