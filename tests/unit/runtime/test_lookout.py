"""WireGuard devices and the host, as the audit is told of them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import msgspec

from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.host import HostState
from meshwatchd.model.route_lookup import RouteAnswer
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, WireGuardPeer, WireGuardState
from meshwatchd.runtime.lookout import Lookout
from tests.support.host_mesh_node import MESH, carrier, node
from tests.support.lab_mesh import declared_mesh, snapshot_of

MUTE = WireGuardPeer(public_key="KEY", tx_bytes=148)


def _view(snapshot: Snapshot) -> View:
    return View(snapshot=snapshot, mesh=declared_mesh(), node="b1", hellos={}, good=None)


class Routing:
    """A kernel that sends every packet out of one device."""

    version = 1

    def __init__(self, device="kilo0", protocols=()):
        self.device, self.protocols, self.asked = device, protocols, []

    def ask(self, question):
        """As it is told."""
        self.asked.append(question)
        return RouteAnswer(device=self.device)


def _lookout(read=lambda devices, at_ns, forwarders, counted: HostState(at_ns=at_ns), routing=None):
    return Lookout("b1", "mw", lambda: SECOND, read=read, routing=routing or Routing())


def _silent(lookout, link, seconds=60, since_s=100):
    """Handshakes in vain every two seconds, and what is found in the end."""
    found = []
    for step in range(0, seconds, 2):
        at_s = since_s + step
        peer = msgspec.structs.replace(MUTE, tx_bytes=148 * (at_s + 1))
        state = WireGuardState(device="kilo0", public_key="OWN", listen_port=51820, at_ns=at_s * SECOND, peers=(peer,))
        lookout.observe((state,))
        found = [each.code for each in lookout.findings(_view(snapshot_of(link)), SECOND)]
    return found


def test_a_device_that_is_down_is_not_judged():
    """Kilo keeps kilo0 on every node, down on all but leaders, peers and all."""
    assert [] == _silent(_lookout(), "b2")
    assert [FaultCode.WIREGUARD_NO_HANDSHAKE] == _silent(_lookout(), "b1")


def test_a_device_that_comes_up_gets_its_time():
    """Whoever becomes leader has shaken hands in vain behind a device that was down; attempts count from here."""
    lookout = _lookout()
    _silent(lookout, "b2")
    assert [] == _silent(lookout, "b1", seconds=14, since_s=160)
    assert [FaultCode.WIREGUARD_NO_HANDSHAKE] == _silent(lookout, "b1", seconds=10, since_s=174)


def test_the_host_is_asked_about_devices_of_the_mesh_that_are_up():
    """And somebody is told whenever it was."""
    asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def read(devices, at_ns, forwarders, counted):
        assert () == counted, "no host mesh is below"
        asked.append((tuple(devices), tuple(forwarders)))
        return HostState(at_ns=at_ns, is_forwarding=False, unforwarding=tuple(devices))

    lookout, told = _lookout(read), []
    strangers = (
        Link(name="mw0", index=9, kind="wireguard", is_up=True, mtu_bytes=1420),
        Link(name="eth0", index=2, kind="veth", is_up=True, mtu_bytes=1500),
    )
    seen = snapshot_of("b1")
    view = _view(msgspec.structs.replace(seen, links=(*seen.links, *strangers)))
    list(lookout.findings(view, SECOND))

    async def scenario():
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await lookout.watch(lambda: told.append(True))

    asyncio.run(scenario())

    assert [(("kilo0", "flannel.1", "mw0"), ())] == asked
    assert [True] == told
    assert [FaultCode.FORWARDING_OFF] == [each.code for each in lookout.findings(view, SECOND)]


def test_of_the_pods_bridge_forwarding_alone_is_asked():
    """A strict filter there concerns nobody, and another bridge is none of the mesh's."""
    bridges = tuple(
        Link(name=name, index=at, kind="bridge", is_up=True, mtu_bytes=1450, addresses=(own,), prefix_lengths=(24,))
        for at, name, own in ((3, "br0", "10.9.0.1"), (4, "cni0", "10.244.4.1"))
    )
    asked = []

    def read(devices, at_ns, forwarders, counted):
        asked.append((tuple(devices), tuple(forwarders)))
        return HostState(at_ns=at_ns)

    seen, lookout = snapshot_of("b1"), _lookout(read)
    list(lookout.findings(_view(msgspec.structs.replace(seen, links=(*seen.links, *bridges))), SECOND))

    assert (("kilo0", "flannel.1"), ("cni0",)) == (lookout._devices, lookout._forwarders)
    with suppress(TimeoutError):
        asyncio.run(asyncio.wait_for(lookout.watch(lambda: None), 0.05))
    assert [(("kilo0", "flannel.1"), ("cni0",))] == asked


def test_the_kernel_is_asked_about_protocols_that_rules_single_out():
    """Each packet of pods once more of that protocol."""
    route = DeviceRoute(dst="10.244.2.0/24", dev="kilo0", table=254, protocol=4)
    view = _view(msgspec.structs.replace(snapshot_of("b1"), device_routes=(route,)))
    routing = Routing(protocols=(6,))

    assert [] == list(_lookout(routing=routing).findings(view, SECOND))
    assert [0, 6] == [each.protocol for each in routing.asked if each.destination == "10.244.2.0"]


