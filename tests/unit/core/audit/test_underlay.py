"""Addresses of nodes on the LAN: twice, elsewhere, or wrong in the neighbour table."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from meshwatchd.core.audit.underlay import UnderlayView, advertised, audit_underlay, lan_device, questions, suspects_of
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.snapshot import DeviceRoute, Link, Neighbour, Snapshot, Vxlan
from meshwatchd.model.underlay import ArpAnswers
from tests.support.bench import ready
from tests.support.flannel_node import LOCAL, hello, mac, mesh

OWN, PEER, OTHER, GATEWAY = (f"192.168.50.{last}" for last in (10, 11, 12, 1))
STRANGER, ROUTER = "02:de:ad:be:ef:01", "02:4e:00:00:00:fe"
ALL = (LOCAL, "n1")


def _nic(number):
    return f"02:4e:00:00:00:{number:02x}"


N1, N2 = _nic(1), _nic(2)


def _snapshot(*also):
    """eth0 of n0, with further addresses."""
    held = (OWN, *also)
    link = Link(
        name="eth0",
        index=2,
        kind="",
        is_up=True,
        mtu_bytes=1500,
        addresses=held,
        prefix_lengths=(24,) * len(held),
        lladdr=_nic(0),
    )
    way = DeviceRoute(dst="0.0.0.0/0", dev="eth0", table=254, protocol=3, via=GATEWAY)
    return Snapshot(links=(link,), default_routes=(way,))


def _view(*entries, answers=None, suspects=ALL, seen=None, former=None, told=True):
    macs = {1: (N1, _nic(0x11)), 2: (N2,)}
    hellos = {f"n{number}": hello(number, mac(number), node_macs=macs[number]) for number in macs} if told else {}
    return UnderlayView(
        snapshot=seen or _snapshot(),
        mesh=mesh(3),
        node=LOCAL,
        hellos=hellos,
        neighbours=entries,
        former=former or {},
        answers={address: said if isinstance(said, tuple) else (said,) for address, said in (answers or {}).items()},
        suspects=suspects,
    )


def _found(*entries, **more):
    found = audit_underlay(_view(*entries, **more))
    return [(each.code, each.subject, each.peer, each.culprit) for each in found]


def _entry(lladdr, address=PEER, *, is_permanent=False):
    return Neighbour(dev="eth0", address=address, lladdr=lladdr, is_permanent=is_permanent)


def _arp(*macs, asked=4, heard=4, alone=4):
    return ArpAnswers(macs=macs, asked=asked, heard=heard, heard_alone=alone)


DUPLICATE = [(FaultCode.DUPLICATE_ADDRESS, PEER, "n1", "n1")]
MOVED = [(FaultCode.MAC_MOVED, PEER, "n1", "n1")]
WRONG = [(FaultCode.NEIGHBOUR_WRONG, PEER, "n1", LOCAL)]
OWN_TWICE = [(FaultCode.DUPLICATE_ADDRESS, "eth0", LOCAL, LOCAL)]
DEAD = _arp(heard=0, alone=0)


@pytest.mark.parametrize("suspects", [(), ALL])
def test_a_lan_as_its_nodes_advertise_it_is_fine(suspects):
    """Whether or not somebody is suspected: the leader with one MAC is dead, or has another fault."""
    for answers in (_arp(N1), DEAD):
        assert [] == _found(_entry(N1), answers={PEER: answers}, suspects=suspects)
    assert [] == _found(suspects=suspects)


# --- a MAC that is not the node's ---


def test_two_macs_that_answer_are_a_duplicate_address():
    """Whichever of them the neighbour table has at the moment; n2's has got the address of n1 as well."""
    for lladdr in (N1, STRANGER):
        assert DUPLICATE == _found(_entry(lladdr), answers={PEER: _arp(N1, STRANGER)})
    assert DUPLICATE == _found(_entry(N2), answers={PEER: _arp(N1, N2), OTHER: _arp(N2)})


def test_a_machine_that_only_announces_the_address_is_found_in_the_neighbour_table():
    """Gratuitous ARP and no answer; only while the node is missed, and only if it lives."""
    assert DUPLICATE == _found(_entry(STRANGER), answers={PEER: _arp(N1)})
    assert [] == _found(_entry(STRANGER), answers={PEER: _arp(N1)}, suspects=())
    assert [] == _found(_entry(STRANGER), answers={PEER: DEAD})


