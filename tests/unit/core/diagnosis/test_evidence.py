"""What evidence says beside its fields."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.core.diagnosis.test_classifier import HEALTHY


@pytest.mark.parametrize(
    ("missing", "common"),
    [
        ((), set()),
        ((("a1", "b2"),), {"a1", "b2"}),
        ((("a1", "b2"), ("a2", "b2")), {"b2"}),
        ((("a1", "b2"), ("a2", "b1")), set()),
    ],
)
def test_the_relay_that_missing_standbys_have_in_common(missing, common):
    """None where two of them share nothing."""
    assert common == replace(HEALTHY, missing_standbys=missing).relay_of_missing
