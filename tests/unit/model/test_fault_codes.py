"""Severities in their order."""

from __future__ import annotations

from meshwatchd.model.fault_codes import Severity, weight


def test_the_worse_the_larger_and_a_word_of_another_version_is_none():
    """What a node of another version says must not put its line before those that are understood."""
    assert [Severity.CRITICAL, Severity.WARNING, Severity.OK] == sorted(Severity, key=weight, reverse=True)
    assert weight("critical") == weight(Severity.CRITICAL) > weight("ok") == weight("doomed")
