"""A fifth of the CPU is left, and no burst is held up."""

from __future__ import annotations

from meshwatchd.model.settings import MS, SECOND
from meshwatchd.runtime.share import LONGEST_NS, Share, share_of


class _Cpu:
    """One thread: what it works, and what it sleeps."""

    def __init__(self) -> None:
        self.now, self.used = 5 * SECOND, SECOND
        self.share = Share(lambda: self.used)
        self.share.rest_ns(self.now)

    def work(self, duration_ns: int) -> int:
        self.now += duration_ns
        self.used += duration_ns
        return self.share.rest_ns(self.now)

    def sleep(self, duration_ns: int) -> None:
        self.now += duration_ns


def test_who_is_always_late_rests_for_a_fifth_of_the_time():
    """In rests that are no stalls."""
    cpu, rests = _Cpu(), []
    for _ in range(1000):
        rests.append(cpu.work(10 * MS))
        cpu.sleep(rests[-1])

    assert 0.19 < sum(rests) / (cpu.now - 5 * SECOND) < 0.21
    assert LONGEST_NS >= max(rests)


def test_a_burst_is_not_held_up():
    """A tenth of a second of work after some rest; then it is somebody else's turn."""
    cpu = _Cpu()
    cpu.sleep(SECOND)

    assert {0} == {cpu.work(5 * MS) for _ in range(20)}
    assert 0 < max(cpu.work(5 * MS) for _ in range(3))


def test_who_has_time_to_spare_never_rests():
    """Sleeping for its timer is rest enough."""
    cpu = _Cpu()
    for _ in range(1000):
        assert 0 == cpu.work(3 * MS)
        cpu.sleep(MS)


def test_only_who_has_one_cpu_leaves_a_share_of_it():
    """Elsewhere others run beside it."""
    assert isinstance(share_of(1), Share)
    assert share_of(2) is None
