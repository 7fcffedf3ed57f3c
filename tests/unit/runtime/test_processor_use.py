"""The share of a processor, from one question to the next."""

from __future__ import annotations

from meshwatchd.model.settings import MS, SECOND
from meshwatchd.runtime.processor_use import ProcessorUse


class _Machine:
    def __init__(self):
        self.now = 5 * SECOND
        self.used: int | None = 700 * MS
        self.use = ProcessorUse(lambda: self.used, lambda: self.now)

    def run(self, duration_ns, used_ns):
        self.now += duration_ns
        self.used = (self.used or 0) + used_ns
        return self.use.percent()


def test_each_answer_is_about_the_time_since_the_one_before():
    """One percent of a core for ten seconds, five for two."""
    machine = _Machine()

    assert 1.0 == machine.run(10 * SECOND, 100 * MS)
    assert 5.0 == machine.run(2 * SECOND, 100 * MS)


def test_whoever_asks_at_once_hears_the_same_again():
    """Ticks of a hundredth of a second say nothing about less than a second."""
    machine = _Machine()

    assert machine.run(100 * MS, 0) is None
    assert 2.0 == machine.run(900 * MS, 20 * MS)
    assert 2.0 == machine.run(100 * MS, 10 * MS)


def test_a_process_that_was_started_again_is_no_share():
    """Nor one that is gone."""
    machine = _Machine()

    assert machine.run(2 * SECOND, -500 * MS) is None
    machine.used, machine.now = None, machine.now + 2 * SECOND
    assert machine.use.percent() is None
