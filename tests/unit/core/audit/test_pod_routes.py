"""Where the kernel routes packets of pods, beside nodes that answer."""

from __future__ import annotations

from errno import EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH, ENOBUFS, EXDEV

import msgspec
import pytest

from meshwatchd.core.audit.confirmation import without_consequences
from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.pod_routes import (
    MAX_FOUND,
    PAUSE_NS,
    REST_NS,
    ROUND,
    PodRouteAudit,
    pod_bridge,
    questions,
)
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import AuditFinding, Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.route_lookup import RouteAnswer
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot
from tests.support.lab_mesh import declared_mesh, direct_settings, direct_snapshot, snapshot_of

MESH = declared_mesh()
ERRORS = (EHOSTUNREACH, ENETUNREACH, EACCES, EINVAL)


def _routes(node, mesh=MESH):
    """What Kilo and flannel have written: leaders into the tunnel, members to their leader."""
    here = next(each for each in mesh.node if each.name == node)
    leads = node in ("a1", "b1")
    for other in mesh.node:
        device = "kilo0" if other.location != here.location and leads else "flannel.1"
        if other.name != node:
            yield DeviceRoute(dst=other.pod_cidr, dev=device, table=254, protocol=4)
        if other.location != here.location:
            yield DeviceRoute(dst=f"{other.node_ip}/32", dev=device, table=254, protocol=4)


def _view(node="a1", *, mesh=MESH, bridge=True, without=(), **changes):
    own = next(each for each in mesh.node if each.name == node)
    seen = snapshot_of(node)
    cni0 = Link(
        name="cni0",
        index=9,
        kind="bridge",
        is_up=True,
        mtu_bytes=1450,
        addresses=(own.pod_cidr.replace(".0/24", ".1"),),
        prefix_lengths=(24,),
    )
    links = (*seen.links, cni0) if bridge else seen.links
    routes = tuple(each for each in _routes(node, mesh) if each.dst not in without)
    snapshot = msgspec.structs.replace(seen, links=links, device_routes=routes, **changes)
    return View(snapshot=snapshot, mesh=mesh, node=node, hellos={}, good=None)


def _asked(view, *, is_forwarding=True):
    every = questions(view, "mw", pod_bridge(view), is_forwarding=is_forwarding)
    return [(each.question.source, each.question.destination, each.question.iif) for each in every if not each.host]


class Kernel:
    """Answers as the mesh wants it, but for destinations that somebody leads elsewhere."""

    def __init__(self, **wrong):
        self.wrong, self.asked = wrong, []

    def ask(self, question):
        """By the third octet of a pod's address: "net5"; by a node's own."""
        self.asked.append(question)
        if not question.destination.startswith("10.24"):
            return self.wrong.get(question.destination, RouteAnswer(device="flannel.1"))
        net = question.destination.split(".")[2]
        is_own = question.source.split(".")[2] == net
        return self.wrong.get(f"net{net}", RouteAnswer(device="cni0" if is_own else "flannel.1"))


def _found(kernel, view=None, now=SECOND):
    return tuple(PodRouteAudit("mw", kernel.ask).look(view or _view(), 1, now, is_forwarding=True))


def test_a_member_asks_for_itself_and_for_its_pods():
    """From its own address among its pods, and from an address that a pod may have by the bridge."""
    asked = _asked(_view("a3"))
    assert ("10.244.3.0", "10.244.5.0", "") in asked
    assert ("10.244.3.254", "10.244.5.0", "cni0") in asked
    assert 2 * 5 == len(asked)


def test_a_leader_asks_for_what_it_relays():
    """Each member and each node of the other location once in either direction."""
    asked = _asked(_view("a1"))
    relayed = [each for each in asked if each[2] in ("kilo0", "flannel.1")]
    assert {("10.244.2.0", "flannel.1"), ("10.244.3.0", "flannel.1")} == {(s, i) for s, _, i in relayed if i != "kilo0"}
    assert {"10.244.4.0", "10.244.5.0", "10.244.6.0"} == {d for _, d, i in relayed if i == "flannel.1"}
    assert {"10.244.2.0", "10.244.3.0"} == {d for _, d, i in relayed if i == "kilo0"}
    assert 2 * 5 + 2 * 3 == len(asked)


