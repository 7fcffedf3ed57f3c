"""Failing things are reported once and tried ever more seldom, and not by everybody at once."""

from __future__ import annotations

import random

from meshwatchkube.pace import LONGEST_NS, SECOND, Backoff
from tests.support.kube import Log


def test_waits_double_up_to_a_minute_with_jitter():
    """Two processes do not come back together."""
    log = Log()
    backoff = Backoff("lease", log, random.Random(1))
    waits = [backoff.failed("no", 0) for _ in range(9)]
    for index, wait in enumerate(waits):
        longest = min(LONGEST_NS, SECOND << index)
        assert longest // 2 <= wait <= longest
    other = Backoff("lease", log, random.Random(2))
    assert waits != [other.failed("no", 0) for _ in range(9)]


def test_a_failure_is_reported_once_and_so_is_its_end():
    """However often it is tried between."""
    log = Log()
    backoff = Backoff("lease", log, random.Random(1))
    backoff.worked()
    assert backoff.is_due(0)
    wait = backoff.failed("500", 10)
    backoff.failed("500", 10)
    assert not backoff.is_due(10 + wait // 2)
    assert backoff.is_due(10 + 2 * SECOND)
    backoff.worked()
    assert backoff.is_due(0)
    backoff.worked()
    assert ["api.failed", "api.recovered"] == log.events()
    assert {"what": "lease", "why": "500", "level": "warning"} == log.lines[0][1]
