"""Two clocks, read by a process that may lose the processor in between."""

from __future__ import annotations

from meshwatchd.adapters.stamp_interop.clock_reading import GOOD_NS, ClockReading, read_clocks, turnaround_ns

MS = 1_000_000
WALL = 1_700_000_000_000_000_000


class World:
    """One time that both clocks show; each reading takes as long as is written down, 100 ns otherwise."""

    def __init__(self, *pauses_ns: int) -> None:
        self.now_ns, self._pauses = 10 * MS, list(pauses_ns)

    def _read(self, offset_ns: int) -> int:
        self.now_ns += self._pauses.pop(0) if self._pauses else 100
        return self.now_ns + offset_ns

    def monotonic(self) -> int:
        """Since boot."""
        return self._read(0)

    def wall(self) -> int:
        """Of the world."""
        return self._read(WALL)


def test_readings_that_were_torn_apart_are_taken_again():
    """The processor is gone for 12 ms between the two clocks, and for 3 ms the next time."""
    world = World(100, 12 * MS, 100, 100, 100, 3 * MS)
    reading = read_clocks(world.monotonic, world.wall)

    assert reading.doubt_ns <= GOOD_NS
    assert abs(reading.wall_ns - WALL - reading.before_ns) <= GOOD_NS


def test_the_best_is_taken_where_all_are_torn():
    """A machine under load: it ends after five readings."""
    world = World(*(pause for span in (9, 4, 7, 5, 8) for pause in (100, span * MS, 100)))
    reading = read_clocks(world.monotonic, world.wall)

    assert 4 * MS + 100 == reading.doubt_ns


def test_a_torn_reading_makes_no_round_trip_shorter_than_it_was():
    """Sent at 1 ms, there again at 6 ms, read 10 us later; 4 ms pass between the clocks, whichever comes first."""
    arrived = WALL + 6 * MS
    for before, wall, after in ((6.01, 6.01, 6.01), (6.01, 10.01, 10.01), (6.01, 6.01, 10.01)):
        reading = ClockReading(int(before * MS), WALL + int(wall * MS), int(after * MS))
        assert 5 * MS <= turnaround_ns(reading, sent_ns=MS, arrived_wall_ns=arrived) <= 9 * MS


def test_a_wall_clock_that_was_set_meanwhile_is_not_believed():
    """Forward by an hour, or back: the packet came when it was read."""
    for step_ns in (3600_000 * MS, -3600_000 * MS):
        reading = ClockReading(7 * MS, WALL + 7 * MS + step_ns, 7 * MS)
        assert 6 * MS == turnaround_ns(reading, sent_ns=MS, arrived_wall_ns=WALL + 6 * MS)


def test_a_wait_in_the_socket_is_no_part_of_the_way():
    """Arrived at 3 ms, read at 7 ms."""
    reading = ClockReading(7 * MS, WALL + 7 * MS, 7 * MS)
    assert 2 * MS == turnaround_ns(reading, sent_ns=MS, arrived_wall_ns=WALL + 3 * MS)


def test_the_clocks_of_this_machine_can_be_read():
    """In less than the time after which it is tried again, mostly."""
    reading = read_clocks()
    assert reading.before_ns <= reading.after_ns
    assert reading.wall_ns > WALL
