"""Whether what a condemned standby loses would arrive over the primary path."""

from __future__ import annotations

from meshwatchd.core.diagnosis.path_in_use import loses_what_passes
from meshwatchd.model.settings import MS, SECOND
from tests.support.bench import Bench, nothing_is_silent, primary_is_silent, ready


def _loses(bench: Bench) -> bool:
    watch = bench.controller.watch
    return loses_what_passes(watch.group(bench.controller.mover.active), watch.fresh)


def _on_standby() -> Bench:
    bench = ready("a1")
    bench.controller.adopt(bench.controller.watch.paths[1], bench.now)
    bench.run(SECOND)
    assert not _loses(bench)
    return bench


def test_a_dead_standby_loses_what_the_primary_path_carries():
    """As soon as it is condemned, and until it answers."""
    bench = _on_standby()
    bench.silent = lambda plan: plan.path == 1
    bench.run(4 * SECOND)
    assert _loses(bench)
    bench.silent = nothing_is_silent
    bench.run(10 * SECOND)
    assert not _loses(bench)


def test_a_standby_loses_nothing_that_no_path_carries():
    """Both are silent: there is no better place."""
    bench = _on_standby()
    bench.silent = lambda plan: plan.path == 1 or primary_is_silent(plan)
    bench.run(4 * SECOND)
    assert bench.controller.watch.group(bench.controller.mover.active).is_down
    assert not _loses(bench)


def test_a_dead_node_that_is_alone_behind_a_standby_is_not_lost_by_it():
    """Nor when it is back, while the standby is condemned still."""
    bench = _on_standby()
    bench.silent = lambda plan: plan.peer == "b3"
    bench.run(4 * SECOND)
    group = bench.controller.watch.group(bench.controller.mover.active)
    assert (True, False) == (group.is_down, _loses(bench))

    bench.silent = nothing_is_silent
    answered_while_down = False
    for _ in range(1000):
        bench.run(2 * MS)
        assert not _loses(bench)
        answered_while_down |= group.is_down and group.sessions[0].streak(0) > 0
    assert answered_while_down
