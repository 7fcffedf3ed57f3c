"""Floods at the probe port: noise dies in the kernel, forgeries at the signature, and no session falls."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import pytest

from meshwatchd.wire.auth import node_id
from meshwatchd.wire.mesh_tlv import OwnState
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate
from netnslab.daemons import Event
from netnslab.waiting import wait_until
from tests.support.stolen import stolen_key

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

VICTIM, PATH_PORT = "b3", 18620
FLOOD_S = 5
FORGED_PER_S = 5_000
COUNTED_S = 15
MOVES = ("verdict.changed", "failover.proposed", "failover.applied")

# In a process of its own, as fast as it manages, or at a pace: packets of one kind for some seconds. It prints
# how many it has sent.
SENDER = """
import json, socket, sys, time
address, port, packet, seconds, per_s = json.loads(sys.argv[1])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect((address, port))
packet, sent, began = bytes.fromhex(packet), 0, time.monotonic()
while (now := time.monotonic()) < began + seconds:
    due = sent + 100 if not per_s else int((now - began) * per_s)
    if sent >= due:
        time.sleep(0.001)
    while sent < due:
        try:
            sender.send(packet)
        except OSError:
            pass
        sent += 1
print(sent)
"""


def flood(mesh, packet: bytes, *, per_s: int = 0) -> int:
    """From a pod of another node to the victim; returns how many packets were sent."""
    order = json.dumps([mesh.lab.topology.nodes[VICTIM].node_ip, PATH_PORT, packet.hex(), FLOOD_S, per_s])
    process = mesh.lab.pod("b2").popen([sys.executable, "-S", "-c", SENDER, order], stdout=subprocess.PIPE)
    out, _ = process.communicate(timeout=4 * FLOOD_S)
    return int(out)


def counters(mesh) -> Any:
    """The victim's."""
    return mesh.daemons.status(VICTIM)["counters"]


def changes(mesh, since_ns: int) -> list[Event]:
    """What a flood must not bring about anywhere: a move, a verdict, a session that falls.

    A session may be suspect for a moment. All nodes share the cores with the sender, so a single probe may miss its
    term for want of a core, and one miss makes suspect; only the sequential test takes a session down.
    """
    fallen = [event for event in mesh.events(since_ns, "session.changed") if event.fields["state"] == "down"]
    return [*mesh.events(since_ns, *MOVES), *fallen]


def test_noise_as_fast_as_it_can_be_sent_takes_no_session_down(mesh):
    """As long as a probe and nothing else in common with one: the socket filter drops it."""
    mesh.settle()
    began_ns, before = time.monotonic_ns(), counters(mesh)
    sent = flood(mesh, b"noise" * 60)

    dropped = wait_until(
        lambda: counters(mesh)["requests-filtered"] - before["requests-filtered"] or None,
        timeout_s=COUNTED_S,
        what="noise to be counted",
        poll_s=0.3,
    )
    assert dropped > sent // 2
    mesh.settle()
    assert [] == changes(mesh, began_ns)
    unheard = {name for name in counters(mesh) if name.startswith("requests-") and name not in before}
    assert set() == unheard


def test_forgeries_of_a_peer_take_no_session_down(mesh):
    """A real probe's shape, names and key id under a wrong key: refused at the first tag, and nobody is charged."""
    mesh.settle()
    keys = stolen_key(mesh.lab, "b2", VICTIM)
    own = OwnState(node_id=node_id("b2"), epoch=time.time_ns(), heard=0, known=0)
    packet = bytearray(ProbeTemplate(ProbeSpec(ssid=1, path=0, layer=5), key=keys, own=own).seal(1, time.time_ns()))
    packet[4] ^= 1
    began_ns, before = time.monotonic_ns(), counters(mesh)
    sent = flood(mesh, bytes(packet), per_s=FORGED_PER_S)

    wait_until(
        lambda: counters(mesh).get("requests-bad-base-tag", 0) >= before.get("requests-bad-base-tag", 0) + sent // 2,
        timeout_s=COUNTED_S,
        what="forgeries to be counted",
        poll_s=0.3,
    )
    mesh.settle()
    assert [] == changes(mesh, began_ns)
    assert before.get("requests-rate-limited", 0) == counters(mesh).get("requests-rate-limited", 0)
