"""Questions to one look."""

from __future__ import annotations

from tests.support.kube import look


def test_versions_and_places():
    """What is not known has none."""
    seen = look()
    assert ("7", "") == (seen.version("b1"), seen.version("c1"))
    assert seen.is_in("b1", "cloud")
    assert not seen.is_in("b1", "onprem")
    assert not seen.is_in("c1", "cloud")
