"""Our probes, the daemon's known flows, and everything else, told apart by bytes."""

from __future__ import annotations

import socket

from meshwatchd.adapters.tap.decode import Datagram
from meshwatchd.adapters.tap.marks import FIRST_SSID, Mark, Sightings, first_sequence, read_mark
from meshwatchd.adapters.tap.tap import Seen
from meshwatchd.model.bisection import KnownFlows, SeriesName
from meshwatchd.wire.template import ProbeSpec
from tests.support.wire_pair import B1_ADDRESS, answer, request

PORT = 18618
SSID = FIRST_SSID + 5
END_NS = 10_000_000_000
KNOWN_PORT = PORT + 64


def packet(sequence: int, *, ssid: int = SSID, is_answer: bool = False, port: int = 40_000) -> Datagram:
    """A real probe of a1, or b1's answer to it, between these ports."""
    asked = request(ProbeSpec(ssid=ssid, path=0, layer=4, destination=B1_ADDRESS), sequence=sequence)
    ports = (PORT, port) if is_answer else (port, PORT)
    return Datagram(
        source=socket.inet_aton("10.0.0.1"),
        destination=socket.inet_aton("10.0.0.2"),
        source_port=ports[0],
        destination_port=ports[1],
        payload=answer(asked) if is_answer else asked,
    )


def seen(datagram: Datagram, *, is_outgoing: bool, at_ns: int = 0) -> Seen:
    """The same at a tap."""
    return Seen(at_ns=at_ns, is_outgoing=is_outgoing, datagram=datagram)


def test_marks_are_where_the_rfcs_have_them():
    """Number and session in a request; what the reflector repeats in an answer."""
    assert Mark(is_answer=False, ssid=SSID, sequence=1003) == read_mark(packet(1003), PORT)
    assert Mark(is_answer=True, ssid=SSID, sequence=1003) == read_mark(packet(1003, is_answer=True), PORT)


def test_other_ports_and_short_packets_have_no_mark():
    """Whatever else passes the filter."""
    short = Datagram(source=b"", destination=b"", source_port=1, destination_port=PORT, payload=bytes(27))
    foreign = Datagram(source=b"", destination=b"", source_port=1, destination_port=53, payload=bytes(200))

    assert read_mark(short, PORT) is None
    assert read_mark(foreign, PORT) is None


def test_each_probe_counts_once_for_its_series_and_direction():
    """Seen twice is seen once; another run's probes are not ours."""
    sightings = Sightings(PORT, SSID)
    first = first_sequence(SeriesName.CRAFTED)
    for sequence in (first, first, first + 1):
        sightings.take(seen(packet(sequence), is_outgoing=True))
    sightings.take(seen(packet(first, is_answer=True), is_outgoing=False))
    sightings.take(seen(packet(first + 2, ssid=SSID + 1), is_outgoing=True))

    assert 2 == sightings.count(SeriesName.CRAFTED, is_outgoing=True, is_answer=False)
    assert 1 == sightings.count(SeriesName.CRAFTED, is_outgoing=False, is_answer=True)
    assert 0 == sightings.count(SeriesName.KERNEL, is_outgoing=True, is_answer=False)
    assert KnownFlows(sent=0, answered=0) == sightings.known_flows(END_NS)


def test_known_flows_are_counted_as_the_daemon_asks_them():
    """By the source port; an answer counts for the request that was seen, a late request not yet."""
    sightings = Sightings(PORT, SSID)
    for sequence in (1, 2):
        sightings.take(seen(packet(sequence, ssid=9, port=KNOWN_PORT), is_outgoing=True))
    sightings.take(seen(packet(1, ssid=9, port=KNOWN_PORT, is_answer=True), is_outgoing=False))
    sightings.take(seen(packet(3, ssid=9, port=KNOWN_PORT), is_outgoing=True, at_ns=END_NS - 1))
    sightings.take(seen(packet(4, ssid=9, port=KNOWN_PORT, is_answer=True), is_outgoing=False))

    assert KnownFlows(sent=2, answered=1) == sightings.known_flows(END_NS)


def test_the_peers_own_known_flows_are_not_ours():
    """It asks us from the same ports: its requests come in and our answers go out."""
    sightings = Sightings(PORT, SSID)
    sightings.take(seen(packet(1, ssid=9, port=KNOWN_PORT), is_outgoing=False))
    sightings.take(seen(packet(1, ssid=9, port=KNOWN_PORT, is_answer=True), is_outgoing=True))

    assert KnownFlows(sent=0, answered=0) == sightings.known_flows(END_NS)
