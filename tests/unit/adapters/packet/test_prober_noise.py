"""What comes to a source port and is no answer costs one look, and then nothing."""

from __future__ import annotations

import os

from meshwatchd.adapters.packet.sockets import filtered_packets
from meshwatchd.model.events import ReplyReceived
from tests.support.packet_node import free_port, nodes, plan, send, udp
from tests.support.pump import pump

NOISE = (b"", b"x", os.urandom(30), os.urandom(112), os.urandom(300))
"""Too short for any field, for the fields of an answer, for its tags; and as long as one."""


def test_noise_is_looked_at_once_and_the_answer_still_counts():
    """Whatever its length: nothing is believed, nothing ends, and the kernel drops what comes after it."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        port = free_port()
        sender.prober.configure((plan(port),))
        sender.prober.send(send(seq=1))
        sender.prober.flush()
        [source] = sender.prober._ports._by_fd.values()
        for _ in range(2):
            for noise in NOISE:
                plain.sendto(noise, ("127.0.0.1", source.address[1]))
            pump(poller, lambda: sender.counters["replies-unexpected"] >= len(NOISE))
        assert len(NOISE) == sender.counters["replies-unexpected"] == filtered_packets(source._socket)

        peer.reflector.listeners.listen((port,))
        sender.prober.send(send(seq=2, source_port=source.address[1]))
        sender.prober.flush()
        pump(poller, lambda: bool(sender.events))
        assert [ReplyReceived] == [type(event) for event in sender.events]
