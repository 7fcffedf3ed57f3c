"""Secrets of pairs stay out of logs."""

from __future__ import annotations

from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName


def test_a_printed_binding_shows_no_secret():
    """Tracebacks and logs print whatever they are given."""
    binding = PairBinding(peer=NodeName("b1"), shared=b"s" * 32, signs=True)

    assert "PairBinding(b1, signs=True, is_alone=False)" == repr(binding)
