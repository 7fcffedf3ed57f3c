"""A Lease is free when its holder is not seen to renew it, by the own clock alone."""

from __future__ import annotations

from meshwatchkube.cluster import Lease, LeaseSpec, Metadata
from meshwatchkube.lease import SECOND, held_by, is_free, note


def _lease(holder="x", version="1", **fields):
    return Lease(
        metadata=Metadata(name="l", resource_version=version, annotations={"a": "b"}),
        spec=LeaseSpec(holder_identity=holder, lease_duration_seconds=15, **fields),
    )


def test_a_lease_that_is_renewed_is_not_free_whatever_its_times_say():
    """Its renewTime is by another machine's clock."""
    seen = note(None, _lease(renew_time="1970-01-01T00:00:00.000000Z"), 0)
    assert not is_free(seen, 15 * SECOND)
    seen = note(seen, _lease(version="2"), 15 * SECOND)
    assert not is_free(seen, 30 * SECOND)


def test_a_lease_that_does_not_change_for_its_duration_is_free():
    """Reading the same version again does not make it younger."""
    seen = note(None, _lease(), 0)
    seen = note(seen, _lease(), 14 * SECOND)
    assert is_free(seen, 15 * SECOND + 1)


def test_a_lease_that_was_given_back_is_free_at_once():
    """And so is one that nobody has ever held."""
    assert is_free(note(None, _lease(holder=""), 0), 1)
    assert is_free(note(None, Lease(metadata=Metadata(name="l")), 0), 1)


def test_taking_and_renewing():
    """A change of holder counts; memory and version stay."""
    taken = held_by(_lease(lease_transitions=3, acquire_time="old"), "y", duration_ns=30 * SECOND, unix_ns=10**18)
    assert ("y", 30, 4) == (taken.spec.holder_identity, taken.spec.lease_duration_seconds, taken.spec.lease_transitions)
    assert "2001-09-09T01:46:40.000000Z" == taken.spec.acquire_time == taken.spec.renew_time
    assert ({"a": "b"}, "1") == (taken.metadata.annotations, taken.metadata.resource_version)

    renewed = held_by(taken, "y", duration_ns=30 * SECOND, unix_ns=10**18 + 1_500_000)
    assert ("2001-09-09T01:46:40.000000Z", "2001-09-09T01:46:40.001500Z") == (
        renewed.spec.acquire_time,
        renewed.spec.renew_time,
    )
    assert 4 == renewed.spec.lease_transitions