def test_without_forwarding_only_own_packets_are_asked_for():
    """What comes in goes nowhere then, and `forwarding-off` says why."""
    assert all(not iif for _, _, iif in _asked(_view("a1"), is_forwarding=False))


def test_a_node_without_bridge_or_address_among_its_pods_asks_less():
    """Cilium routes pods in eBPF; without any address of that kind there is nothing to ask from."""
    assert all(not iif for _, _, iif in _asked(_view("a3", bridge=False)))
    bare = Snapshot(device_routes=tuple(_routes("a3")))
    assert [] == _asked(View(snapshot=bare, mesh=MESH, node="a3", hellos={}, good=None))


def test_a_node_that_the_agent_has_taken_out_of_the_mesh_is_not_asked_for():
    """Kilo drops a node that was silent for a minute, its address and its pods together."""
    gone = ("10.244.5.0/24", "10.2.0.12/32")
    assert not any(destination == "10.244.5.0" for _, destination, _ in _asked(_view("a1", without=gone)))
    assert any(destination == "10.244.5.0" for _, destination, _ in _asked(_view("a1", without=gone[:1])))


def test_all_is_well_where_packets_leave_by_devices_of_the_mesh():
    """A failover's too: its device, and the overlay on the way to another relay."""
    assert [] == [*_found(Kernel())]
    standby = Link(name="mw1", index=20, kind="wireguard", is_up=True, mtu_bytes=1420)
    view = _view()
    view = View(
        snapshot=msgspec.structs.replace(view.snapshot, links=(*view.snapshot.links, standby)),
        mesh=MESH,
        node="a1",
        hellos={},
        good=None,
    )
    assert [] == [*_found(Kernel(net5=RouteAnswer(device="mw1")), view)]


@pytest.mark.parametrize("number", ERRORS)
def test_packets_that_go_nowhere_are_named_with_the_rule(number):
    """`ip rule add to 10.244.5.0/24 lookup 900`, and an unreachable route there."""
    rule = "100: from all to 10.244.5.0/24 lookup 900"
    (found,) = _found(Kernel(net5=RouteAnswer(errno=number, rule=rule)))

    assert (FaultCode.POD_ROUTE_DIVERTED, "kilo0", "10.244.5.0/24") == found.name
    assert ("b2", "a1") == (found.peer, found.culprit)
    assert found.because[0].startswith("packets from 10.244.1.0 to 10.244.5.0 go nowhere")
    assert f"ip rule {rule} decides" in found.because
    assert "the mesh routes 10.244.5.0/24 of b2 into kilo0" in found.because


@pytest.mark.parametrize(
    "answer", [RouteAnswer(device="eth0"), RouteAnswer(errno=EHOSTUNREACH), RouteAnswer(errno=EINVAL)]
)
def test_a_bridge_of_pods_that_is_down_is_missed(answer):
    """`ip link set cni0 down`, or its address deleted: the node's address on flannel.1 answers every probe."""
    kernel = Kernel(net3=RouteAnswer(device="cni0"))
    audit = PodRouteAudit("mw", kernel.ask)
    assert [] == [*audit.look(_view("a3"), 1, SECOND, is_forwarding=True)]

    kernel.wrong["net3"] = answer
    (found,) = audit.look(_view("a3", bridge=False), 2, 3 * SECOND, is_forwarding=True)

    assert (FaultCode.POD_ROUTE_DIVERTED, "cni0", "10.244.3.0/24") == found.name
    assert ("a3", "a3") == (found.peer, found.culprit)
    assert "are behind cni0" in found.because[-1]


def test_a_bridge_that_was_never_there_is_not_missed():
    """A node without pods has none, whatever becomes of packets to them."""
    assert () == _found(Kernel(net3=RouteAnswer(device="eth0")), _view("a3", bridge=False))


