"""A leader's routes that hand packets for another location back to a member, and routes that look like them."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.peer_faults import explain
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, RTPROT_BOOT
from meshwatchd.model.events import PeerFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from meshwatchd.model.snapshot import DeviceRoute
from tests.support.lab_mesh import declared_mesh, settings_for, snapshot_of

MESH = declared_mesh()
A3 = next(each for each in MESH.node if each.name == "a3")
KILOS = tuple(
    DeviceRoute(dst=prefix, dev="kilo0", table=MAIN_TABLE, protocol=4)
    for each in MESH.node
    if each.location == A3.location
    for prefix in each.prefixes()
)
BACK = DeviceRoute(
    dst=A3.pod_cidr, via="10.244.6.0", dev="flannel.1", table=MAIN_TABLE, protocol=RTPROT_BOOT, is_onlink=True
)
OTHERS = tuple(each for each in KILOS if each.dst != A3.pod_cidr)


def _found(*routes, node="b1", mesh=MESH, links=None):
    seen = msgspec.structs.replace(snapshot_of(node), device_routes=routes)
    seen = seen if links is None else msgspec.structs.replace(seen, links=links(seen.links))
    view = View(snapshot=seen, mesh=mesh, node=node, hellos={}, good=None)
    return tuple(each for each in audit(view) if each.code is FaultCode.POD_ROUTE_DIVERTED)


def _with(links, name, **changes):
    return tuple(msgspec.structs.replace(each, **changes) if each.name == name else each for each in links)


@pytest.mark.parametrize("prefix", A3.prefixes())
def test_a_route_back_into_the_overlay_is_named(prefix):
    """`ip route replace 10.244.3.0/24 via 10.244.6.0 dev flannel.1 onlink` on b1, and b3 has its route by b1."""
    others = tuple(each for each in KILOS if each.dst != prefix)
    (found,) = _found(*others, msgspec.structs.replace(BACK, dst=prefix))

    assert ("flannel.1", prefix) == (found.device, found.subject)
    assert ("a3", "b1") == (found.peer, found.culprit)
    assert f"{prefix} of a3 in onprem leads back to b3: via 10.244.6.0 dev flannel.1" == found.because[0]
    assert found.because[1].startswith("b1 leads cloud: b3 sends such packets here")


def test_the_route_that_is_taken_counts():
    """That of the smaller metric, in whatever order they are seen."""
    spare = msgspec.structs.replace(BACK, metric=100)
    assert () == _found(*KILOS, spare) == _found(spare, *KILOS)
    kilos_spare = msgspec.structs.replace(KILOS[0], dst=A3.pod_cidr, metric=100)
    assert 1 == len(_found(*OTHERS, kilos_spare, BACK)) == len(_found(BACK, *OTHERS, kilos_spare))


@pytest.mark.parametrize(
    ("routes", "changes"),
    [
        (KILOS, {}),
        ((*OTHERS, msgspec.structs.replace(BACK, via="10.244.4.0")), {"node": "b3"}),
        ((*OTHERS, BACK), {"links": lambda links: _with(links, "kilo0", is_up=False)}),
        ((*OTHERS, BACK), {"links": lambda links: tuple(each for each in links if each.name != "kilo0")}),
        ((BACK,), {}),
        ((*OTHERS, BACK), {"mesh": msgspec.structs.replace(MESH, profile="flannel")}),
        ((*OTHERS, msgspec.structs.replace(BACK, table=1107)), {}),
        ((*OTHERS, msgspec.structs.replace(BACK, dst="10.244.5.0/24", via="10.244.5.0")), {}),
        ((*OTHERS, msgspec.structs.replace(BACK, via="10.244.3.0")), {}),
        ((*OTHERS, msgspec.structs.replace(BACK, dst="10.99.0.0/16")), {}),
    ],
    ids=[
        "as Kilo has it",
        "a member, by its leader",
        "another node leads now",
        "no tunnel",
        "has just got the lead",
        "not Kilo",
        "a failover's table",
        "a neighbour's pods",
        "to the node itself, by an overlay of all nodes",
        "nobody's pods",
    ],
)
def test_other_routes_into_the_overlay_are_right(routes, changes):
    """Members, failovers and meshes whose overlay is one for all nodes route like that."""
    assert () == _found(*routes, **changes)


def test_it_explains_what_probes_of_all_say():
    """They find that a3's pods are out of reach, at b1 or at a3."""
    book = FindingBook(settings_for("b1"), "b1")
    list(book.report(_found(*OTHERS, BACK), 1))
    entry = CATALOGUE[FaultCode.POD_NETWORK_BROKEN]
    said = Verdict(fault=entry.code, layer=entry.layer, severity=entry.severity, pair=0, culprit=NodeName("b1"))
    assert FaultCode.POD_ROUTE_DIVERTED is book.explain(said).fault

    word = PeerFault(
        fault=FaultCode.POD_ROUTE_DIVERTED, culprit=NodeName("b1"), source=NodeName("b1"), is_own_leader=True
    )
    of_a3 = msgspec.structs.replace(said, culprit=NodeName("a3"))
    assert [("pod-route-diverted", "b1")] * 2 == [
        (str(t.fault), t.culprit) for t in (explain(said, [word]), explain(of_a3, [word]))
    ]
