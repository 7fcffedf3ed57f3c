"""From what was gathered to the result: observation, signs, row, sentences."""

from __future__ import annotations

import time
from typing import NamedTuple

from meshwatchd.adapters.tap.taps import Taps
from meshwatchd.bisect.evidence import tell_evidence
from meshwatchd.bisect.leg import Leg
from meshwatchd.bisect.matrix import explain_row, find_row
from meshwatchd.bisect.observation import DeviceState, Observation
from meshwatchd.bisect.probes import Probes
from meshwatchd.bisect.signs import read_flows, read_signs
from meshwatchd.bisect.stack import (
    Questions,
    Stack,
    judge_device,
    judge_forwarding,
    judge_neighbour,
    judge_route,
    judge_underlay_neighbour,
    judge_underlay_route,
)
from meshwatchd.model.bisection import BisectResult, DeviceCounters, PeerCounts, SeriesCounts, SeriesName, Tables


class Ledger:
    """What devices count between two instants: from its making to each question."""

    def __init__(self, kernel: Questions) -> None:
        self._kernel = kernel
        self._devices = kernel.devices()
        self._queued = {index: kernel.queue_drops(index) for index in self._devices}

    def names(self) -> dict[int, str]:
        """All devices' names by index."""
        return {device.index: device.name for device in self._devices.values()}

    def counted(self, name: str) -> DeviceCounters | None:
        """What a device has counted since; None for one that was not there."""
        before = next((device for device in self._devices.values() if device.name == name), None)
        after = None if before is None else self._kernel.devices().get(before.index)
        if before is None or after is None:
            return None
        return DeviceCounters(
            device=name,
            tx_packets=after.tx_packets - before.tx_packets,
            tx_dropped=after.tx_dropped - before.tx_dropped,
            tx_errors=after.tx_errors - before.tx_errors,
            tx_carrier_errors=after.tx_carrier_errors - before.tx_carrier_errors,
            qdisc_dropped=max(0, self._kernel.queue_drops(before.index) - self._queued[before.index]),
        )


class Gathered(NamedTuple):
    """Everything a run has in its hands at its end.

    Attributes:
        stack: the tables as they are at the end.
        taps, probes, ledger: what was seen, answered and counted.
        peer_counts: what the peer's taps saw, if they did.
        began_ns: CLOCK_MONOTONIC when it began.
    """

    stack: Stack
    taps: Taps
    probes: Probes
    ledger: Ledger
    peer_counts: tuple[PeerCounts, ...]
    began_ns: int


def conclude(leg: Leg, gathered: Gathered) -> BisectResult:
    """The result of a run on that way."""
    end_ns = time.monotonic_ns()
    seen = _observe(leg, gathered, end_ns)
    signs, reports = read_signs(seen), gathered.taps.reports()
    row, flows = find_row(signs), read_flows(signs)
    counters = (gathered.ledger.counted(name) for name in (seen.overlay, seen.lower))
    return BisectResult(
        node=leg.node,
        peer=leg.peer,
        via=leg.via,
        at_ns=end_ns,
        duration_ns=end_ns - gathered.began_ns,
        place=row.place,
        candidates=(row.place, *row.also),
        direction=row.direction,
        flows=flows,
        because=(explain_row(row, seen), *tell_evidence(seen, flows, reports)),
        series=seen.series,
        known_flows=seen.known_flows,
        tables=Tables(
            route=seen.route.text,
            neighbour=seen.neighbour.text,
            forwarding=seen.forwarding.text,
            underlay_route=seen.underlay_route.text,
            underlay_neighbour=seen.underlay_neighbour.text,
        ),
        taps=reports,
        counters=tuple(each for each in counters if each is not None),
        peer_counts=seen.peer_counts,
        is_two_sided=bool(seen.peer_counts),
    )


def _observe(leg: Leg, gathered: Gathered, end_ns: int) -> Observation:
    stack, taps, ledger = gathered.stack, gathered.taps, gathered.ledger
    names, lower = ledger.names(), stack.lower.name if stack.lower is not None else ""
    above, below = ledger.counted(leg.device), ledger.counted(lower)
    return Observation(
        peer=leg.peer,
        via=leg.via,
        overlay=leg.device,
        lower=lower,
        overlay_state=judge_device(stack.overlay),
        lower_state=judge_device(stack.lower) if leg.is_wrapped else DeviceState.UNKNOWN,
        route=judge_route(stack, leg, names),
        neighbour=judge_neighbour(stack),
        forwarding=judge_forwarding(stack, leg),
        underlay_route=judge_underlay_route(stack, leg, names),
        underlay_neighbour=judge_underlay_neighbour(stack),
        series=tuple(_count(name, taps, gathered.probes) for name in SeriesName),
        peer_counts=gathered.peer_counts,
        known_flows=taps.known_flows(end_ns),
        queue_dropped=below.qdisc_dropped if below is not None else 0,
        overlay_dropped=above.tx_dropped if above is not None else 0,
        overlay_errors=above.tx_errors if above is not None else 0,
    )


def _count(name: SeriesName, taps: Taps, probes: Probes) -> SeriesCounts:
    return SeriesCounts(
        name=name,
        sent=probes.sent(name),
        at_overlay=taps.at_overlay(name, is_outgoing=True, is_answer=False),
        at_lower=taps.at_lower(name, is_outgoing=True, is_answer=False),
        back_at_lower=taps.at_lower(name, is_outgoing=False, is_answer=True),
        back_at_overlay=taps.at_overlay(name, is_outgoing=False, is_answer=True),
        echoed=probes.echoed(name),
        errors=probes.errors(name),
    )
