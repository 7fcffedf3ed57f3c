"""What the rules about services look at."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.diagnosis.service_signs import (
    bad_conditions,
    count_ready,
    is_domain_foreign,
    is_export_missing_here,
    judged,
)
from meshwatchd.model.service_check import ApiCondition, ApiFacts, DnsResult, Origin, Reach
from tests.support.example_services import NEVER_EXPORTED, NONE_READY, POD, VIP, connection, lookup, seen


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("", False), ("clusterset.local", False), ("svc.clusterset.local", False), (".", True), ("local", True)],
)
def test_who_denies_a_name_says_whether_the_domain_is_served(zone, expected):
    """Lighthouse names no zone; a resolver outside of the cluster names the root."""
    assert expected is is_domain_foreign(seen(lookup(DnsResult.NXDOMAIN, zone=zone)))
    assert is_domain_foreign(seen(lookup(DnsResult.REFUSED, zone=zone)))
    assert not is_domain_foreign(seen(lookup(DnsResult.EMPTY, zone=zone)))


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [("Conflict", "True", 1), ("Conflict", "False", 0), ("Valid", "False", 1), ("Valid", "True", 0), ("Ready", "", 0)],
)
def test_conditions_accuse_by_their_own_sense(kind, status, expected):
    """A conflict is bad where it is true, validity where it is false."""
    api = ApiFacts(conditions=(ApiCondition(type=kind, status=status),))
    assert expected == len(bad_conditions(seen(api=api)))


def test_a_service_that_is_imported_need_not_be_exported_here():
    """Nor one that is not here, and of an export that could not be read nothing is said."""
    assert is_export_missing_here(seen(api=NEVER_EXPORTED))
    for change in ({"is_imported": True}, {"is_exported": None}, {"endpoints": ()}):
        assert not is_export_missing_here(seen(api=msgspec.structs.replace(NEVER_EXPORTED, **change)))
    assert not is_export_missing_here(seen())


def test_ready_endpoints_are_counted_where_any_are_known():
    """No slices at all prove nothing: the implementation may mirror none. This cluster's own count if exported."""
    assert 0 == count_ready(seen(api=NONE_READY))
    assert 1 == count_ready(seen(api=msgspec.structs.replace(NEVER_EXPORTED, is_exported=True)))
    assert None is count_ready(seen(api=NEVER_EXPORTED))
    assert None is count_ready(seen(api=ApiFacts(endpoints=())))
    assert None is count_ready(seen())


def test_of_guessed_ports_the_best_counts_for_each_address():
    """What is known to be a port of the service counts by itself; endpoints and last addresses are no part of it."""
    silent, refused = (connection(reach, VIP, is_guessed=True) for reach in (Reach.SILENT, Reach.REFUSED))
    known = connection(Reach.SILENT, POD)
    others = (connection(origin=Origin.LAST), connection(origin=Origin.ENDPOINT))
    assert (known, refused) == judged(seen(None, silent, refused, known, *others))
