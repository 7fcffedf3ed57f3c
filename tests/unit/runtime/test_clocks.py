"""A wall clock that jumps is noticed once; one that drifts is not."""

from __future__ import annotations

from meshwatchd.runtime.clocks import JUMP_NS, Clocks, JumpWatch


class _Wall:
    def __init__(self):
        self.ahead_ns = 0

    def watch(self):
        """A watch on clocks of which one is at zero."""
        return JumpWatch(Clocks(monotonic_ns=lambda: 0, wall_ns=lambda: self.ahead_ns))


def test_a_jump_is_told_once_and_in_either_direction():
    """By how much, from where it was before."""
    wall = _Wall()
    watch = wall.watch()
    wall.ahead_ns = 3 * JUMP_NS
    assert [3 * JUMP_NS, 0] == [watch.look(), watch.look()]
    wall.ahead_ns = JUMP_NS
    assert [-2 * JUMP_NS, 0] == [watch.look(), watch.look()]


def test_a_clock_that_is_put_right_by_less_than_a_minute_has_not_jumped():
    """NTP steps by seconds."""
    wall = _Wall()
    watch = wall.watch()
    wall.ahead_ns = JUMP_NS - 1

    assert 0 == watch.look()