def test_a_bridge_of_another_pod_network_is_not_missed():
    """Another CNI has taken the node over: its address among its pods is on another device."""
    kernel = Kernel(net3=RouteAnswer(device="cni0"))
    audit = PodRouteAudit("mw", kernel.ask)
    assert () == tuple(audit.look(_view("a3"), 1, SECOND, is_forwarding=True))
    kernel.wrong["net3"] = RouteAnswer(device="cilium_host")
    seen = _view("a3", bridge=False).snapshot
    links = tuple(
        msgspec.structs.replace(link, name="cilium_host") if link.name == "flannel.1" else link for link in seen.links
    )
    view = View(snapshot=msgspec.structs.replace(seen, links=links), mesh=MESH, node="a3", hellos={}, good=None)

    assert [] == [each for each in audit.look(view, 2, 3 * SECOND, is_forwarding=True) if each.peer == "a3"]


def test_packets_that_leave_by_a_stranger_are_named():
    """As by a table with a default route."""
    (found,) = _found(Kernel(net2=RouteAnswer(device="eth0")))
    assert "packets from 10.244.1.0 to 10.244.2.0 leave by eth0" == found.because[0]
    assert ("flannel.1", "a2") == (found.device, found.peer)


def _held(*prefixes):
    """What the overlay device held while all was well."""
    return GoodState(device="flannel.1", entries=Entries(routes=tuple(map(_into_overlay, prefixes))))


def _into_overlay(prefix):
    return DeviceRoute(dst=prefix, dev="flannel.1", table=254, protocol=3)


@pytest.mark.parametrize("peer", ["a2", "b2"])
@pytest.mark.parametrize("via", ["", "10.1.0.254"])
def test_a_route_in_the_place_of_the_meshs_is_told_with_its_device(peer, via):
    """`ip route replace PODS via GATEWAY dev eth0`: of the mesh's own route nothing is left."""
    node = next(each for each in MESH.node if each.name == peer)
    view = _view(without=(node.pod_cidr,))
    view = View(snapshot=view.snapshot, mesh=MESH, node="a1", hellos={}, good=_held("10.244.2.0/24", "10.244.5.0/24"))
    taken = RouteAnswer(device="eth0", via=via, prefix=node.pod_cidr)
    (found,) = _found(Kernel(**{f"net{node.pod_cidr.split('.')[2]}": taken}), view)

    assert (FaultCode.POD_ROUTE_ESCAPED, "flannel.1", node.pod_cidr) == found.name
    assert (peer, "a1") == (found.peer, found.culprit)
    by = f" by {via}" if via else ""
    assert f"the main table has a route of {node.pod_cidr}{by} into eth0, and none of the mesh's" in found.because
    missing = AuditFinding(code=FaultCode.POD_ROUTE_MISSING, device="flannel.1", subject=node.pod_cidr)
    assert (found,) == without_consequences((missing, found)), "what could not be put back is not told beside it"


@pytest.mark.parametrize(
    "answer", [RouteAnswer(device="eth0", prefix="0.0.0.0/0"), RouteAnswer(errno=ENETUNREACH), RouteAnswer()]
)
def test_a_peer_that_was_taken_out_of_the_mesh_is_no_loss(answer):
    """Its pods follow the default route, or none: only a route for these very pods was made by somebody."""
    view = _view(without=("10.244.2.0/24",))
    view = View(snapshot=view.snapshot, mesh=MESH, node="a1", hellos={}, good=_held("10.244.2.0/24"))
    kernel = Kernel(net2=answer)

    assert () == _found(kernel, view)
    assert any(each.destination == "10.244.2.0" for each in kernel.asked)


def test_pods_without_a_route_are_named_while_their_node_has_one():
    """And the dead end in its place."""
    end = DeviceRoute(dst="10.244.5.0/24", dev="", table=254, protocol=3, kind="unreachable")
    view = _view(without=("10.244.5.0/24",), dead_ends=(end,))
    (found,) = _found(Kernel(net5=RouteAnswer(errno=EHOSTUNREACH)), view)
    assert "the main table has unreachable 10.244.5.0/24" in found.because
    assert "there is a route to 10.2.0.12 of b2, and none to its pods in 10.244.5.0/24" in found.because


@pytest.mark.parametrize("answer", [RouteAnswer(), RouteAnswer(errno=EXDEV), RouteAnswer(errno=ENOBUFS)])
def test_what_the_kernel_does_not_tell_is_no_fault(answer):
    """EXDEV is what a strict rp_filter makes of a source."""
    assert [] == [*_found(Kernel(net5=answer))]


