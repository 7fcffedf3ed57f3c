"""A standby path made by hand, as an operator would with the daemon's design in front of him.

    pod a3 -- a3 ==flannel.1== a1 ==mw0== b2 ==flannel.1== b3 -- pod b3        b1 is a black hole

mw0 has no address. T_OUT (7701) leads to the other location, T_IN (7799) delivers into the own one, and one rule
diverts all traffic. This proves that the lab carries the design, without the daemon.
"""

import pytest

from netnslab import Lab, faults, kilo, ownership, wireguard
from netnslab.daemon_config import STANDBY_KEY
from netnslab.waiting import wait_until
from tests.support.mesh import flow, fresh_flows_alive, packets, pings

pytestmark = pytest.mark.lab

DEVICE = "mw0"
PORT = 51830
OUT, IN = "7701", "7799"
RELAYS = {"onprem": "a1", "cloud": "b2"}


@pytest.fixture(scope="module")
def lab():
    """One mesh with a standby link and its tables, diverting nothing."""
    with Lab.up("kilo-flannel") as mesh:
        processes = [start_device(mesh, relay) for relay in RELAYS.values()]
        connect(mesh, "a1", "b2")
        connect(mesh, "b2", "a1")
        for name in mesh.topology.nodes:
            if name != "b1":
                mesh.node(name).batch("ip", table_lines(mesh.topology, name))
        yield mesh
    for process in processes:
        if process is not None:
            process.wait(timeout=5)


def start_device(lab, node):
    """mw0 on one relay, by whatever plays WireGuard in this lab."""
    if ownership.read(lab.lab_id).wireguard == "kernel":
        lab.node(node).run(["ip", "link", "add", DEVICE, "type", "wireguard"], check=True)
        return None
    log = ownership.ROOT / lab.lab_id / "log" / f"{node}-{DEVICE}.log"
    process = wireguard.start_userspace(lab.node(node).space, DEVICE, log)
    wireguard.wait_for_socket(lab.node(node).space, DEVICE, process, log)
    return process


def connect(lab, near, far):
    """Key, port and the one peer, which may send anything of its location."""
    key = {node: lab.node(node).run(["cat", str(STANDBY_KEY)], check=True).stdout.strip() for node in (near, far)}
    public = lab.node(far).run(["wg", "pubkey"], input=key[far], check=True).stdout.strip()
    peer = wireguard.Peer(
        public_key=public,
        allowed_ips=kilo.allowed_ips(lab.topology, lab.topology.location_of(far)),
        endpoint=f"{lab.topology.nodes[far].public_ip}:{PORT}",
        keepalive_s=5,
    )
    text = wireguard.render_configuration(private_key=key[near], port=PORT, peers=[peer])
    wireguard.configure(lab.node(near).space, DEVICE, text)
    lab.node(near).run(["ip", "link", "set", DEVICE, "mtu", "1420", "up"], check=True)


def table_lines(topology, name):
    """T_OUT everywhere, T_IN at the relays."""
    node = topology.nodes[name]
    relay = RELAYS[node.location]
    hop = f"dev {DEVICE}" if name == relay else f"via {topology.nodes[relay].overlay_ip} dev flannel.1 onlink"
    lines = [
        f"route add {prefix} {hop} src {node.node_ip} table {OUT} proto 117"
        for location in topology.remote_locations(name)
        for remote in topology.members(location.name)
        for prefix in (remote.pod_cidr, remote.node_ip)
    ]
    if name == relay:
        lines += [
            f"route add {other.node_ip} via {other.overlay_ip} dev flannel.1 onlink table {IN} proto 117"
            for other in topology.neighbours(name)
        ]
        lines.append(f"rule add priority 5400 iif {DEVICE} lookup {IN} protocol 117")
    return tuple(lines)


@pytest.fixture
def diverted(lab):
    """The override on every node but the sick one, in the order of make-before-break: relays first."""
    nodes = ("b2", "a1", "b3", "a2", "a3")
    for node in nodes:
        lab.node(node).batch("ip", [f"rule add priority 5460 lookup {OUT} protocol 117"])
    yield
    for node in nodes:
        lab.node(node).batch("ip", ["rule delete priority 5460 protocol 117"])


def test_standby_link_has_no_address_and_shakes_hands(lab):
    """An address would make other agents adopt the device; keepalives alone bring the session up."""
    for node in RELAYS.values():
        assert DEVICE in lab.node(node).run(["ip", "-br", "address", "show", DEVICE], check=True).stdout
        assert "inet" not in lab.node(node).run(["ip", "address", "show", DEVICE], check=True).stdout

    def has_handshake():
        return not lab.node("a1").run(["wg", "show", DEVICE, "latest-handshakes"]).stdout.strip().endswith("\t0")

    wait_until(has_handshake, timeout_s=15, what="a handshake over mw0")


def test_standby_path_heals_a_black_hole_and_carries_everything(lab, diverted):
    """With b1 a black hole, pods and nodes meet over b2 and a1; kilo0 carries nothing of it."""
    with faults.overlay_black_hole(lab, "b1"):
        wait_until(lambda: pings(lab.pod("a3"), lab.pod("b3").ip), timeout_s=15, what="the standby path")
        before = packets(lab.node("a1"), DEVICE), packets(lab.node("b2"), DEVICE)

        assert 20 == fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), 20)
        assert 20 == fresh_flows_alive(lab.pod("b3"), lab.pod("a3"), 20)
        assert 20 == fresh_flows_alive(lab.node("b3"), lab.node("a3"), 20)
        assert 20 == fresh_flows_alive(lab.pod("a2"), lab.pod("b2"), 20)

        after = packets(lab.node("a1"), DEVICE), packets(lab.node("b2"), DEVICE)
        for earlier, later in zip(before, after, strict=True):
            assert [True, True] == [late - early >= 80 for early, late in zip(earlier, later, strict=True)]


def test_a_dead_leader_is_bypassed_as_well(lab, diverted):
    """Nothing of the standby path touches b1."""
    with faults.leader_dead(lab, "b1"):
        assert 20 == fresh_flows_alive(lab.pod("a3"), lab.pod("b3"), 20)


def test_without_the_override_traffic_takes_the_primary(lab):
    """Tables and device alone divert nothing, so failback is the removal of one rule."""
    before = packets(lab.node("a1"), "kilo0")

    with flow(lab.pod("a3"), lab.pod("b3")) as datagrams:
        assert datagrams.echoes_eventually()

    assert packets(lab.node("a1"), "kilo0") > before
