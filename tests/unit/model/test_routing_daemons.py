"""Which routes are a routing daemon's, and in what words it is asked about them."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.routing_daemons import ROUTING_DAEMONS, render_route, routed_by_daemon
from meshwatchd.model.snapshot import DeviceRoute

ROUTE = DeviceRoute(dst="10.42.2.0/24", dev="wg0", table=254, protocol=12, via="10.8.0.3", metric=32)


@pytest.mark.parametrize(
    ("protocol", "name", "proto"), [(12, "BIRD", "bird"), (11, "FRR", "zebra"), (186, "FRR", "bgp")]
)
def test_the_protocol_number_names_the_owner(protocol, name, proto):
    """As /etc/iproute2/rt_protos has them; each has a command that shows a prefix, and one that ends a session."""
    daemon = ROUTING_DAEMONS[protocol]

    assert (name, proto) == (daemon.name, daemon.proto)
    assert "10.42.2.0/24" in daemon.show.format("10.42.2.0/24")
    assert "10.8.0.3" in daemon.leave.format("10.8.0.3")
    assert f"10.42.2.0/24 via 10.8.0.3 dev wg0 proto {proto}" == render_route(
        msgspec.structs.replace(ROUTE, protocol=protocol)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": 3},
        {"protocol": 117},
        {"dev": "eth0"},
        {"table": 100},
        {"via": ""},
        {"dst": "fd00:1::/64", "via": "fd00::3"},
    ],
)
def test_all_others_are_none_of_its_routes(changes):
    """flannel's, our own, those of other devices and tables, and those that lead to no other node."""
    assert (ROUTE,) == routed_by_daemon((msgspec.structs.replace(ROUTE, **changes), ROUTE), "wg0")
