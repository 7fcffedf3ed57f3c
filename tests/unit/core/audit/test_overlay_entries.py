"""Each thing that can be wrong with an overlay device is named, and nothing else is."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confirmation import without_consequences
from meshwatchd.core.audit.expected_entries import good_state
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.snapshot import DeviceRoute, Forwarding, Link, Neighbour, Vxlan
from tests.support.flannel_node import DEVICE, LOCAL, changed, entries, good, hello, look, mac, mesh, snapshot

HELD = entries(3)
GOOD = good(3)
ESCAPED = DeviceRoute(dst="10.42.1.0/24", dev="wg0", table=254, protocol=3, scope=253)
WIDE = msgspec.structs.replace(ESCAPED, dst="10.42.0.0/16")


def _named(findings):
    return [(each.code, each.subject, each.culprit) for each in findings]


def _neighbour(lladdr, *, is_permanent=True):
    first, *others = HELD.neighbours
    return changed(HELD, neighbours=(msgspec.structs.replace(first, lladdr=lladdr, is_permanent=is_permanent), *others))


@pytest.mark.parametrize("known", [None, GOOD])
def test_a_node_as_flannel_leaves_it_is_fine(known):
    """Whether or not anybody remembers how it was, and whatever its peers say in agreement."""
    assert () == look(snapshot(HELD), known=known)
    assert () == look(snapshot(HELD), known=known, hellos={"n1": hello(1, mac(1)), "n2": hello(2, mac(2))})


@pytest.mark.parametrize("known", [None, GOOD])
@pytest.mark.parametrize(
    ("held", "code", "subject"),
    [
        (changed(HELD, neighbours=HELD.neighbours[1:]), FaultCode.NEIGHBOUR_MISSING, "10.42.1.0"),
        (_neighbour(""), FaultCode.NEIGHBOUR_MISSING, "10.42.1.0"),
        (_neighbour("02:de:ad:00:00:01"), FaultCode.NEIGHBOUR_WRONG_MAC, "10.42.1.0"),
        (_neighbour(mac(2)), FaultCode.NEIGHBOUR_WRONG_MAC, "10.42.1.0"),
        (_neighbour(mac(1), is_permanent=False), FaultCode.NEIGHBOUR_NOT_PERMANENT, "10.42.1.0"),
        (changed(HELD, forwarding=HELD.forwarding[1:]), FaultCode.FDB_ENTRY_MISSING, mac(1)),
        (
            changed(HELD, forwarding=(Forwarding(dev=DEVICE, lladdr=mac(1), dst="192.168.50.99"), HELD.forwarding[1])),
            FaultCode.FDB_ENTRY_WRONG,
            mac(1),
        ),
        (changed(HELD, routes=HELD.routes[1:]), FaultCode.POD_ROUTE_MISSING, "10.42.1.0/24"),
        (changed(HELD, routes=(ESCAPED, HELD.routes[1])), FaultCode.POD_ROUTE_ESCAPED, "10.42.1.0/24"),
        (changed(HELD, routes=(WIDE, HELD.routes[1])), FaultCode.POD_ROUTE_ESCAPED, "10.42.1.0/24"),
    ],
)
def test_one_entry_that_is_gone_or_wrong_is_named_alone(known, held, code, subject):
    """With a good state to compare to and without: the other entries tell what the lost one was."""
    (found,) = look(snapshot(held), known=known)

    assert (code, DEVICE, subject, "n1", LOCAL) == (found.code, found.device, found.subject, found.peer, found.culprit)
    assert found.because
    wanted = found.wanted
    if held.routes[:1] != (ESCAPED,):
        assert wanted
        assert not wanted.without(HELD)
        assert all(each in HELD.neighbours for each in wanted.neighbours)
        assert all(each in HELD.forwarding for each in wanted.forwarding)
        assert all(each in HELD.routes for each in wanted.routes)


def test_a_route_of_somebody_elses_is_told_and_not_fought_over():
    """Nothing is wanted in its place: two writers of one route never agree."""
    (found,) = look(snapshot(changed(HELD, routes=(ESCAPED, HELD.routes[1]))))

    assert Entries() == found.wanted
    assert (ESCAPED,) == found.found.routes


@pytest.mark.parametrize("known", [None, GOOD])
@pytest.mark.parametrize("via", ["10.42.2.0", ""])
def test_a_route_to_another_nodes_gateway_is_told_and_not_fought_over(known, via):
    """Where n2 forwards, probes to n1's gateway notice nothing and pods pass by a detour."""
    misled = msgspec.structs.replace(HELD.routes[0], via=via)
    (found,) = look(snapshot(changed(HELD, routes=(misled, HELD.routes[1]))), known=known)

    assert (FaultCode.POD_ROUTE_MISSING, "10.42.1.0/24", "n1") == (found.code, found.subject, found.peer)
    assert (Entries(), (misled,)) == (found.wanted, found.found.routes)
    assert "10.42.1.0" in found.because[0]


