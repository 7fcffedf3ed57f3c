"""The two taps of a way, overlay device and lower device, and what both have seen together."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Final

from meshwatchd.adapters.tap.filter import Wanted
from meshwatchd.adapters.tap.marks import Sightings
from meshwatchd.adapters.tap.questions import Device
from meshwatchd.adapters.tap.tap import Seen, Tap, open_tap
from meshwatchd.model.bisection import KnownFlows, PeerCounts, SeriesName, TapReport
from meshwatchd.model.errors import KernelError

_NO_FLOWS: Final = KnownFlows(sent=0, answered=0)


class Taps:
    """Taps on those of the two devices that are there and up.

    Args:
        overlay, lower: None where there is no such device, or nothing of ours could be recognised on it.

    Raises:
        KernelError: no CAP_NET_RAW.
    """

    def __init__(self, overlay: Device | None, lower: Device | None, wanted: Wanted, *, ssid: int) -> None:
        self.heard_mac = b""
        self._via = b""
        self._exits = ExitStack()
        with self._exits:
            self._overlay = self._open(overlay, wanted, ssid)
            self._lower = self._open(lower, wanted, ssid)
            self._exits = self._exits.pop_all()

    def learn_mac_of(self, vtep: bytes) -> None:
        """Note in `heard_mac` from which link layer address frames of that VTEP come (packed IPv4 address)."""
        self._via = vtep

    def filenos(self) -> list[int]:
        """For poll."""
        return [tap.fileno() for tap, _ in self._open_ones()]

    def read(self) -> None:
        """Take in what has passed."""
        for tap, sightings in self._open_ones():
            for seen in tap.read():
                sightings.take(seen)
                self.heard_mac = self._mac_of_via(seen) or self.heard_mac

    def at_overlay(self, series: SeriesName, *, is_outgoing: bool, is_answer: bool) -> int | None:
        """How many probes of a series, or answers, passed the overlay device; None without a tap there."""
        return _count(self._overlay, series, is_outgoing=is_outgoing, is_answer=is_answer)

    def at_lower(self, series: SeriesName, *, is_outgoing: bool, is_answer: bool) -> int | None:
        """The same of the lower device."""
        return _count(self._lower, series, is_outgoing=is_outgoing, is_answer=is_answer)

    def known_flows(self, end_ns: int) -> KnownFlows:
        """The daemon's probes of known flows, where they enter the overlay."""
        return _NO_FLOWS if self._overlay is None else self._overlay[1].known_flows(end_ns)

    def reports(self) -> tuple[TapReport, ...]:
        """What each has counted."""
        return tuple(tap.report() for tap, _ in self._open_ones())

    def close(self) -> None:
        """See nothing more."""
        self._exits.close()

    def _open_ones(self) -> list[tuple[Tap, Sightings]]:
        return [each for each in (self._overlay, self._lower) if each is not None]

    def _open(self, device: Device | None, wanted: Wanted, ssid: int) -> tuple[Tap, Sightings] | None:
        if device is None or not device.is_up:
            return None
        try:
            tap = open_tap(device.name, is_ethernet=device.is_ethernet, wanted=wanted)
        except OSError as error:
            text = f"{error.strerror or error}; taps need CAP_NET_RAW, as root or in the daemon's unit"
            raise KernelError(f"tap {device.name}", error.errno or 0, text) from error
        return self._exits.enter_context(closing(tap)), Sightings(wanted.port, ssid)

    def _mac_of_via(self, seen: Seen) -> bytes:
        outermost = next(iter(seen.datagram.wrappings), None)
        if seen.is_outgoing or outermost is None or not self._via or outermost.source != self._via:
            return b""
        return outermost.source_mac


def _count(
    tapped: tuple[Tap, Sightings] | None, series: SeriesName, *, is_outgoing: bool, is_answer: bool
) -> int | None:
    return None if tapped is None else tapped[1].count(series, is_outgoing=is_outgoing, is_answer=is_answer)


def count_peer(taps: Taps, name: SeriesName) -> PeerCounts:
    """What these taps have seen of another node's series: its requests coming in, our answers going out."""
    return PeerCounts(
        name=name,
        at_lower=taps.at_lower(name, is_outgoing=False, is_answer=False),
        at_overlay=taps.at_overlay(name, is_outgoing=False, is_answer=False),
        answers_at_overlay=taps.at_overlay(name, is_outgoing=True, is_answer=True),
        answers_at_lower=taps.at_lower(name, is_outgoing=True, is_answer=True),
    )
