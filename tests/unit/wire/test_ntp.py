"""Timestamps survive the wrap of 2036; error estimates never claim more precision than was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.wire.ntp import UNSYNCHRONIZED, ErrorEstimate, ntp_from_ns

FIRST_WRAP_NS = (2**32 - 2_208_988_800) * 10**9
"""2036-02-07 06:28:16 UTC."""


@pytest.mark.parametrize(
    ("unix_ns", "timestamp"),
    [
        (0, 0x83AA_7E80_0000_0000),
        (500_000_000, 0x83AA_7E80_8000_0000),
        (FIRST_WRAP_NS, 0),
        (FIRST_WRAP_NS - 1, 0xFFFF_FFFF_FFFF_FFFB),
    ],
)
def test_known_instants_have_their_known_timestamp(unix_ns, timestamp):
    """1970 is 0x83AA7E80 seconds into the first era, and the second era begins with zero."""
    assert timestamp == ntp_from_ns(unix_ns)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(word=st.integers(0, 0xFFFF))
def test_error_estimates_survive_both_ways(word):
    """All 65 536 words are legal on the wire."""
    assert word == ErrorEstimate.decode(word).encode()


@settings(derandomize=True, max_examples=200, deadline=None)
@given(error_ns=st.integers(0, 10**18))
def test_an_estimate_is_never_below_the_error_and_hardly_above(error_ns):
    """Rounding is upwards and by less than one part in 64; below a quarter nanosecond there is nothing finer."""
    estimate = ErrorEstimate.of(error_ns, is_synchronized=True)

    assert error_ns <= estimate.error_ns <= error_ns * 65 // 64 + 1
    assert 1 <= estimate.multiplier <= 255
    assert estimate.is_synchronized


def test_ignorance_is_one_second_and_not_synchronized():
    """S=0, Z=0, 1 * 2**(32-32) seconds."""
    assert 0x2001 == UNSYNCHRONIZED.encode()
    assert 10**9 == UNSYNCHRONIZED.error_ns