def test_a_second_route_of_the_same_rank_is_nobodys_to_judge():
    """One for another TOS: which of them a packet follows is not told by their order."""
    other = msgspec.structs.replace(HELD.routes[0], via="10.42.2.0")

    assert () == look(snapshot(changed(HELD, routes=(other, *HELD.routes))))
    weighed = msgspec.structs.replace(other, metric=100)
    assert () == look(snapshot(changed(HELD, routes=(weighed, *HELD.routes))))


def test_a_route_of_a_peer_that_no_mesh_knows_is_nobodys_to_judge():
    """Only the mesh tells which pods are behind which gateway."""
    strange = msgspec.structs.replace(HELD.routes[0], dst="10.42.77.0/24", via="10.42.77.0")
    other = msgspec.structs.replace(strange, via="10.42.2.0")
    known = msgspec.structs.replace(GOOD, entries=changed(HELD, routes=(*HELD.routes, strange)))

    assert () == look(snapshot(changed(HELD, routes=(*HELD.routes, other))), known=known)


def _dead_end(kind="blackhole", **fields):
    first = HELD.routes[0]
    return msgspec.structs.replace(first, dev="", via="", is_onlink=False, kind=kind, **fields)


@pytest.mark.parametrize("known", [None, GOOD])
@pytest.mark.parametrize("kind", ["blackhole", "unreachable", "prohibit", "throw"])
def test_a_dead_end_in_place_of_a_route_is_named_and_has_to_go(known, kind):
    """`ip route replace blackhole PODS`: adding the route alone would fail, for its place is taken."""
    end = _dead_end(kind)
    (found,) = look(snapshot(changed(HELD, routes=HELD.routes[1:]), dead_ends=(end,)), known=known)

    assert (FaultCode.POD_ROUTE_MISSING, "10.42.1.0/24", LOCAL) == (found.code, found.subject, found.culprit)
    assert kind in found.because[0]
    assert (Entries(routes=HELD.routes[:1]), Entries(routes=(end,))) == (found.wanted, found.unwanted)


def test_a_dead_end_before_a_route_is_all_that_has_to_go():
    """The route with its metric is there; another of a smaller one is taken before it."""
    weighed = tuple(msgspec.structs.replace(each, metric=100) for each in HELD.routes)
    known = msgspec.structs.replace(GOOD, entries=changed(HELD, routes=weighed))
    (found,) = look(snapshot(changed(HELD, routes=weighed), dead_ends=(_dead_end(),)), known=known)
    plan = plan_repair(found)

    assert FaultCode.POD_ROUTE_MISSING is found.code
    assert plan is not None
    assert ("ip route del blackhole 10.42.1.0/24 proto boot",) == plan.commands()
    assert ("ip route add blackhole 10.42.1.0/24 proto boot",) == plan.inverse().commands()


def test_a_dead_end_behind_a_route_is_nobodys_business():
    """Operators keep one of a large metric so that nothing escapes while the route is away."""
    behind = _dead_end(metric=4096)

    assert () == look(snapshot(HELD, dead_ends=(behind,)), known=GOOD)
    (found,) = look(snapshot(changed(HELD, routes=HELD.routes[1:]), dead_ends=(behind,)), known=GOOD)
    assert not found.unwanted


@pytest.mark.parametrize(
    ("held", "is_up"), [(changed(HELD, routes=(), neighbours=()), True), (Entries(forwarding=HELD.forwarding), False)]
)
def test_a_device_that_is_filled_again_has_its_dead_ends_cleared(held, is_up):
    """Else one of the routes could not be added, and the whole repair would be undone."""
    end = _dead_end()
    (found,) = look(snapshot(held, is_up=is_up, dead_ends=(end,)), known=GOOD)

    assert Entries(routes=(end,)) == found.unwanted
    assert end in found.found.routes


