"""The flannel-wg lab: what wg-quick and a real flanneld leave on a K3s node, with packets that really cross it."""

import itertools
import json

import pytest

from netnslab import Lab
from netnslab.daemons import Daemons
from netnslab.waiting import wait_until
from tests.support.mesh import flow, fresh_flows_alive, packets, pings, tcp_exchanges

pytestmark = pytest.mark.lab

NODES = ("c1", "c2", "d1", "e1")

ROUTES_C1 = """
default via 172.31.16.1 dev eth0
10.8.0.0/24 dev wg0 proto kernel scope link src 10.8.0.1
10.42.0.0/24 dev cni0 proto kernel scope link src 10.42.0.1
10.42.1.0/24 via 10.42.1.0 dev flannel.1 onlink
10.42.2.0/24 via 10.42.2.0 dev flannel.1 onlink
10.42.3.0/24 via 10.42.3.0 dev flannel.1 onlink
172.31.16.0/24 dev eth0 proto kernel scope link src 172.31.16.11
"""

NEIGHBOURS_C1 = """
10.42.1.0 lladdr 02:4e:01:00:00:02 PERMANENT
10.42.2.0 lladdr 02:4e:01:00:00:03 PERMANENT
10.42.3.0 lladdr 02:4e:01:00:00:04 PERMANENT
"""

FDB_C1 = """
02:4e:01:00:00:02 dst 10.8.0.2 self permanent
02:4e:01:00:00:03 dst 10.8.0.3 self permanent
02:4e:01:00:00:04 dst 10.8.0.4 self permanent
"""

SUBNET_ENV_C1 = """FLANNEL_NETWORK=10.42.0.0/16
FLANNEL_SUBNET=10.42.0.1/24
FLANNEL_MTU=1370
FLANNEL_IPMASQ=true
"""


@pytest.fixture(scope="module")
def lab():
    """One mesh for all tests of this file."""
    with Lab.up("flannel-wg") as mesh:
        yield mesh


def lines(text):
    """Lines without blanks at the ends or in rows, sorted."""
    return sorted(" ".join(line.split()) for line in text.splitlines() if line.strip())


def output(lab, node, *argv):
    """What a command prints on a node."""
    return lab.node(node).run(argv, check=True).stdout


def test_every_pod_reaches_every_other(lab):
    """Twelve ways, by UDP; and TCP with more than a segment."""
    for one, other in itertools.permutations(NODES, 2):
        with flow(lab.pod(one), lab.pod(other)) as between:
            assert between.echoes_eventually(), (one, other)
    assert tcp_exchanges(lab.pod("c1"), lab.pod("e1"))


def test_kernel_state_is_what_flanneld_leaves(lab):
    """Routes via the peer's network address onlink, permanent neighbours, FDB entries to wg0 addresses."""
    assert lines(ROUTES_C1) == lines(output(lab, "c1", "ip", "route"))
    assert lines(NEIGHBOURS_C1) == lines(output(lab, "c1", "ip", "neigh", "show", "dev", "flannel.1"))
    assert lines(FDB_C1) == lines(output(lab, "c1", "bridge", "fdb", "show", "dev", "flannel.1"))
    device = output(lab, "c1", "ip", "-d", "link", "show", "flannel.1")
    assert "vxlan id 1 local 10.8.0.1 dev wg0 srcport 0 0 dstport 8472 nolearning ttl auto" in device
    assert "mtu 1370" in device
    assert "inet 10.42.0.0/32" in output(lab, "c1", "ip", "address", "show", "flannel.1")
    assert "proto boot" in output(lab, "c1", "ip", "-d", "route", "show", "10.42.1.0/24")


def test_files_are_those_of_k3s_and_wg_quick(lab):
    """The files and the kernel agree: subnet.env with flannel.1, wg0.conf with wg0."""
    assert output(lab, "c1", "cat", "/run/flannel/subnet.env") == SUBNET_ENV_C1
    backend = json.loads(output(lab, "c1", "cat", "/var/lib/rancher/k3s/agent/etc/flannel/net-conf.json"))
    assert {"Network": "10.42.0.0/16", "Backend": {"Type": "vxlan"}} == backend
    assert "flannel-iface: wg0\n" in output(lab, "c1", "cat", "/etc/rancher/k3s/config.yaml")
    loaded = lines(output(lab, "c1", "wg", "showconf", "wg0"))
    stripped = lines(output(lab, "c1", "wg-quick", "strip", "wg0"))
    chosen = ("PublicKey", "PrivateKey", "AllowedIPs", "ListenPort")
    assert [line for line in stripped if line.startswith(chosen)] == [
        line for line in loaded if line.startswith(chosen)
    ]


def test_pod_traffic_is_wrapped_twice(lab):
    """flannel.1, then wg0, at both ends."""
    with flow(lab.pod("c1"), lab.pod("d1")) as between:
        assert between.echoes_eventually()
        before = {device: packets(lab.node("d1"), device) for device in ("flannel.1", "wg0")}
        assert all(between.echoes() for _ in range(5))
        after = {device: packets(lab.node("d1"), device) for device in ("flannel.1", "wg0")}

    for device, (received, sent) in before.items():
        assert (5, 5) == (after[device][0] - received, after[device][1] - sent), device


def test_nobody_gets_behind_the_nat_uncalled(lab):
    """The others know e1 by the NAT's address and a port of the NAT's; the plain port there is closed."""
    assert pings(lab.node("c1"), "10.8.0.4")
    endpoints = dict(line.split("\t") for line in output(lab, "c1", "wg", "show", "wg0", "endpoints").splitlines())
    hidden = [endpoint for endpoint in endpoints.values() if endpoint.startswith("192.0.2.31:")]
    assert 1 == len(hidden)
    assert 20000 <= int(hidden[0].partition(":")[2]) < 40000
    assert not pings(lab.node("c1"), "192.168.8.11")
    assert not pings(lab.node("c1"), "192.0.2.31")


def test_mtu_fits_the_stack_exactly(lab):
    """A pod's packet of 1370 passes undivided; a bigger one is refused by the pod's own device."""
    largest = ["ping", "-n", "-q", "-c", "1", "-W", "2", "-M", "do", "-s"]

    assert 0 == lab.pod("c1").run([*largest, str(1370 - 28), lab.pod("e1").ip]).returncode
    assert 0 != lab.pod("c1").run([*largest, str(1371 - 28), lab.pod("e1").ip]).returncode


def test_daemons_find_the_mesh_healthy(lab, tmp_path):
    """Every pair of nodes is watched and nothing is wrong."""
    with Daemons(lab, tmp_path, settings={"daemon": {"mode": "observe"}}) as daemons:
        daemons.wait_ready(timeout_s=60)
        for node in NODES:
            status = daemons.status(node)
            assert status is not None
            assert "ok" == status["severity"]
            assert set(NODES) - {node} == {session["peer"] for session in status["sessions"]} - {node}
        wait_until(lambda: 5 == fresh_flows_alive(lab.pod("c1"), lab.pod("e1"), 5), timeout_s=10, what="pods")
