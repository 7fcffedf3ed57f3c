"""How an engine that cannot keep up slows down, and how it comes back."""

from __future__ import annotations

import pytest

from meshwatchd.core.probing.overload import BUSY_PERCENT, MOST_SLOWDOWN, ROUNDS, SPARE_PERCENT, Load, Stalls
from meshwatchd.model.load import EngineOverloaded, EngineRelieved, LoadMeasured
from meshwatchd.model.settings import MS, SECOND


def _measure(load, *percents):
    return [told for percent in percents for told in load.measured(LoadMeasured(busy_percent=percent), 30 * MS)]


def test_one_busy_second_is_no_overload():
    """It may be one long turn that was stopped in the middle."""
    load = Load()

    assert [] == _measure(load, *[100, 10] * 5)
    assert 1.0 == load.slowdown


def test_overload_is_told_with_figures_and_a_remedy():
    """Each time that it has to slow down further."""
    load = Load()
    told = _measure(load, *[BUSY_PERCENT] * (ROUNDS + 1))

    assert [EngineOverloaded, EngineOverloaded] == [type(each) for each in told]
    assert (BUSY_PERCENT, 30 * MS, 1.5) == (told[0].busy_percent, told[0].late_ns, told[0].slowdown)
    assert "probe.packets_per_second" in told[0].remedy
    assert 2.25 == load.slowdown


def test_slowing_down_has_an_end():
    """Where it does not help, the time is taken by something else, and faults still have to be found."""
    load = Load()
    told = _measure(load, *[100] * 60)

    assert MOST_SLOWDOWN == load.slowdown
    assert len(told) < 10


def test_it_returns_to_its_pace_when_there_is_time_to_spare():
    """Step by step, and says so once; what it lost meanwhile is told with it."""
    load = Load()
    load.dropped(40)
    _measure(load, 100, 100)

    assert [] == _measure(load, *[(BUSY_PERCENT + SPARE_PERCENT) // 2] * 20)
    assert load.slowdown > 1
    assert [EngineRelieved(dropped=40)] == _measure(load, *[SPARE_PERCENT - 1] * 30)
    assert 1.0 == load.slowdown


def test_a_full_socket_is_an_overload_at_once():
    """Answers were lost here: the next measurement slows down, however little work there was."""
    load = Load()
    load.dropped(7)
    [told] = _measure(load, 5)

    assert (7, 1.5) == (told.dropped, told.slowdown)
    assert [] == [each for each in _measure(load, 5) if isinstance(each, EngineOverloaded)]


@pytest.mark.parametrize("demand_percent", [95, 130, 200, 500])
def test_it_settles_instead_of_swinging(demand_percent):
    """The load is what the demand comes to at the pace: after a while nothing changes any more."""
    load = Load()
    paces = []
    for _ in range(100):
        _measure(load, min(100, int(demand_percent / load.slowdown)))
        paces.append(load.slowdown)

    assert 1 == len(set(paces[50:]))
    assert demand_percent / paces[-1] < BUSY_PERCENT


def test_stalls_are_told_once_a_minute_with_a_count():
    """A slow CPU has many a second; a long one, after which evidence was dropped, is news among short ones."""
    stalls, told = Stalls(), []
    for at_s, late_ms in ((0, 30), (1, 70), (2, 40), (3, 3000), (4, 4000), (5, 50), (61, 25)):
        facts = stalls.note(late_ms * MS, (100 + at_s) * SECOND, is_long=late_ms >= 200)
        told += [(at_s, fact.late_ns // MS, fact.count) for fact in facts]

    assert [(0, 30, 1), (3, 3000, 1), (61, 70, 4)] == told