def test_nobody_is_accused_of_the_address_of_a_dead_node():
    """A cloud answers for the dead, and a router's VRRP address goes to the next one."""
    assert [] == _found(_entry(STRANGER), answers={PEER: _arp(STRANGER, heard=0, alone=0)})
    assert [] == _found(answers={PEER: _arp(N2, heard=0, alone=0)})
    assert [] == _found(answers={PEER: DEAD}, seen=_snapshot(PEER))


def test_a_node_may_answer_with_each_of_its_network_cards():
    """Two in one LAN both do (arp_ignore 0), and a bond shows another one after it has failed over."""
    assert [] == _found(_entry(_nic(0x11)), answers={PEER: _arp(N1, _nic(0x11))})


def test_a_node_that_replaced_its_network_card_is_not_accused():
    """Its hello advertises the new MAC, and entries of neighbours have the old one for a while."""
    assert [] == _found(_entry(STRANGER), answers={PEER: _arp(N1, STRANGER)}, former={"n1": [STRANGER, N1]})


def test_a_proxy_answers_for_others_too():
    """One that answers for a node that nobody misses, or for this one, is the way the LAN is."""
    for address, answers in ((OTHER, _arp(N2, STRANGER)), (OWN, _arp(STRANGER))):
        assert [] == _found(answers={PEER: _arp(N1, STRANGER), address: answers})
    assert [] == _found(_entry(STRANGER), _entry(STRANGER, OTHER), answers={PEER: _arp(N1)})


def test_a_node_that_advertises_no_mac_is_not_judged():
    """It is of another version, or goes by the address of its tunnel."""
    assert [] == _found(_entry(STRANGER, is_permanent=True), answers={PEER: _arp(N1, STRANGER)}, told=False)


def test_an_address_of_a_peer_on_an_own_device_is_a_duplicate_while_the_peer_answers():
    """The node that was given it misses the peer, or everybody, itself included; at rest it is VRRP's business."""
    for suspects in (ALL, (LOCAL,)):
        assert DUPLICATE == _found(answers={PEER: _arp(N1)}, seen=_snapshot(PEER), suspects=suspects)
    assert [] == _found(answers={PEER: _arp(N1)}, seen=_snapshot(PEER), suspects=())


def test_whatever_answers_for_the_own_address_has_it_as_well():
    """RFC 5227. As a fault of the device it explains whatever this node misses; its own network cards are no others."""
    assert OWN_TWICE == _found(answers={OWN: _arp(STRANGER)}, suspects=(LOCAL, "n2"))
    assert OWN_TWICE == _found(answers={OWN: _arp(N2), OTHER: _arp(N2)}, suspects=(LOCAL,))
    assert [] == _found(answers={OWN: _arp()})
    second = Link(name="eth1", index=3, kind="", is_up=True, mtu_bytes=1500, lladdr=STRANGER)
    seen = msgspec.structs.replace(_snapshot(), links=(*_snapshot().links, second))
    assert [] == _found(answers={OWN: _arp(STRANGER)}, seen=seen)


def test_a_node_that_goes_by_its_tunnel_has_an_address_below_it():
    """wg-quick: the mesh knows 10.8.0.1, and the LAN 192.168.50.10."""
    nodes = tuple(
        msgspec.structs.replace(node, node_ip=node.node_ip.replace("192.168.50", "10.8.0")) for node in mesh(3).node
    )
    view = _view(answers={OWN: _arp(STRANGER)})
    view = UnderlayView(**{name: getattr(view, name) for name in UnderlayView.__slots__} | {"mesh": _with(nodes)})

    assert [OWN] == [each.address for each in questions(view)]
    assert ["eth0"] == [each.subject for each in audit_underlay(view)]


def _with(nodes):
    return msgspec.structs.replace(mesh(3), node=nodes)


# --- the node's own MAC, elsewhere ---


def test_a_node_that_only_broadcasts_reach_is_behind_another_port():
    """ARP to everybody is flooded, frames to its MAC follow the switch's table; a few lost ones prove nothing."""
    assert MOVED == _found(_entry(N1), answers={PEER: _arp(N1, alone=0)})
    assert MOVED == _found(answers={PEER: _arp(N1, asked=12, heard=12, alone=8)}), "a MAC that flaps"
    assert [] == _found(answers={PEER: _arp(N1, alone=0)}, suspects=())
    assert [] == _found(answers={PEER: _arp(N1, alone=1)})
    assert [] == _found(answers={PEER: _arp(N1, asked=12, heard=11, alone=6)}), "a LAN that loses frames"


