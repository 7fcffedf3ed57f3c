"""Real packets of real daemons, captured by tcpdump and read by a dissector that is not ours.

scapy knows the base packets of open mode and the TLVs of both; fields of authenticated base packets are taken from the
places where RFC 8762 has them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.contrib import stamp as oracle
from scapy.layers.inet import IP, UDP
from scapy.utils import rdpcap

from netnslab.daemon_config import CONFIGURATION
from netnslab.waiting import wait_until
from tests.support.stage import QUICK, stage
from tests.support.stamp_peer import is_tlv_area_signed
from tests.support.wire_tap import PROBE_PORTS

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

STAMP_PORT = 862
SETTINGS = {**QUICK, "stamp": {"listen": STAMP_PORT, "allow": ["10.2.0.0/24"]}}
ENOUGH = 200
CAPTURE_S = 30
MESH, COORDINATION, DESTINATION, HMAC, LOCATION, DIRECT, RETURN_PATH = 252, 253, 9, 8, 2, 5, 10
PADDING = 1
"""Extra Padding (RFC 8972), in probes of size: the one TLV whose length is free."""
SIZES = {MESH: 54, COORDINATION: 32, DESTINATION: 4, HMAC: 16}
LONG_MESH = 96
"""With room for eight pairs: until the peer has said that it reads the other one, and of probes of size."""
U = 0x80


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """Daemons that answer other makers' senders in the cloud."""
    with stage(tmp_path_factory.mktemp("dissected"), settings=SETTINGS) as built:
        yield built


class Captured(NamedTuple):
    """One UDP packet."""

    source: str
    sport: int
    destination: str
    dport: int
    payload: bytes


