"""Strangers on the wire: forged probes, and real ones sent a second time. Counted, and nothing else."""

from __future__ import annotations

import time
from functools import partial
from ipaddress import ip_address

import pytest

from meshwatchd.wire.auth import MeshKeys, MeshSecret, node_id
from meshwatchd.wire.mesh_tlv import FLAG_FRESH, Coordination, CoordinationKind, OwnState
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate
from netnslab import marks
from netnslab.waiting import wait_until
from tests.support.mesh import udp_socket
from tests.support.stolen import stolen_key
from tests.support.wire_tap import PINNED_PORTS, PROBE_PORTS, Probe, WireTap, send_again

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

VICTIM, SEGMENT_PORT, PATH_PORT = "b3", 18618, 18620
COPIES = 20
COUNTED_S = 15


@pytest.fixture(autouse=True)
def _unmoved(mesh):
    """Whatever a test sends, no daemon changes its mind and no kernel its rules."""
    mesh.settle()
    began_ns, standing = time.monotonic_ns(), marks.marked_by_node(mesh.lab, mesh.nodes)
    yield
    assert standing == marks.marked_by_node(mesh.lab, mesh.nodes)
    assert [] == mesh.events(began_ns, "verdict.changed", "failover.applied", "proposal.answered", "failover.proposed")


def counter(mesh, name):
    """One of the victim's counters."""
    return mesh.daemons.status(VICTIM)["counters"].get(name, 0)


def wait_counted(mesh, name, before, count):
    """Wait until a counter has grown by at least `count`."""
    wait_until(
        lambda: counter(mesh, name) >= before + count, timeout_s=COUNTED_S, what=f"{count} of {name}", poll_s=0.3
    )


def forged(keys, *, coordination=None):
    """A probe in the name of relay b2, signed with some key, for the victim."""
    spec = ProbeSpec(
        ssid=1,
        path=0,
        layer=5,
        flags=FLAG_FRESH,
        destination=ip_address("10.2.0.13").packed,
        coordination=coordination,
    )
    own = OwnState(node_id=node_id("b2"), epoch=time.time_ns(), heard=0, known=0)
    return ProbeTemplate(spec, key=keys, own=own)


def send_from_pod(mesh, packets, port):
    """From a pod of another node: inside the cluster, outside the mesh's trust."""
    with udp_socket(mesh.lab.pod("b2")) as stranger:
        for packet in packets:
            stranger.sendto(packet, (mesh.lab.topology.nodes[VICTIM].node_ip, port))


def test_probes_under_a_wrong_key_are_counted_and_ignored(mesh):
    """A stranger who knows every name but not the key orders the victim to move: nobody whom b3 knows signs so."""
    order = Coordination(
        kind=CoordinationKind.NOTICE,
        reason=1,
        pair=0,
        rank=1,
        generation=1_000,
        nonce=7,
        evidence_hundredths=0,
        target_node_id=node_id(VICTIM),
    )
    stranger = MeshKeys("b2", [MeshSecret(secret=bytes(32))]).add_peer(VICTIM)
    template = forged(stranger, coordination=order)
    before = counter(mesh, "requests-unknown-key")

    send_from_pod(mesh, [bytes(template.seal(n, time.time_ns())) for n in range(COPIES)], PATH_PORT)

    wait_counted(mesh, "requests-unknown-key", before, COPIES)


def test_probes_altered_on_their_way_are_counted_and_ignored(mesh):
    """The right key, and one bit of the order changed after signing."""
    template = forged(stolen_key(mesh.lab, "b2", VICTIM))
    before = counter(mesh, "requests-bad-base-tag")
    packets = []
    for number in range(COPIES):
        packet = bytearray(template.seal(number, time.time_ns()))
        packet[3] ^= 0x40
        packets.append(bytes(packet))

    send_from_pod(mesh, packets, SEGMENT_PORT)

    wait_counted(mesh, "requests-bad-base-tag", before, COPIES)


def test_what_is_no_probe_at_all_is_dropped_in_the_kernel(mesh):
    """Noise never reaches the engine."""
    before = counter(mesh, "requests-filtered")

    send_from_pod(mesh, [b"noise" * 40] * COPIES, SEGMENT_PORT)

    wait_counted(mesh, "requests-filtered", before, COPIES)


def test_requests_sent_a_second_time_are_counted_and_get_no_answer(mesh):
    """Captured at the victim's own door and repeated from a pod, on the port they were sent to."""
    address = mesh.lab.topology.nodes[VICTIM].node_ip
    with WireTap(mesh.lab.node(VICTIM), "flannel.1") as tap:
        captured: list[tuple[Probe, bytes]] = []

        def has_enough():
            captured.extend(each for each in tap.packets() if is_request_to(address, each[0]))
            return len(captured) >= COPIES

        wait_until(has_enough, timeout_s=15, what="probes to capture")
    before = counter(mesh, "requests-replayed")

    with udp_socket(mesh.lab.pod("b2")) as stranger:
        stranger.settimeout(1.0)
        for probe, payload in captured:
            stranger.sendto(payload, (address, probe.destination_port))
        with pytest.raises(TimeoutError):
            stranger.recv(2048)

    wait_counted(mesh, "requests-replayed", before, len(captured))


def is_request_to(address, probe):
    """Whether a packet is a probe for this address, and not an answer."""
    return probe.destination == address and probe.destination_port in PROBE_PORTS


def test_answers_sent_a_second_time_are_counted_and_prove_nothing(mesh):
    """Answers to a pinned flow, whose socket stays open, repeated with the addresses and ports they had."""
    witness = mesh.lab.node("b2")
    with WireTap(witness, "flannel.1") as tap:
        captured = wait_until(partial(pinned_answer, tap), timeout_s=20, what="an answer to a pinned probe")
    before = counter(mesh, "replies-unexpected")

    for _ in range(COPIES):
        send_again(witness, *captured)

    wait_counted(mesh, "replies-unexpected", before, COPIES)


def pinned_answer(tap):
    """An answer of b2's reflector to one of the victim's pinned overlay flows, or None."""
    route = ("10.244.5.0", SEGMENT_PORT, "10.244.6.0")
    for probe, payload in tap.packets():
        is_pinned = probe.destination_port in PINNED_PORTS
        if is_pinned and route == (probe.source, probe.source_port, probe.destination):
            return probe, payload
    return None
