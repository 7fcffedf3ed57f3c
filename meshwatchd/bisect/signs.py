"""From counts to signs: how much of what entered a stage came out of it.

    sent -> entered -> left  -> peer_heard    -> peer_took   requests: overlay, lower device, the peer's lower, overlay
    echoed <- delivered <- came_back <- peer_replied <- peer_answered                 answers: the same places, back

Each sign compares a stage with the one before it, so the first that is not ALL is where packets die. A stage that
nothing reached, or at which nobody looked, is UNKNOWN.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from meshwatchd.bisect.observation import DeviceState, Entry, Observation
from meshwatchd.model.bisection import Flows, PeerCounts, SeriesName

TOLERATED_PART = 8
"""One probe in so many may be lost, or seen, without meaning anything: networks lose some."""

LEAST_KNOWN = 3
"""Probes of known flows that must have been sent before they say anything."""


class Amount(StrEnum):
    """How much of something."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    UNKNOWN = "unknown"


class Signs(msgspec.Struct, frozen=True, kw_only=True):
    """What the rows of the matrix look at.

    Attributes:
        injected_entered ... underlay_echoed: of the other series, each relative to what was sent or had left.
        known: of the daemon's known flows.
        queue_drops: the lower device's queues have dropped at least what is missing.
    """

    overlay: DeviceState
    lower: DeviceState
    route: Entry
    neighbour: Entry
    forwarding: Entry
    underlay_route: Entry
    arp: Entry
    entered: Amount
    left: Amount
    peer_heard: Amount
    peer_took: Amount
    peer_answered: Amount
    peer_replied: Amount
    came_back: Amount
    delivered: Amount
    echoed: Amount
    injected_entered: Amount
    injected_echoed: Amount
    crafted_left: Amount
    crafted_echoed: Amount
    framed_left: Amount
    framed_echoed: Amount
    underlay_left: Amount
    underlay_echoed: Amount
    known: Amount
    queue_drops: bool


def amount(seen: int | None, of: int | None) -> Amount:
    """How much of `of` is `seen`; UNKNOWN where either was not counted or there was nothing to see."""
    if seen is None or not of:
        return Amount.UNKNOWN
    tolerated = of // TOLERATED_PART
    if seen >= of - tolerated:
        return Amount.ALL
    return Amount.NONE if seen <= tolerated else Amount.SOME


def read_signs(seen: Observation) -> Signs:
    """The signs of an observation."""
    kernel, there = seen.counts(SeriesName.KERNEL), seen.counts_there(SeriesName.KERNEL) or _UNSEEN
    injected, crafted = seen.counts(SeriesName.INJECTED), seen.counts(SeriesName.CRAFTED)
    framed, underlay = seen.counts(SeriesName.FRAMED), seen.counts(SeriesName.UNDERLAY)
    known, is_lower_tapped = seen.known_flows, kernel.at_lower is not None
    left = kernel.at_lower if is_lower_tapped else kernel.at_overlay
    back = kernel.back_at_lower if is_lower_tapped else kernel.back_at_overlay
    missing = (kernel.at_overlay or 0) - (kernel.at_lower or 0)
    return Signs(
        overlay=seen.overlay_state,
        lower=seen.lower_state,
        route=seen.route.entry,
        neighbour=seen.neighbour.entry,
        forwarding=seen.forwarding.entry,
        underlay_route=seen.underlay_route.entry,
        arp=seen.underlay_neighbour.entry,
        entered=amount(kernel.at_overlay, kernel.sent),
        left=amount(kernel.at_lower, kernel.at_overlay),
        peer_heard=amount(there.at_lower, left),
        peer_took=amount(there.at_overlay, there.at_lower),
        peer_answered=amount(there.answers_at_overlay, there.at_overlay),
        peer_replied=amount(there.answers_at_lower, there.answers_at_overlay),
        came_back=amount(back, left if there is _UNSEEN else there.answers_at_lower),
        delivered=amount(kernel.back_at_overlay, kernel.back_at_lower),
        echoed=amount(kernel.echoed, kernel.sent),
        injected_entered=amount(injected.at_overlay, injected.sent),
        injected_echoed=amount(injected.echoed, injected.sent),
        crafted_left=amount(crafted.at_lower, crafted.sent),
        crafted_echoed=amount(crafted.echoed, crafted.sent),
        framed_left=amount(framed.at_lower, framed.sent),
        framed_echoed=amount(framed.echoed, framed.sent),
        underlay_left=amount(underlay.at_lower, underlay.sent),
        underlay_echoed=amount(underlay.echoed, underlay.sent),
        known=amount(known.answered, known.sent) if known.sent >= LEAST_KNOWN else Amount.UNKNOWN,
        queue_drops=0 < missing <= seen.queue_dropped,
    )


_UNSEEN = PeerCounts(name=SeriesName.KERNEL)


def read_flows(signs: Signs) -> Flows:
    """Which flows die.

    Crafted packets leave from outer ports that the overlay device never uses, so each of them is a new flow to the
    network. Probes through the device may ride on outer flows that the network remembers.
    """
    if signs.echoed is Amount.ALL:
        return Flows.NONE
    if signs.known is Amount.ALL:
        return Flows.NEW
    if signs.echoed is Amount.NONE and signs.known is Amount.NONE:
        return Flows.ALL
    if signs.echoed is Amount.SOME and signs.crafted_echoed is Amount.NONE and signs.crafted_left is Amount.ALL:
        return Flows.NEW
    return Flows.SOME
