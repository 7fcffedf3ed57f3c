"""Six daemons in enforce on a mesh that breaks: what they call it, where traffic goes, and how it comes home.

Order and completeness are asserted, never milliseconds: `make bench-failover` measures those.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack

import pytest

from netnslab import faults
from netnslab.waiting import pause_until, wait_until
from tests.support.stage import ARM_NS, SECOND

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CLOUD, ONPREM = ("b1", "b2", "b3"), ("a1", "a2", "a3")
EVERYBODY = (*ONPREM, *CLOUD)
# A switch that was taken back, or that the kernel refused, is a bug on a mesh where nothing else is wrong.
MISHAPS = ("failover.rolled_back", "plan.refused", "collision.found", "topology.rejected", "agent.restarted")

# Written otherwise than the lab's own faults: in the node, in an inet table, by source port alone.
LEARN = """
table inet by_hand {{
  set known {{ type inet_service; flags dynamic,timeout; timeout 60s; size 65535; }}
  chain vxlan {{ type filter hook {hook} priority 0; udp dport 8472 update @known {{ udp sport }}; }}
}}
"""
STRIKE = """
flush chain inet by_hand vxlan
add rule inet by_hand vxlan udp dport 8472 udp sport != @known drop
"""

# VXLAN waits in a queue from which one bit leaves every second.
BLACK_QUEUE = """
qdisc add dev eth0 root handle 1: htb default 2
class add dev eth0 parent 1: classid 1:1 htb rate 8bit ceil 8bit burst 1 cburst 1
class add dev eth0 parent 1: classid 1:2 htb rate 10gbit
qdisc add dev eth0 parent 1:1 handle 10: tbf rate 8bit burst 10 limit 1
filter add dev eth0 parent 1: protocol ip u32 match ip protocol 17 0xff match ip dport 8472 0xffff flowid 1:1
"""


# A firewall that knows the mesh's nodes and not its pods.
DROP_PODS = """
table inet by_hand {{
  chain forward {{ type filter hook forward priority 0; iifname {device} ip daddr 10.244.0.0/16 drop; }}
}}
"""

# kube-proxy's first rule for what is forwarded.
DROP_INVALID = """
table inet kube_proxy {
  chain forward { type filter hook forward priority 0; ct state invalid drop; }
}
"""
LISTEN = """
import socket
with socket.create_server(("", 5555)) as listener:
    stream, _ = listener.accept()
    while taken := stream.recv(65536):
        print(len(taken), flush=True)
"""
STREAM = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 5555)) as stream:
    for _ in range(3000):
        stream.sendall(bytes(10_000))
        time.sleep(0.02)
"""
"""Half a megabyte a second: within a second more than the largest window that connection tracking allows."""


@pytest.fixture(autouse=True)
def _healthy(mesh):
    """Each test begins with a mesh that is well."""
    mesh.settle()


@pytest.mark.parametrize(
    ("make", "leader", "knowing"),
    [
        (faults.overlay_black_hole_new_flows, "b1", EVERYBODY),
        (faults.overlay_black_hole_new_flows, "a1", EVERYBODY),
        (faults.overlay_black_hole, "b1", EVERYBODY),
        # The relay itself answers and is answered on every layer: it has nothing to notice.
        (faults.leader_stops_forwarding, "b1", ("a1", "a2", "a3", "b2", "b3")),
        (faults.leader_dead, "b1", ("a1", "a2", "a3", "b2", "b3")),
        # Which end of a silent tunnel is to blame cannot be told: each side names the other.
        (faults.wireguard_port_blocked, "b1", ONPREM),
    ],
)
def test_a_fault_is_named_survived_and_forgotten(mesh, make, leader, knowing):
    """The story of each fault: named by all who can know, both sides and their members move, and come home."""
    fault = make(mesh.lab, leader)
    deaf = (leader,) if fault.expected.fault == "leader-dead" else ()
    with mesh.struck(fault) as strike:
        rank = mesh.wait_switched(deaf=deaf)
        mesh.wait_restored(strike.began_ns)
        mesh.wait_verdicts(fault.expected.fault, fault.expected.node, knowing)
        # Either end may be gone around where neither can be told to be the culprit.
        around = {"a1", "b1"} if fault.expected.layer == "wireguard" else {leader}
        assert around - set(mesh.relays(rank))
        assert mesh.connections_live_on()

    told = mesh.events(strike.began_ns)
    for node in set(EVERYBODY) - set(deaf):
        story = [event.name for event in told if event.node == node]
        assert "failover.applied" in story, node
        assert "failback.applied" in story[story.index("failover.applied") :], node
    moves = [event for event in told if event.name == "failover.applied"]
    assert {("a", "b")} == {tuple(sorted(relay[0] for relay in move.fields["relays"])) for move in moves}
    first_move = min(event.at_ns for event in moves)
    assert any(event.name == "session.suspected" and event.at_ns <= first_move for event in told)
    asked = [event for event in told if event.name == "failover.proposed" and event.at_ns <= first_move]
    assert {event.node for event in asked} & set(moves[0].fields["relays"])
    assert [] == [event for event in told if event.name in MISHAPS]
    assert mesh.connections_live_on()


