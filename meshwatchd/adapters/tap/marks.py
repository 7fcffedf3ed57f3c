"""Recognising our own probes, and the daemon's, in what taps have seen.

All probes of a run carry one session identifier, drawn high above those of the daemon; the thousands of a sequence
number tell the series. An answer repeats both (RFC 8972 section 3, RFC 8762 section 4.3.2), so no tap needs a key.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from meshwatchd.adapters.tap.decode import Datagram
from meshwatchd.adapters.tap.tap import Seen
from meshwatchd.model.bisection import KnownFlows, SeriesName
from meshwatchd.model.port_map import TAPPED_PORTS, known_flow_ports
from meshwatchd.wire.replay import FIRST_SERIES, SERIES_SIZE

FIRST_SSID: Final = FIRST_SERIES
"""The daemon numbers its sessions from 1; a node has some hundreds."""
ORDER: Final = tuple(SeriesName)

_REQUEST: Final = struct.Struct(">I 22x H")
_ANSWER: Final = struct.Struct(">26x H 20x I")
_READING_NS: Final = 150_000_000
"""Probes sent so shortly before the end may still be answered."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe or an answer says of itself."""

    is_answer: bool
    ssid: int
    sequence: int


def read_mark(datagram: Datagram, port: int) -> Mark | None:
    """The mark of a probe or answer; None for what is neither."""
    data, ports = datagram.payload, range(port, port + TAPPED_PORTS)
    if datagram.destination_port in ports and len(data) >= _REQUEST.size:
        sequence, ssid = _REQUEST.unpack_from(data)
        return Mark(is_answer=False, ssid=ssid, sequence=sequence)
    if datagram.source_port in ports and len(data) >= _ANSWER.size:
        ssid, sequence = _ANSWER.unpack_from(data)
        return Mark(is_answer=True, ssid=ssid, sequence=sequence)
    return None


def first_sequence(series: SeriesName) -> int:
    """Where the numbers of a series begin."""
    return ORDER.index(series) * SERIES_SIZE


class Sightings:
    """What one tap has seen of one run: sequence numbers by direction and kind."""

    def __init__(self, port: int, ssid: int) -> None:
        self._port, self._known_ports = port, known_flow_ports(port)
        self._ssid = ssid
        self._own: set[tuple[bool, bool, int]] = set()
        self._known: dict[tuple[int, int, int], int] = {}
        self._known_answered: set[tuple[int, int, int]] = set()

    def take(self, seen: Seen) -> None:
        """Remember a packet if it is one of ours, or of the daemon's known flows."""
        mark = read_mark(seen.datagram, self._port)
        if mark is None:
            return
        if mark.ssid == self._ssid:
            self._own.add((seen.is_outgoing, mark.is_answer, mark.sequence))
            return
        datagram = seen.datagram
        asker = datagram.destination_port if mark.is_answer else datagram.source_port
        if asker in self._known_ports and seen.is_outgoing is not mark.is_answer:
            flow = (asker, mark.ssid, mark.sequence)
            if mark.is_answer:
                self._known_answered.add(flow)
            else:
                self._known.setdefault(flow, seen.at_ns)

    def count(self, series: SeriesName, *, is_outgoing: bool, is_answer: bool) -> int:
        """How many different probes of a series, or answers to them, passed in one direction."""
        first = first_sequence(series)
        numbers = range(first, first + SERIES_SIZE)
        return sum(
            1
            for out, answer, sequence in self._own
            if (out, answer) == (is_outgoing, is_answer) and sequence in numbers
        )

    def known_flows(self, end_ns: int) -> KnownFlows:
        """The daemon's own probes of known flows, but for those that were sent right before the end."""
        old = {flow for flow, at_ns in self._known.items() if at_ns <= end_ns - _READING_NS}
        sent = old | (self._known_answered & self._known.keys())
        return KnownFlows(sent=len(sent), answered=len(sent & self._known_answered))