def test_a_source_that_cannot_be_answered_is_told_once():
    """What comes in from pods behind a rule of dead ends is refused for its source (EINVAL), wherever it is to go."""

    class Refusing(Kernel):
        def ask(self, question):
            """Pods of b2 are unreachable from here, and what comes from them is refused."""
            is_from_b2 = question.source == "10.244.5.0" and question.iif
            return RouteAnswer(errno=EINVAL) if is_from_b2 else super().ask(question)

    (found,) = _found(Refusing(net5=RouteAnswer(errno=EHOSTUNREACH)))
    assert "b2" == found.peer


@pytest.mark.parametrize(
    ("rule", "is_told"),
    [
        ("5: from all to 10.244.5.0/24 iif cni0 blackhole", True),
        ("99: from all iif kilo0 lookup 1107", False),
        ("", False),
    ],
)
def test_a_rule_that_drops_what_pods_send_is_told_though_the_host_is_routed(rule, is_told):
    """`ip rule add iif cni0 to 10.244.5.0/24 blackhole`: the kernel answers as where it refuses the source."""

    class Dropping(Kernel):
        def ask(self, question):
            """What comes in by cni0 for b2's pods is dropped."""
            is_dropped = question.iif == "cni0" and question.destination.startswith("10.244.5.")
            return RouteAnswer(errno=EINVAL, rule=rule) if is_dropped else super().ask(question)

    assert (["b2"] if is_told else []) == [each.peer for each in _found(Dropping())]


def test_a_node_with_one_pod_address_alone_is_asked_for_by_that():
    """As a hello may have it."""
    nodes = tuple(
        msgspec.structs.replace(each, pod_cidr="203.0.113.7/32") if each.name == "b3" else each for each in MESH.node
    )
    asked = _asked(_view(mesh=msgspec.structs.replace(MESH, node=nodes)))

    assert "203.0.113.7" in {destination for _, destination, _ in asked}


@pytest.mark.parametrize(
    "cause",
    [
        (FaultCode.OVERLAY_DEVICE_DOWN, "flannel.1", "flannel.1"),
        (FaultCode.POD_ROUTE_MISSING, "flannel.1", "10.244.2.0/24"),
    ],
)
def test_what_a_fault_of_the_overlay_explains_is_not_told_twice(cause):
    """Its routes have gone with it."""
    code, device, subject = cause
    (found,) = _found(Kernel(net2=RouteAnswer(device="eth0")))
    assert (AuditFinding(code=code, device=device, subject=subject),) == without_consequences(
        (AuditFinding(code=code, device=device, subject=subject), found)
    )


def test_over_an_overlay_on_the_tunnel_all_pods_are_the_overlays():
    """Every node is a location of its own, and nobody relays."""
    mesh = direct_settings("n1").mesh
    flannel = msgspec.structs.replace(direct_snapshot().links[1], addresses=("10.42.1.0",))
    routes = tuple(DeviceRoute(dst=f"10.42.{number}.0/24", dev="flannel.1", table=254, protocol=3) for number in (2, 3))
    snapshot = Snapshot(links=(direct_snapshot().links[0], flannel), device_routes=routes)
    view = View(snapshot=snapshot, mesh=mesh, node="n1", hellos={}, good=None)
    assert [("10.42.1.0", "10.42.2.0", ""), ("10.42.1.0", "10.42.3.0", "")] == _asked(view)