@pytest.mark.parametrize("hook", ["output", "input"])
def test_the_seed_fault_made_by_hand_inside_the_leader_is_found_too(mesh, hook):
    """As a person would type it: a firewall on b1 lets only known outer ports through, out of it or in."""
    leader = mesh.lab.node("b1")
    leader.run(["nft", "-f", "-"], input=LEARN.format(hook=hook), check=True)
    try:
        pause_until(time.monotonic_ns() + ARM_NS)
        began_ns = time.monotonic_ns()
        leader.run(["nft", "-f", "-"], input=STRIKE, check=True)
        mesh.wait_switched()
        mesh.wait_restored(began_ns)
        mesh.wait_verdicts("overlay-new-flows", "b1", ("b2", "b3"))
        assert mesh.connections_live_on()
    finally:
        leader.run(["nft", "delete", "table", "inet", "by_hand"], check=True)
    mesh.wait_home()


def test_a_black_hole_made_by_traffic_control_is_found_too(mesh):
    """A queue on b1 that swallows what leaves for another VTEP; no nftables anywhere."""
    leader = mesh.lab.node("b1")
    began_ns = time.monotonic_ns()
    shaped = leader.run(["tc", "-batch", "-"], input=BLACK_QUEUE)
    if shaped.returncode != 0:
        pytest.skip(f"this kernel lacks htb, tbf or u32: {shaped.stderr.strip()}")
    try:
        mesh.wait_switched()
        mesh.wait_restored(began_ns)
        mesh.wait_verdicts("overlay-black-hole", "b1", ("b2", "b3"))
    finally:
        leader.run(["tc", "qdisc", "delete", "dev", "eth0", "root"], check=True)
    mesh.wait_home()


def test_a_standby_that_drops_what_pods_send_is_passed_over(mesh):
    """b2 forwards packets of nodes from one of its links, and none of pods: traffic moves to its other one."""
    chosen = min(path["rank"] for path in mesh.pair("b3")["paths"] if "b2" in path["relays"])
    relay = mesh.lab.node("b2")
    way = json.loads(relay.run(["ip", "-json", "route", "show", "table", str(7700 + chosen)], check=True).stdout)[0]
    relay.run(["nft", "-f", "-"], input=DROP_PODS.format(device=way["dev"]), check=True)
    try:

        def states():
            return [path["state"] for path in mesh.pair("b3")["paths"]]

        wait_until(lambda: "down" == states()[chosen], timeout_s=60, what="the standby to be down", poll_s=0.5)
        fault = faults.overlay_black_hole(mesh.lab, "b1")
        with mesh.struck(fault) as strike:
            rank = mesh.wait_switched()
            mesh.wait_restored(strike.began_ns)
            assert chosen != rank
            assert "b2" in mesh.relays(rank)
    finally:
        relay.run(["nft", "delete", "table", "inet", "by_hand"], check=True)


def test_a_bulk_connection_outlives_a_failover_and_the_way_back(mesh, tmp_path):
    """A leader that drops what is INVALID sees a connection begin, not go on elsewhere, and come back."""
    for node in EVERYBODY:
        mesh.lab.node(node).run(["nft", "-f", "-"], input=DROP_INVALID, check=True)
    received = tmp_path / "received"
    with received.open("w") as sink, ExitStack() as stack:
        for argv, pod, out in (([LISTEN], "a3", sink), ([STREAM, mesh.lab.topology.nodes["a3"].pod_ip], "b3", None)):
            process = mesh.lab.pod(pod).popen([sys.executable, "-c", *argv], stdout=out)
            stack.callback(process.wait)
            stack.callback(process.kill)
            pause_until(time.monotonic_ns() + SECOND)

        def wait_flowing():
            before = received.stat().st_size
            wait_until(lambda: received.stat().st_size > before + 20, timeout_s=10, what="the stream to go on")

        wait_flowing()
        assert 0 == mesh.daemons.control("b1", "failover").returncode
        mesh.wait_switched()
        pause_until(time.monotonic_ns() + 3 * SECOND)
        wait_flowing()
        assert 0 == mesh.daemons.control("b1", "failback").returncode
        mesh.wait_home()
        pause_until(time.monotonic_ns() + SECOND)
        wait_flowing()
    for node in EVERYBODY:
        mesh.lab.node(node).run(["nft", "delete", "table", "inet", "kube_proxy"], check=True)
