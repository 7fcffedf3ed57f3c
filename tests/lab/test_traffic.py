"""The traffic source against real packets: it must measure what was really done to them."""

import time

import pytest

from netnslab import Lab
from netnslab.traffic_records import FlowKind, parse
from netnslab.traffic_report import (
    count_lost,
    injection_instant,
    judge_source,
    judge_stream,
    measure_outage,
)
from netnslab.traffic_source import BOTH_WAYS, COMMAND, Traffic
from netnslab.waiting import pause_until

MS = 1_000_000
HOLE_NS = 300 * MS
# A loaded or emulated machine starts nft late; the hole itself is measured on the same clock.
SLACK_NS = 100 * MS
DROP_ALL = """
table netdev hole {
  chain in { type filter hook ingress device "eth0" priority 0; policy drop; }
}
"""


@pytest.fixture(scope="module")
def lab():
    """One mesh for all tests of this file."""
    with Lab.up("kilo-flannel") as mesh:
        yield mesh


def test_healthy_traffic_loses_nothing_and_never_repeats_a_five_tuple(lab, tmp_path):
    """Two seconds of peace: 400 new flows each way, all well, every source port new."""
    with Traffic(lab, tmp_path) as traffic:
        traffic.wait_flowing()
        pause_until(time.monotonic_ns() + 2_000 * MS)

    for pair in BOTH_WAYS:
        records = traffic.records(*pair)
        assert 0 == count_lost(records.flows, since_ns=0, until_ns=time.monotonic_ns())
        assert len(records.flows) == len({(flow.kind, flow.source_port) for flow in records.flows})
        assert set(FlowKind) == {flow.kind for flow in records.flows}
        assert judge_stream(records).survived
        assert 0 == judge_source(records.punctuality).skipped


def test_a_hole_of_known_length_is_measured_as_long_as_it_was(lab, tmp_path):
    """Everything that arrives at a pod is dropped for 300 ms: the outage is that, for UDP and for TCP."""
    pod = lab.pod("b3")
    with Traffic(lab, tmp_path) as traffic:
        traffic.wait_flowing()
        before_ns = time.monotonic_ns()
        pod.run(["nft", "-f", "-"], input=DROP_ALL, check=True)
        after_ns = time.monotonic_ns()
        pause_until(after_ns + HOLE_NS)
        pod.run(["nft", "delete", "table", "netdev", "hole"], check=True)
        closed_ns = time.monotonic_ns()
        pause_until(closed_ns + 1_500 * MS)

    flows = traffic.flows()
    injected_ns = injection_instant(flows, before_ns=before_ns, after_ns=after_ns)
    for kind in FlowKind:
        outage = measure_outage([flow for flow in flows if flow.kind is kind], injected_ns)
        assert outage.duration_ns is not None
        assert HOLE_NS <= outage.duration_ns <= closed_ns - injected_ns + SLACK_NS


def test_the_long_lived_connection_outlives_a_hole_and_shows_its_stall(lab, tmp_path):
    """TCP repairs the loss: no message is missing, none out of order, and the stall is as long as the hole."""
    pod = lab.pod("b3")
    with Traffic(lab, tmp_path, pairs=[("a3", "b3")]) as traffic:
        traffic.wait_flowing()
        pod.run(["nft", "-f", "-"], input=DROP_ALL, check=True)
        pause_until(time.monotonic_ns() + HOLE_NS)
        pod.run(["nft", "delete", "table", "netdev", "hole"], check=True)
        pause_until(time.monotonic_ns() + 1_500 * MS)

    report = judge_stream(traffic.records("a3", "b3"))
    assert report.survived
    assert report.longest_stall_ns >= HOLE_NS


def test_flows_to_a_pod_that_does_not_answer_are_refused_not_lost(lab, tmp_path):
    """No server: RST says so for every connection, and ICMP for as many datagrams as the kernel allows itself."""
    path = tmp_path / "refused.jsonl"
    target = lab.pod("b2").ip
    lab.pod("a3").run(
        [*COMMAND, "drive", target, "--duration", "0.5", "--no-stream", "--output", str(path)],
        check=True,
        timeout=30,
    )
    with path.open(encoding="ascii") as lines:
        flows = parse(lines).flows

    assert {"ECONNREFUSED"} == {flow.reason for flow in flows if flow.kind is FlowKind.TCP}
    assert "ECONNREFUSED" in {flow.reason for flow in flows if flow.kind is FlowKind.UDP}
