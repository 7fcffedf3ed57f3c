"""What observations of a service say of themselves."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.service_check import ApiFacts, DnsResult, MeshWay, Observations
from tests.support.example_services import OWN_VIP, POD, VIP, lookup, seen


def test_addresses_are_those_of_both_families():
    """IPv4 first; none where nothing was asked."""
    both = seen(lookup(DnsResult.ADDRESSES, VIP), answer6=lookup(DnsResult.ADDRESSES, "fd00::1"))
    assert (VIP, "fd00::1") == both.addresses
    assert () == Observations(name="a.b", domain="c").addresses


def test_a_name_is_local_where_all_its_addresses_are_this_clusters():
    """By the answer for the cluster's own domain, or by a node of this location."""
    own = lookup(DnsResult.ADDRESSES, OWN_VIP)
    assert seen(own, local=own).is_local
    assert not seen(lookup(DnsResult.ADDRESSES, OWN_VIP, VIP), local=own).is_local
    assert seen(lookup(DnsResult.ADDRESSES, POD), ways=(MeshWay(address=POD, node="b2", is_local=True),)).is_local
    assert not seen(lookup(DnsResult.NXDOMAIN), local=own).is_local
    assert not seen(own).is_local


@pytest.mark.parametrize("port", [70_000, -1, 0])
def test_a_port_that_no_socket_takes_is_refused(port):
    """Whatever has printed it."""
    for facts in ({"ports": [{"port": port}]}, {"endpoints": [{"ports": [port]}]}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(facts, ApiFacts)
