from netnslab.traffic_clock import Cadence, PunctualityMeter

MS = 1_000_000


def test_what_is_due_is_due_once():
    """Two intervals have passed since the first instant: three instants, and then none."""
    cadence = Cadence(first_ns=100 * MS, interval_ns=5 * MS)

    assert [100 * MS, 105 * MS, 110 * MS] == list(cadence.due(112 * MS))
    assert [] == list(cadence.due(114 * MS))
    assert 115 * MS == cadence.next_ns


def test_a_late_start_does_not_move_the_instants_after_it():
    """Open loop: the third instant is where it was, although the second was served 4 ms late."""
    cadence = Cadence(first_ns=0, interval_ns=5 * MS)
    list(cadence.due(0))
    list(cadence.due(9 * MS))

    assert 10 * MS == cadence.next_ns


def test_a_source_that_slept_for_minutes_does_not_make_up_for_it_in_one_burst():
    """A suspended machine: what was missed is counted, not sent."""
    cadence = Cadence(first_ns=0, interval_ns=5 * MS)
    due = list(cadence.due(60_000 * MS))

    assert 1 == len(due)
    assert 12_000 == cadence.skipped


def test_chance_moves_each_instant_within_its_interval():
    """The rate stays, and the distance to another source of the same rate does not."""
    cadence = Cadence(first_ns=0, interval_ns=5 * MS, jitter_ns=5 * MS)
    instants = list(cadence.due(1_000 * MS))

    assert 199 <= len(instants) <= 201
    assert all(place * 5 * MS <= at < (place + 1) * 5 * MS for place, at in enumerate(instants))
    assert len({at % (5 * MS) for at in instants}) > 100


def test_a_window_reports_its_own_lateness_only():
    """The stall of one window does not spoil the next."""
    meter = PunctualityMeter(0)
    for _ in range(99):
        meter.note(1 * MS)
    meter.note(80 * MS)
    first = meter.close_window(1_000 * MS, skipped=2)
    meter.note(1 * MS)
    second = meter.close_window(2_000 * MS, skipped=0)

    assert (100, 2) == (first.started, first.skipped)
    assert (1 * MS, 80 * MS, 80 * MS) == (first.lateness_p50_ns, first.lateness_p99_ns, first.lateness_max_ns)
    assert 1_000 * MS == second.window_ns
    assert 1 * MS == second.lateness_max_ns