def test_rounds_of_probes_count_together():
    """Which frames are lost while a MAC flaps is chance; a round with a lost broadcast does not hide the next one."""
    assert DUPLICATE == _found(answers={PEER: (_arp(STRANGER, heard=0), _arp(N1))})
    assert MOVED == _found(answers={PEER: (_arp(N1, alone=2), _arp(N1), _arp(N1, alone=2))})
    assert MOVED == _found(answers={PEER: (_arp(N1, heard=3), _arp(N1, alone=0))})
    assert [] == _found(answers={PEER: (_arp(N1, alone=2), _arp(N1, heard=3), _arp(N1, alone=2))})


# --- the neighbour table ---


def test_a_permanent_entry_with_another_mac_is_this_nodes_fault():
    """It never ages, so no ARP puts it right; a right one says nothing, whichever network card it has.

    Nor does this node's own, which the kernel has for everybody on a device without ARP.
    """
    wrong = _entry(STRANGER, is_permanent=True)

    for suspects in ((), ALL):
        assert WRONG == _found(wrong, suspects=suspects)
        assert WRONG == _found(wrong, suspects=suspects, former={"n1": [STRANGER]}), "its card was replaced"
        for right in (N1, _nic(0x11), _nic(0)):
            assert [] == _found(_entry(right, is_permanent=True), suspects=suspects)


def test_a_permanent_entry_with_the_routers_mac_may_be_meant_so():
    """Hosters let machines of one network talk by the router. Where the peer is missed it is wrong all the same."""
    entries = (_entry(ROUTER, is_permanent=True), _entry(ROUTER, GATEWAY))

    assert [] == _found(*entries, suspects=())
    assert WRONG == _found(*entries)


def test_a_permanent_entry_of_the_gateway_is_compared_with_arp():
    """It advertises nothing. An HSRP router answers with a MAC it shares, and can be reached by its own."""
    wrong = [(FaultCode.NEIGHBOUR_WRONG, "eth0", "", LOCAL)]
    entry = _entry(STRANGER, GATEWAY, is_permanent=True)

    assert wrong == _found(entry, answers={GATEWAY: _arp(ROUTER, heard=0, alone=0)})
    assert [] == _found(entry, answers={GATEWAY: _arp(ROUTER, heard=0, alone=4)})
    assert [] == _found(entry, answers={GATEWAY: _arp(heard=0, alone=0)}), "it is dead"
    assert [] == _found(_entry(ROUTER, GATEWAY, is_permanent=True), answers={GATEWAY: _arp(ROUTER)})
    assert [] == _found(_entry(STRANGER, GATEWAY), answers={GATEWAY: _arp(ROUTER, heard=0, alone=0)}), "ARP mends it"


# --- whom to ask for ---


def _asked(*entries, **more):
    return [(each.address, each.expected) for each in questions(_view(*entries, **more))]


def test_who_is_asked_for():
    """This node, who is missed, one other as a comparison, and the gateway where its entry is permanent."""
    own, peer, other = (OWN, ()), (PEER, (N1, _nic(0x11))), (OTHER, ())

    assert [own, peer, other] == _asked(_entry(ROUTER, GATEWAY))
    assert [own, (PEER, ())] == _asked(suspects=(LOCAL,)), "whoever is missed is behind a router"
    assert [own, peer, other] == _asked(suspects=(LOCAL,), seen=_snapshot(PEER)), "or hidden by an address of our own"
    assert (GATEWAY, (STRANGER,)) == _asked(_entry(STRANGER, GATEWAY, is_permanent=True))[-1]
    assert [own] == _asked(told=False)


