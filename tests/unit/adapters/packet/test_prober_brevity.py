"""How long probes are: what the peer has said of itself decides."""

from __future__ import annotations

import socket

import msgspec

from meshwatchd.adapters.packet.session import MOST_BRIEF
from meshwatchd.wire.answer import Reflector
from meshwatchd.wire.mesh_tlv import FLAG_BRIEF
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.reflect import reflect
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate
from tests.support.packet_node import PacketNode, free_port, key, nodes, plan, send, udp
from tests.support.pump import pump


def _answer(node: PacketNode, packet: bytes, flags: int) -> bytes:
    parsed = verify_and_parse(packet, key("b1", "a1"))
    assert isinstance(parsed, ParsedProbe)
    return reflect(
        packet,
        parsed,
        key=key("b1", "a1"),
        own=msgspec.structs.replace(node.own(), flags=flags),
        reflector=Reflector(addresses=frozenset((socket.inet_aton("127.0.0.1"),))),
        reflector_sequence=0,
        rx_ntp=1,
        tx_ntp=2,
    )


def test_probes_are_brief_where_the_peer_reads_them():
    """A daemon from before them says nothing of them, and one that an older one replaces answers nothing."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        lengths = []
        for flags in (0, FLAG_BRIEF, None, FLAG_BRIEF, *[None] * (MOST_BRIEF + 2)):
            sender.prober.send(send())
            sender.prober.flush()
            packet, address = plain.recvfrom(2048)
            lengths.append(len(packet))
            if flags is not None:
                plain.sendto(_answer(peer, packet, flags), address)
                pump(poller, lambda: len(sender.events) == 1)
                sender.events.clear()

        whole = lengths[0]
        brief = whole - 42
        assert [whole, whole, brief, brief, *[brief] * MOST_BRIEF, whole, whole] == lengths


def test_a_request_of_an_older_daemon_makes_probes_whole_at_once():
    """It has taken the place of one that read brief probes, and drops those in its socket filter."""
    with nodes("a1", "b1") as (poller, [sender, peer]), udp() as plain, udp() as other:
        sender.prober.configure((plan(plain.getsockname()[1]),))
        port = free_port()
        sender.reflector.listeners.listen((port,))
        older = msgspec.structs.replace(peer.own(), flags=0)
        lengths = []
        for own in (peer.own(), older, None):
            sender.prober.send(send())
            sender.prober.flush()
            packet, address = plain.recvfrom(2048)
            lengths.append(len(packet))
            plain.sendto(_answer(peer, packet, FLAG_BRIEF), address)
            if own is not None:
                spec = ProbeSpec(ssid=1, path=1, layer=5, destination=socket.inet_aton("127.0.0.1"))
                request = ProbeTemplate(spec, key=key("b1", "a1"), own=own).seal(len(lengths), 10_000 + len(lengths))
                other.sendto(request, ("127.0.0.1", port))
            pump(poller, lambda: len(sender.events) == (1 if own is None else 2))  # noqa: B023 - used at once
            sender.events.clear()

    assert [lengths[0], lengths[0] - 42, lengths[0]] == lengths
