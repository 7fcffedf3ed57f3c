"""What a status says of itself."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.faults import Severity
from tests.support.example_status import HEALTHY, MOVED

IDLE = msgspec.structs.replace(HEALTHY, pairs=(), severity=Severity.WARNING)


@pytest.mark.parametrize(
    ("status", "is_watching", "is_calm"), [(HEALTHY, True, True), (MOVED, True, False), (IDLE, False, True)]
)
def test_a_node_without_pairs_watches_nothing(status, is_watching, is_calm):
    """Which is nothing to be looked at closely, and nothing to be called OK."""
    assert (is_watching, is_calm) == (status.is_watching, status.is_calm)