def test_the_kernel_is_asked_when_something_has_changed_and_seldom_besides():
    """Rest costs a round in half a minute; looks in between cost nothing."""
    kernel, view = Kernel(), _view("a3")
    audit = PodRouteAudit("mw", kernel.ask)

    def asked_at(seconds, version=1):
        before = len(kernel.asked)
        list(audit.look(view, version, seconds * SECOND, is_forwarding=True))
        return len(kernel.asked) - before

    assert [16, 0, 0] == [asked_at(seconds) for seconds in (1, 2, 20)]
    assert [16, 0] == [asked_at(seconds, version=2) for seconds in (21, 22)]
    assert 16 == asked_at(21 + REST_NS // SECOND, version=2)


def test_a_storm_of_changes_does_not_make_it_ask_more():
    """A round in PAUSE_NS at most, and the last change is seen by one."""
    kernel, view = Kernel(), _view("a3")
    audit = PodRouteAudit("mw", kernel.ask)
    for step in range(600):
        list(audit.look(view, step, step * SECOND // 10, is_forwarding=True))
    rounds = 60 * SECOND // PAUSE_NS
    assert rounds * 16 == len(kernel.asked)
    list(audit.look(view, 599, 60 * SECOND, is_forwarding=True))
    assert (rounds + 1) * 16 == len(kernel.asked)


def test_a_large_mesh_is_asked_for_in_rounds_from_where_the_last_one_ended():
    """So that changes without end starve nobody's pods; and only some of many findings are told."""
    own, *_ = MESH.node
    others = [
        msgspec.structs.replace(
            MESH.node[4],
            name=f"n{number}",
            node_ip=f"10.2.{number}.2",
            pod_cidr=f"10.245.{number}.0/24",
            overlay_ip=f"10.245.{number}.0",
        )
        for number in range(200)
    ]
    mesh = msgspec.structs.replace(MESH, node=(own, *others))
    view = _view("a1", mesh=mesh)
    kernel = Kernel(**{f"net{number}": RouteAnswer(errno=EHOSTUNREACH) for number in range(200)})
    audit = PodRouteAudit("mw", kernel.ask)
    for step in range(-(-3 * len(others) // ROUND)):
        before = len(kernel.asked)
        found = tuple(audit.look(view, step, step * PAUSE_NS, is_forwarding=True))
        assert ROUND == len(kernel.asked) - before
    assert {each.pod_cidr for each in (own, *others)} <= {
        f"{question.destination.rpartition('.')[0]}.0/24" for question in kernel.asked
    }
    assert MAX_FOUND == len(found)


def test_what_is_put_right_is_told_no_more():
    """The next round finds it."""
    kernel, view = Kernel(net5=RouteAnswer(errno=EHOSTUNREACH)), _view()
    audit = PodRouteAudit("mw", kernel.ask)
    assert 1 == len(list(audit.look(view, 1, SECOND, is_forwarding=True)))
    kernel.wrong = {}
    assert [] == list(audit.look(view, 2, SECOND + PAUSE_NS, is_forwarding=True))


@pytest.mark.parametrize(("protocol", "found"), [(6, []), (17, [(FaultCode.NODE_ROUTE_BLOCKED, "192.168.100.12/32")])])
def test_what_carries_the_mesh_is_of_udp(protocol, found):
    """A neighbour that is locked out by TCP alone is nobody's loss here."""

    def ask(question):
        is_lost = question.protocol == protocol and question.destination == "192.168.100.12"
        return RouteAnswer(errno=EHOSTUNREACH) if is_lost else Kernel().ask(question)

    told = PodRouteAudit("mw", ask, lambda: (protocol,)).look(_view(), 1, SECOND, is_forwarding=True)

    assert found == [(each.code, each.subject) for each in told]


@pytest.mark.parametrize(
    ("protocols", "answer", "count"),
    [
        ((6,), RouteAnswer(errno=EHOSTUNREACH, rule="from all to 10.244.5.0/24 ipproto 6 unreachable"), 1),
        ((6,), RouteAnswer(device="lo", rule="from all ipproto 6 lookup 100"), 0),
        ((), RouteAnswer(errno=EHOSTUNREACH), 0),
    ],
    ids=["dead end", "a proxy's", "no such rule"],
)
def test_what_loses_one_protocol_of_a_nodes_pods_is_found(protocols, answer, count):
    """`ip rule add ipproto tcp to 10.244.5.0/24 unreachable`: probes are of UDP. Where else it goes may be a proxy."""

    def ask(question):
        is_lost = question.protocol == 6 and question.destination == "10.244.5.0"
        return answer if is_lost else Kernel().ask(question)

    found = tuple(PodRouteAudit("mw", ask, lambda: protocols).look(_view(), 1, SECOND, is_forwarding=True))

    assert [(FaultCode.POD_ROUTE_DIVERTED, "10.244.5.0/24", "b2")] * count == [
        (each.code, each.subject, each.peer) for each in found
    ]
    assert all(each.because[0].startswith("TCP packets from 10.244.1.") for each in found)
    assert all(f"ip rule {answer.rule} decides" in each.because for each in found)