def test_the_kernel_is_asked_where_it_routes_pods():
    """What it says of packets that this node sends itself counts from the first look on, to neighbours as well."""
    route = DeviceRoute(dst="10.244.2.0/24", dev="kilo0", table=254, protocol=4)
    view = _view(msgspec.structs.replace(snapshot_of("b1"), device_routes=(route,)))
    routing = Routing(device="eth0")

    found = [each.code for each in _lookout(routing=routing).findings(view, SECOND)]

    asked = [(each.source, each.destination, each.iif, each.is_for_entry) for each in routing.asked]
    assert [
        *(("10.244.4.0", "10.244.2.0", "", is_for_entry) for is_for_entry in (False, True)),
        *(("10.2.0.11", neighbour, "", False) for neighbour in ("10.2.0.12", "10.2.0.13")),
    ] == asked
    assert [FaultCode.POD_ROUTE_DIVERTED] == found


def test_forwarding_is_no_matter_before_the_cni_is_up():
    """A node between its first boot and its first CNI pod: its device is down, or not there at all."""
    lookout = _lookout()
    lookout._host.observe(HostState(at_ns=SECOND, is_forwarding=False, unforwarding=("flannel.1",)))
    seen = snapshot_of("b1")
    bare = tuple(link for link in seen.links if link.name != "flannel.1")
    down = tuple(msgspec.structs.replace(link, is_up=link.name != "flannel.1") for link in seen.links)

    assert [FaultCode.FORWARDING_OFF] == [each.code for each in lookout.findings(_view(seen), SECOND)]
    for links in (bare, down):
        view = _view(msgspec.structs.replace(seen, links=links))
        assert [] == [each.code for each in lookout.findings(view, SECOND)]


def test_a_peer_that_is_gone_is_looked_for_on_devices_that_are_up():
    """Against the good state; kilo0 of a member is down, whatever it has."""
    a1 = next(each for each in declared_mesh().node if each.name == "a1")
    peer = WireGuardPeer(public_key="KEY-A", allowed_ips=(f"{a1.wireguard_ip}/32", a1.pod_cidr))
    route = DeviceRoute(dst=a1.pod_cidr, dev="kilo0", table=254, protocol=17)
    had = WireGuardState(device="kilo0", public_key="OWN", listen_port=51820, at_ns=SECOND, peers=(peer,))
    lookout = _lookout()
    lookout.observe((msgspec.structs.replace(had, peers=()),))
    for name, codes in (("b1", [FaultCode.WIREGUARD_PEER_MISSING]), ("b2", [])):
        seen = msgspec.structs.replace(snapshot_of(name), device_routes=(route,))
        view = replace(_view(seen), good=GoodState(wireguard=(had,)))
        assert codes == [each.code for each in lookout.findings(view, SECOND)]


def test_where_packets_go_is_asked_with_what_peers_deliver():
    """A route of BIRD that is withdrawn while nothing comes from its node is no loss, and is one while it is heard."""
    route = DeviceRoute(dst="10.42.9.0/24", dev="kilo0", table=254, protocol=12, via="10.244.2.0")
    good = GoodState(entries=Entries(routes=(route,)))
    nodes = tuple(
        msgspec.structs.replace(node, pod_cidr="10.42.9.0/24", overlay_ip="10.4.0.9") if node.name == "a2" else node
        for node in declared_mesh().node
    )
    mesh = msgspec.structs.replace(declared_mesh(), node=nodes)
    found = []
    for received in (0, 5_000):
        lookout = _lookout(routing=Routing(device="eth0"))
        for at_s, tx_bytes, rx_bytes in ((1, 500, 500), (3, 900, 500 + received)):
            peer = WireGuardPeer(
                public_key="KEY", allowed_ips=("10.4.0.9/32",), tx_bytes=tx_bytes, rx_bytes=rx_bytes, handshake_ns=1
            )
            at_ns = at_s * SECOND
            state = WireGuardState(device="kilo0", public_key="OWN", listen_port=1, at_ns=at_ns, peers=(peer,))
            lookout.observe((state,))
        seen = msgspec.structs.replace(snapshot_of("b1"), wireguard=(state,))
        told = lookout.findings(replace(_view(seen), mesh=mesh, good=good), SECOND)
        found.append([each.peer for each in told if each.code is FaultCode.BGP_ROUTE_ESCAPED])
    assert [[], ["a2"]] == found


def test_a_host_mesh_that_delivers_nothing_is_told_from_counters():
    """Those of flannel-wg, of nebula1 and of eth0; the daemon asks for the last two by name."""
    lookout, counted = _lookout(), []
    view = View(snapshot=node(carrier()), mesh=MESH, node="c1", hellos={}, good=None)
    found = []
    for at_s in range(100, 114, 2):
        peers = tuple(
            msgspec.structs.replace(each, tx_bytes=148 * (at_s + 1)) for each in view.snapshot.wireguard[0].peers
        )
        lookout.observe((msgspec.structs.replace(view.snapshot.wireguard[0], at_ns=at_s * SECOND, peers=peers),))
        packets = {"nebula1": (5, at_s), "eth0": (at_s, 9)}
        lookout._host.observe(HostState(at_ns=at_s * SECOND, is_forwarding=True, packets=packets))
        found = [(each.code, each.device) for each in lookout.findings(view, at_s * SECOND)]
        counted.append(lookout._counted)

    assert [(FaultCode.UNDERLAY_SILENT, "nebula1")] == found
    assert {("nebula1", "eth0", "flannel-wg")} == set(counted)
