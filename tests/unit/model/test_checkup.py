"""The state of a check-up is that of its worst check."""

from __future__ import annotations

import pytest

from meshwatchd.model.checkup import Check, CheckState, worst


@pytest.mark.parametrize(
    ("states", "expected"),
    [("", "ok"), ("ok note", "note"), ("warning ok", "warning"), ("error warning note", "error")],
)
def test_the_worst_counts(states, expected):
    """Whatever the order."""
    checks = [Check(area="kernel", state=CheckState(state), text="x") for state in states.split()]
    assert expected == worst(checks)