@pytest.mark.parametrize("fdb", [HELD.forwarding, ()])
def test_a_device_that_went_down_and_up_is_one_finding(fdb):
    """Routes and neighbours go, the FDB stays; of a recreated device nothing is left. What peers ask comes as STALE."""
    learned = (Neighbour(dev=DEVICE, address="10.42.1.0", lladdr=mac(1), is_permanent=False),)
    for neighbours in ((), learned):
        (found,) = look(snapshot(Entries(forwarding=fdb, neighbours=neighbours)), known=GOOD)

        assert FaultCode.OVERLAY_EMPTIED is found.code
        assert HELD == found.wanted


def test_what_no_route_leads_to_is_put_back_with_the_rest_and_missed_by_nobody():
    """Under Kilo flannel keeps neighbours and FDB entries of the other locations, which carry nothing."""
    idle = good(4)
    idle = msgspec.structs.replace(idle, entries=changed(idle.entries, routes=HELD.routes))
    far = msgspec.structs.replace(mesh(4).node[3], location="far")
    kilo = msgspec.structs.replace(mesh(4, profile="kilo"), node=(*mesh(4).node[:3], far))

    def seen(held):
        return without_consequences(audit(View(snapshot=snapshot(held), mesh=kilo, node=LOCAL, hellos={}, good=idle)))

    assert () == seen(HELD)
    (found,) = seen(Entries())
    assert set(idle.entries.neighbours) == set(found.wanted.neighbours)
    assert set(idle.entries.forwarding) == set(found.wanted.forwarding)
    assert set(HELD.routes) == set(found.wanted.routes)


def test_a_device_that_is_down_or_gone_hides_what_it_lacks():
    """One cause, one name."""
    down = look(snapshot(changed(HELD, neighbours=(), routes=()), is_up=False), known=GOOD)
    gone = look(snapshot(Entries(), has_device=False), known=GOOD)

    assert [(FaultCode.OVERLAY_DEVICE_DOWN, DEVICE, LOCAL)] == _named(down)
    assert HELD == down[0].wanted
    assert [(FaultCode.OVERLAY_DEVICE_MISSING, DEVICE, LOCAL)] == _named(gone)
    assert () == look(snapshot(Entries(), has_device=False)), "what was never there is nobody's loss"


def test_an_own_mac_that_changed_explains_the_neighbours_it_flushed():
    """FDB and routes stay; once the neighbours are back, by flannel or by us, nothing is wrong here."""
    flushed = look(snapshot(changed(HELD, neighbours=()), lladdr="66:00:00:00:00:01"), known=GOOD)

    assert [(FaultCode.VTEP_MAC_CHANGED, DEVICE, LOCAL)] == _named(flushed)
    assert HELD.neighbours == flushed[0].wanted.neighbours
    assert () == look(snapshot(HELD, lladdr="66:00:00:00:00:01"), known=GOOD)


def test_a_device_made_anew_with_another_mac_is_one_finding_that_wants_everything():
    """Neighbours alone would leave it half filled, and each lost route and FDB entry would be told as a fault."""
    (found,) = look(snapshot(Entries(), lladdr="66:00:00:00:00:01"), known=GOOD)

    assert (FaultCode.VTEP_MAC_CHANGED, DEVICE, LOCAL) == (found.code, found.subject, found.culprit)
    assert HELD == found.wanted
    assert "66:00:00:00:00:01" in found.because[0]
    assert "neither route nor neighbour" in found.because[1]


def test_a_peer_that_has_another_mac_than_flannel_wrote_is_named():
    """Neighbour and FDB agree with each other; only the peer itself can know better."""
    (found,) = look(snapshot(HELD), known=GOOD, hellos={"n1": hello(1, "66:00:00:00:00:01")})

    assert (FaultCode.VTEP_MAC_CHANGED, "10.42.1.0", "n1") == (found.code, found.subject, found.culprit)
    (neighbour,) = found.wanted.neighbours
    assert Forwarding(dev=DEVICE, lladdr="66:00:00:00:00:01", dst="192.168.50.11") == found.wanted.forwarding[0]
    assert "66:00:00:00:00:01" == neighbour.lladdr