@contextmanager
def tcpdump(mesh, place: tuple[str, str], expression: str, *, file: Path, count: int) -> Iterator[None]:
    """Capture so many packets on a device of a node, from the first line inside on; waits for the last of them."""
    node, device = place
    command = ["tcpdump", "-i", device, "-c", str(count), "-Z", "root", "-w", str(file), expression]
    process = mesh.lab.node(node).popen(command, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert "listening on" in process.stderr.readline()
        yield
        process.communicate(timeout=CAPTURE_S)
    finally:
        process.kill()
        process.wait()


def read(file: Path) -> list[Captured]:
    """All UDP packets of a capture."""
    return [
        Captured(packet[IP].src, packet[UDP].sport, packet[IP].dst, packet[UDP].dport, bytes(packet[UDP].payload))
        for packet in rdpcap(str(file))
        if UDP in packet
    ]


def number(data: bytes, start: int, size: int) -> int:
    """A field of a base packet."""
    return int.from_bytes(data[start : start + size], "big")


def tlvs(area: bytes) -> list[tuple[int, int, bytes]]:
    """Flags, type, value, as scapy reads them behind a base packet of its own kind."""
    read_by_scapy = oracle.STAMPSessionSenderTestUnauthenticated(bytes(44) + area).tlv_objects
    return [(int(tlv.flags), tlv.type, bytes(tlv.value)) for tlv in read_by_scapy]


def test_probes_of_the_mesh_are_authenticated_stamp_tlv_by_tlv(mesh, tmp_path):
    """Requests and answers on b3's overlay: places, zeros, flags, order and lengths as the RFCs have them."""
    file = tmp_path / "probes.pcap"
    with tcpdump(
        mesh, ("b3", "flannel.1"), f"udp portrange {PROBE_PORTS[0]}-{PROBE_PORTS[-1]}", file=file, count=ENOUGH
    ):
        pass
    packets = read(file)
    requests = [packet for packet in packets if packet.dport in PROBE_PORTS]
    answers = [packet for packet in packets if packet.sport in PROBE_PORTS]
    assert requests
    assert answers

    for packet in packets:
        is_answer = packet.sport in PROBE_PORTS
        found = tlvs(packet.payload[112:])
        kinds = [kind for _, kind, _ in found]
        assert (MESH, HMAC) == (kinds[0], kinds[-1])
        assert DESTINATION in kinds
        assert set(kinds) <= {*SIZES, PADDING}
        lengths = {**SIZES, PADDING: sum(len(value) for _, kind, value in found if kind == PADDING)}
        if {COORDINATION, PADDING} & set(kinds):
            lengths[MESH] = LONG_MESH
        assert [lengths[kind] for kind in kinds] == [len(value) for _, _, value in found]
        assert {0 if is_answer else U} == {flags for flags, _, _ in found}
        assert 112 + sum(4 + lengths[kind] for kind in kinds) == len(packet.payload)
        node = packet.source if is_answer else packet.destination
        assert IPv4Address(node).packed in [value for _, kind, value in found if kind == DESTINATION]
        assert not any(packet.payload[4:16] + packet.payload[28:32] + packet.payload[81:96])
        assert number(packet.payload, 26, 2)


def test_answers_of_the_mesh_repeat_what_was_asked(mesh, tmp_path):
    """Number, time, error estimate and SSID of the request that went to the port the answer comes from."""
    file = tmp_path / "answers.pcap"
    with tcpdump(
        mesh, ("b3", "flannel.1"), f"udp portrange {PROBE_PORTS[0]}-{PROBE_PORTS[-1]}", file=file, count=ENOUGH
    ):
        pass
    asked = {}
    answered = 0
    for packet in read(file):
        data = packet.payload
        if packet.dport in PROBE_PORTS:
            flow = (packet.source, packet.sport, packet.destination, packet.dport)
            asked[flow, number(data, 0, 4), number(data, 26, 2)] = data
            continue
        flow = (packet.destination, packet.dport, packet.source, packet.sport)
        question = asked.get((flow, number(data, 48, 4), number(data, 26, 2)))
        if question is None:
            # Asked before the capture began.
            continue
        answered += 1
        assert (question[16:24], question[24:26]) == (data[64:72], data[72:74])
        assert number(data, 32, 8) < number(data, 16, 8)
        assert 0 < data[80] <= 64
        assert len(question) == len(data)
    assert answered > ENOUGH // 4


def test_a_standard_exchange_between_two_nodes_is_read_by_scapy_alone(mesh, tmp_path):
    """`meshwatchctl stamp` on b3 and the daemon of b1, which have nothing in common but the RFC, port 862 included."""
    file = tmp_path / "standard.pcap"
    questions = ["--tlv", "location", "--tlv", "direct", "--tlv", "10:00010004", "--tlv", "destination:10.2.0.11"]
    with tcpdump(mesh, ("b3", "eth0"), f"udp port {STAMP_PORT}", file=file, count=40):
        done = mesh.daemons.control(
            "b3", "--json", "stamp", "10.2.0.11", "--count", "20", "--interval", "5ms", "--size", "200", *questions
        )
    result = json.loads(done.stdout)
    packets = read(file)
    sent = [oracle.STAMPSessionSenderTestUnauthenticated(each.payload) for each in packets if each.dport == STAMP_PORT]
    back = [
        oracle.STAMPSessionReflectorTestUnauthenticated(each.payload) for each in packets if each.sport == STAMP_PORT
    ]

    assert (0, 20, 20) == (done.returncode, result["sent"], result["received"])
    assert {200} == {len(packet.payload) for packet in packets}
    assert list(range(20)) == [packet.seq for packet in sent]
    assert [(each.seq, each.ssid, each.fields["ts"]) for each in sent] == [
        (each.seq_sender, each.ssid, each.fields["ts_sender"]) for each in back
    ]
    assert list(range(20)) == [packet.seq for packet in back]
    assert {255} == {packet.ttl_sender for packet in back}
    kinds = [(LOCATION, 0), (DIRECT, 0), (RETURN_PATH, U), (DESTINATION, 0), (1, 0)]
    assert [kinds] * 20 == [[(tlv.type, int(tlv.flags)) for tlv in packet.tlv_objects] for packet in back]
    counts = [bytes(packet.tlv_objects[1].value) for packet in back]
    assert [each.to_bytes(4, "big") * 3 for each in range(1, 21)] == counts


def test_a_node_that_is_not_allowed_hears_nothing(mesh):
    """From the other location; the victim's kernel counts, and no daemon minds."""
    before = mesh.daemons.status("b1")["counters"].get("stamp-filtered", 0)
    done = mesh.daemons.control("a1", "stamp", "10.2.0.11", "--count", "5", "--interval", "1ms", "--wait", "100ms")

    assert 2 == done.returncode
    assert "5 sent, 0 answered" in done.stdout
    wait_until(
        lambda: mesh.daemons.status("b1")["counters"]["stamp-filtered"] >= before + 5,
        timeout_s=15,
        what="five packets to be counted",
        poll_s=0.3,
    )
    assert [] == mesh.log_lines("error")


def test_signed_answers_of_the_mesh_verify_by_the_rfcs_alone(mesh, tmp_path):
    """A shared key in a file, our sender, and a reflector of b2 in authenticated mode: tags as RFC 8972 section 4.8."""
    key = b"a key that both sides have been given"
    node = mesh.lab.node("b2")
    node.run(["sh", "-c", "umask 077; cat > /etc/meshwatchd/stamp.key"], input=key.decode(), check=True)
    file = tmp_path / "signed.pcap"
    with (
        authenticated_reflector(mesh, "b2"),
        tcpdump(mesh, ("b2", "eth0"), f"udp port {STAMP_PORT}", file=file, count=6),
    ):
        words = ["stamp", "10.2.0.12", "--count", "3", "--interval", "5ms", "--tlv", "timestamp"]
        mesh.lab.node("b3").run(["sh", "-c", "umask 077; cat > /run/stamp.key"], input=key.decode(), check=True)
        done = mesh.daemons.control("b3", *words, "--key-file", "/run/stamp.key")

    assert 0 == done.returncode, done.stdout + done.stderr
    answers = [packet.payload for packet in read(file) if packet.sport == STAMP_PORT]
    assert [True] * 3 == [is_tlv_area_signed(data, key, 112) for data in answers]


@contextmanager
def authenticated_reflector(mesh, name: str) -> Iterator[None]:
    """The daemon of a node in the other mode, and as it was afterwards."""
    node = mesh.lab.node(name)
    before = node.run(["cat", str(CONFIGURATION)], check=True).stdout
    section = '[stamp]\nmode = "authenticated"\nkey_file = "/etc/meshwatchd/stamp.key"\n'
    node.run(["tee", str(CONFIGURATION)], input=f"{before}\n{section}", check=True)
    try:
        mesh.daemons.restart(name)
        mesh.daemons.wait_ready(name)
        yield
    finally:
        node.run(["tee", str(CONFIGURATION)], input=before, check=True)
