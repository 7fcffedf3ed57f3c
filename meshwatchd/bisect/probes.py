"""The probes of a run: authenticated STAMP that the peer's reflector answers as any other, and sockets for answers.

They are signed in this node's name under an epoch of their own, younger than the daemon's. The peer answers them and,
as nothing ever proves that epoch, believes nothing in them: a run cannot disturb what the daemons think of each other.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Iterator
from random import Random
from typing import Final

import msgspec

from meshwatchd.adapters.packet.stamps import NtpClock
from meshwatchd.adapters.tap.marks import FIRST_SSID, first_sequence
from meshwatchd.bisect.leg import Leg
from meshwatchd.model.bisection import SeriesName
from meshwatchd.model.ids import Layer
from meshwatchd.wire.auth import MeshKeys, node_id
from meshwatchd.wire.mesh_tlv import FLAG_FRESH, OwnState
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.seal import peek
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate

_PACKET_BYTES: Final = 2048
_MS: Final = 1_000_000


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One probe, with the socket that waits for its answer.

    Attributes:
        source_port: drawn by the kernel from its whole range, so that the flow is a new one.
    """

    series: SeriesName
    sequence: int
    source: str
    source_port: int
    destination: str
    port: int
    payload: bytes


class Probes:
    """All probes of one run; nothing is left open.

    Args:
        epoch: greater than that of any daemon that runs on this node.
    """

    def __init__(self, leg: Leg, keys: MeshKeys, *, epoch: int, random: Random) -> None:
        self.ssid = random.randrange(FIRST_SSID, 1 << 16)
        self._leg, self._keys = leg, keys
        self._own = OwnState(node_id=node_id(leg.node), epoch=epoch)
        self._clock = NtpClock()
        self._poll = select.poll()
        self._waiting: dict[int, tuple[socket.socket, Probe, int]] = {}
        self._counts: dict[SeriesName, int] = {}
        self._errors: dict[SeriesName, dict[str, None]] = {}
        self._echoed: set[int] = set()

    def make(self, series: SeriesName) -> Probe | None:
        """The next probe of a series, and a socket for its answer; None where its source address is not this node's."""
        is_underlay = series is SeriesName.UNDERLAY
        leg = self._leg
        source = leg.underlay_source if is_underlay else leg.source
        destination = leg.underlay_destination if is_underlay else leg.destination
        try:
            waiting = _bind(source)
        except OSError as error:
            self.note_error(series, error)
            return None
        number = self._counts.get(series, 0)
        self._counts[series] = number + 1
        sequence, stamp = first_sequence(series) + number, self._clock.stamp()
        spec = ProbeSpec(
            ssid=self.ssid,
            path=0,
            layer=Layer.UNDERLAY if is_underlay else leg.layer,
            flags=FLAG_FRESH,
            destination=socket.inet_aton(destination),
        )
        key = self._keys.add_peer(leg.via if is_underlay else leg.peer)
        payload = bytes(ProbeTemplate(spec, key=key, own=self._own).seal(sequence, stamp))
        probe = Probe(
            series=series,
            sequence=sequence,
            source=source,
            source_port=waiting.getsockname()[1],
            destination=destination,
            port=leg.underlay_port if is_underlay else leg.port,
            payload=payload,
        )
        self._waiting[waiting.fileno()] = (waiting, probe, stamp)
        self._poll.register(waiting, select.POLLIN)
        return probe

    def send(self, probe: Probe) -> None:
        """Send a probe by its own socket, as any program would."""
        opened = next(each for each, made, _stamp in self._waiting.values() if made is probe)
        try:
            opened.sendto(probe.payload, (probe.destination, probe.port))
        except OSError as error:
            self.note_error(probe.series, error)

    def note_error(self, series: SeriesName, error: OSError) -> None:
        """Remember what the kernel said to a send."""
        name = errno.errorcode.get(error.errno or 0, str(error))
        self._errors.setdefault(series, {})[name] = None

    def watch(self, fd: int) -> None:
        """Wake up for this descriptor as well while waiting."""
        self._poll.register(fd, select.POLLIN)

    def wait(self, until_ns: int) -> Iterator[None]:
        """Read answers until an instant; the caller gets a turn whenever anything has come, and may stop."""
        while (left_ns := until_ns - time.monotonic_ns()) > 0:
            for fd, _event in self._poll.poll(-(-left_ns // _MS)):
                if fd in self._waiting:
                    self._read(fd)
            yield

    def sent(self, series: SeriesName) -> int:
        """How many were made."""
        return self._counts.get(series, 0)

    def echoed(self, series: SeriesName) -> int:
        """How many were answered."""
        first = first_sequence(series)
        return len(self._echoed.intersection(range(first, first + self.sent(series))))

    def errors(self, series: SeriesName) -> tuple[str, ...]:
        """What the kernel said to sends."""
        return tuple(self._errors.get(series, ()))

    def close(self) -> None:
        """Close all sockets."""
        for opened, _probe, _stamp in self._waiting.values():
            opened.close()
        self._waiting.clear()

    def _read(self, fd: int) -> None:
        opened, probe, stamp = self._waiting[fd]
        try:
            data = opened.recv(_PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self.note_error(probe.series, error)
            return
        claim = peek(data)
        key = None if claim is None else self._keys.receiving(*claim)
        parsed = None if key is None else verify_and_parse(data, key)
        if (
            isinstance(parsed, ParsedProbe)
            and parsed.is_reply
            and (parsed.ssid, parsed.sender_sequence, parsed.sender_timestamp_ntp) == (self.ssid, probe.sequence, stamp)
        ):
            self._echoed.add(probe.sequence)


def _bind(source: str) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        opened.bind((source, 0))
    except OSError:
        opened.close()
        raise
    return opened
