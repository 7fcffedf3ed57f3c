"""Liqo's devices are read from links, routes and rules by destination."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.liqo import is_liqos, liqo_links, rules_to
from meshwatchd.model.snapshot import Geneve, Link, Snapshot, Vxlan
from tests.support.liqo_node import (
    BY_GATEWAY,
    DEVICE,
    GATEWAY,
    LINK,
    NODE,
    POD,
    REMOTE,
    RULES,
    TABLE,
    TO_GATEWAY,
    with_link,
)
from tests.support.liqo_node import snapshot as seen_by_a2


def test_a_device_has_its_far_end_its_gateway_and_what_is_behind():
    """The route to the gateway comes first, since the others need it."""
    (link,) = liqo_links(seen_by_a2())

    assert (DEVICE, 5, 3, 6091, POD, NODE) == (
        link.device,
        link.index,
        link.vni,
        link.port,
        link.remote,
        link.address,
    )
    assert (GATEWAY, TABLE, (REMOTE,)) == (link.gateway, link.table, link.prefixes)
    assert (TO_GATEWAY, BY_GATEWAY) == link.routes
    assert RULES == link.rules
    assert link.is_whole()


def test_without_liqo_there_is_none():
    """Whatever else speaks Geneve."""
    others = (
        Link(
            name="genev_sys_6081", index=4, kind="geneve", is_up=True, mtu_bytes=65000, geneve=Geneve(vni=0, port=6081)
        ),
        Link(name="liqo-tunnel", index=5, kind="wireguard", is_up=True, mtu_bytes=1340),
        Link(name="liqo.x", index=6, kind="veth", is_up=True, mtu_bytes=1500),
    )
    assert () == liqo_links(Snapshot(links=others))


def test_a_device_of_another_kind_with_one_far_end_is_read_alike():
    """What the kind adds to packets is nothing that is judged."""
    vxlan = Vxlan(vni=3, port=6091, remote=POD)
    (link,) = liqo_links(with_link(seen_by_a2(), kind="vxlan", geneve=None, vxlan=vxlan))

    assert (3, 6091, POD, True) == (link.vni, link.port, link.remote, link.is_whole())
    assert not is_liqos(msgspec.structs.replace(LINK, geneve=Geneve(vni=3, port=6091)))


@pytest.mark.parametrize(
    "changes",
    [{"is_up": False}, {"addresses": (), "prefix_lengths": ()}],
)
def test_a_device_that_is_down_or_bare_is_not_whole(changes):
    """Nothing gets through it, and that is no fault of the gateway's."""
    (link,) = liqo_links(with_link(seen_by_a2(), **changes))

    assert not link.is_whole()


@pytest.mark.parametrize(
    "lost", [{"device_routes": ()}, {"device_routes": (TO_GATEWAY,)}, {"destination_rules": RULES[:1]}]
)
def test_without_routes_or_rules_it_is_not_whole(lost):
    """Packets do not get into it."""
    (link,) = liqo_links(seen_by_a2(**lost))

    assert not link.is_whole()


def test_rules_are_found_by_the_table_they_look_up():
    """Others lead elsewhere."""
    other = msgspec.structs.replace(RULES[0], table=7)
    assert RULES == rules_to(seen_by_a2(destination_rules=(other, *RULES)), {TABLE})