def test_a_peer_that_flannel_has_followed_is_no_finding():
    """A reboot with another MAC, another address: neighbour, FDB and what the mesh says of the peer agree."""
    held = _neighbour("66:00:00:00:00:01")
    moved = Forwarding(dev=DEVICE, lladdr="66:00:00:00:00:01", dst="192.168.50.11")

    assert () == look(snapshot(changed(held, forwarding=(*HELD.forwarding, moved))), known=GOOD)


def test_a_peer_that_was_removed_is_no_finding():
    """Flannel removes all three; a node of which no mesh knows is not put back."""
    fewer = entries(3)

    assert () == look(snapshot(fewer), 3, known=good(4))
    assert look(snapshot(entries(3)), 4, known=good(4)), "one that the mesh has should be there"


def test_a_mesh_that_uses_other_addresses_than_its_nodes_is_believed():
    """With public-ip-overwrite every FDB entry names an address nobody told us."""
    public = tuple(msgspec.structs.replace(each, dst=f"203.0.113.{n}") for n, each in enumerate(HELD.forwarding))

    assert () == look(snapshot(changed(HELD, forwarding=public)))


def test_under_kilo_only_the_own_locations_routes_are_flannels():
    """Routes to the others are Kilo's, which puts them back itself."""
    nodes = mesh(3).node
    far = msgspec.structs.replace(nodes[2], location="far")
    kilo = msgspec.structs.replace(mesh(3, profile="kilo"), node=(*nodes[:2], far))
    held = changed(HELD, routes=HELD.routes[:1], neighbours=HELD.neighbours[:1])
    view = View(snapshot=snapshot(held), mesh=kilo, node=LOCAL, hellos={}, good=None)

    assert () == audit(view)
    assert audit(msgspec_view(view, changed(held, routes=())))


def msgspec_view(view, held):
    """The same look at other entries."""
    return View(snapshot=snapshot(held), mesh=view.mesh, node=view.node, hellos=view.hellos, good=view.good)


@pytest.mark.parametrize("device", ["cilium_vxlan", "vxlan.calico", "wg0"])
def test_a_device_that_is_not_understood_is_not_judged(device):
    """Nothing is expected of it, so nothing is missing."""
    other = msgspec.structs.replace(mesh(3), overlay_device=device)
    seen = snapshot(Entries())
    seen = msgspec.structs.replace(
        seen, links=(*seen.links, Link(name=device, index=9, kind="vxlan", is_up=True, mtu_bytes=1450))
    )

    assert () == audit(View(snapshot=seen, mesh=other, node=LOCAL, hellos={}, good=GOOD))


def test_a_device_that_went_with_the_tunnel_below_is_not_told_twice():
    """`wg-quick down wg0` takes flannel.1 along: the fault is wg0's, until wg0 is back and flannel.1 is not."""
    known = msgspec.structs.replace(GOOD, is_over_tunnel=True)
    seen = snapshot(HELD)
    tunnel = Link(name=mesh(3).wireguard_device, index=77, kind="wireguard", is_up=True, mtu_bytes=1420)
    bare = tuple(link for link in seen.links if link.name not in (DEVICE, tunnel.name))

    assert () == look(msgspec.structs.replace(seen, links=bare), known=known)
    (missing,) = look(msgspec.structs.replace(seen, links=(*bare, tunnel)), known=known)
    assert FaultCode.OVERLAY_DEVICE_MISSING is missing.code


@pytest.mark.parametrize("held", [entries(3), Entries(forwarding=entries(3).forwarding)], ids=["put back", "emptied"])
def test_a_device_without_its_address_is_told_until_it_has_one(held):
    """`ip addr flush` takes routes and neighbours along; with these alone nobody answers at the address."""
    well = snapshot(entries(3), vxlan=Vxlan(vni=1, port=8472))

    def at(*addresses: str, seen=well):
        links = (msgspec.structs.replace(each, addresses=addresses) for each in seen.links)
        return msgspec.structs.replace(seen, links=tuple(links))

    known = good_state(at("10.42.0.0"), mesh(3), "boot")
    (found,) = look(at(seen=snapshot(held)), known=known)

    assert FaultCode.OVERLAY_EMPTIED is found.code
    assert "run: ip address add 10.42.0.0/32 dev flannel.1" in found.because[1]
    assert () == look(at("10.42.0.9"), known=known), "its lease is another one"