@pytest.mark.parametrize(
    ("fault", "culprit", "expected"),
    [
        (FaultCode.NONE, "", ()),
        (FaultCode.MTU_BLACK_HOLE, "b1", ()),
        (FaultCode.LEADER_DEAD, "b1", ("b2", "b1")),
        (FaultCode.LOCAL, "b2", ("b2",)),
        (FaultCode.UNDETERMINED, "", ("b2",)),
        (FaultCode.DUPLICATE_ADDRESS, "b1", ("b2", "b1")),
        (FaultCode.NODE_UNREACHABLE, "a3", ("b2", "a3")),
        # It may be that the LAN hides b1 from this node alone; a1 is on another one.
        (FaultCode.NODE_UNREACHABLE, "b2", ("b2", "b1", "a1")),
    ],
)
def test_a_verdict_makes_a_suspect_if_the_lan_may_be_the_cause(fault, culprit, expected):
    """Sizes are no matter of ARP."""
    bench = ready("b2")
    status = bench.engine.status(bench.now, {})
    entry = CATALOGUE[fault]
    verdict = Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)
    (first, *_) = status.pairs

    told = msgspec.structs.replace(status, pairs=(msgspec.structs.replace(first, verdict=verdict),))
    assert expected == suspects_of(told)


def test_only_ethernet_with_neighbours_is_asked():
    """A tunnel has no MAC; a /32 has no neighbours; what is routed is nobody's ARP."""
    eth0 = lan_device(_snapshot(), PEER)
    assert eth0 is not None
    assert "eth0" == eth0.name
    assert lan_device(_snapshot(), "10.2.0.11") is None
    for change in ({"lladdr": ""}, {"prefix_lengths": (32,)}, {"is_up": False}):
        seen = Snapshot(links=(msgspec.structs.replace(eth0, **change),))
        assert lan_device(seen, PEER) is None


# --- what is compared with what ---


def test_an_entry_for_good_is_no_claim_of_the_lan():
    """It is this node's own mistake, and says nothing about who else answers with that MAC."""
    answers = {OTHER: _arp(N2, STRANGER)}
    found = _found(_entry(STRANGER, is_permanent=True), answers=answers, suspects=(*ALL, "n2"))

    assert [*WRONG, (FaultCode.DUPLICATE_ADDRESS, OTHER, "n2", "n2")] == found


def test_only_what_a_node_advertises_of_the_address_that_the_mesh_knows_counts():
    """Its tunnel's address has other devices, and a version that does not advertise MACs has none."""
    one, elsewhere, silent = (
        hello(number, mac(number), node_macs=macs, **more)
        for number, macs, more in ((1, (N1,), {}), (2, (N2,), {"node_ip": "10.8.0.3"}), (2, (), {}))
    )

    assert {"n1": (N1,)} == advertised(mesh(3), {"n1": one, "n2": elsewhere})
    assert {"n1": (N1,)} == advertised(mesh(3), {"n1": one, "n2": silent})


@pytest.mark.parametrize("change", [{"vxlan": Vxlan(vni=1, port=8472)}, {"prefix_lengths": (31,)}])
def test_a_tunnel_and_a_network_without_neighbours_are_no_lan(change):
    """flannel.1 has a MAC as well, and clouds give their machines /32."""
    link = msgspec.structs.replace(_snapshot().links[0], **change)

    assert lan_device(Snapshot(links=(link,)), OWN) is None


def test_this_node_asks_for_its_own_address_once_whichever_of_the_devices_addresses_it_is():
    """Its own hello is among those that are heard; another address of the device may be VRRP's."""
    link = _snapshot().links[0]
    turned = msgspec.structs.replace(link, addresses=("192.168.50.200", OWN), prefix_lengths=(24, 24))
    view = _view(seen=msgspec.structs.replace(_snapshot(), links=(turned,)))
    view = dataclasses.replace(view, hellos={**view.hellos, LOCAL: hello(0, mac(0), node_macs=(_nic(0),))})

    assert [OWN, PEER, OTHER] == [each.address for each in questions(view)]


@pytest.mark.parametrize("change", [{"is_up": False}, {"lladdr": ""}])
def test_a_gateway_behind_a_device_that_asks_nobody_is_not_asked_for(change):
    """A tunnel's device has no MAC to ask with, and one that is down sends nothing."""
    link = msgspec.structs.replace(_snapshot().links[0], name="ppp0", **change)
    way = DeviceRoute(dst="0.0.0.0/0", dev="ppp0", table=254, protocol=3, via=GATEWAY)
    entry = Neighbour(dev="ppp0", address=GATEWAY, lladdr=ROUTER, is_permanent=True)
    view = _view(entry, seen=Snapshot(links=(link,), default_routes=(way,)))

    assert GATEWAY not in [each.address for each in questions(view)]
