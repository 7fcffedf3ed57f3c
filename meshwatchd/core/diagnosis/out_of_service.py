"""Peers that people have taken out of service: their silence is no fault, and hides none of others."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from meshwatchd.core.diagnosis.evidence import Evidence
from meshwatchd.core.diagnosis.service_canaries import NAMELESS


def without(evidence: Evidence, is_out: Callable[[str], bool]) -> Evidence:
    """The evidence without what is silent at peers that are out of service.

    Rules name the peer that is first in a list: one that is off on purpose would stand for all others in it. A fault of
    discovery, in which the canary's node has no part, is kept.
    """
    # Asked ten times a second for each pair, and nearly always nothing is silent.
    if not (evidence.silent_ip6 or evidence.silent_canaries or evidence.silent_services or evidence.services):
        return evidence
    return replace(
        evidence,
        silent_ip6=tuple((layer, peer) for layer, peer in evidence.silent_ip6 if not is_out(peer)),
        silent_canaries=tuple((name, node) for name, node in evidence.silent_canaries if not is_out(node)),
        silent_services=tuple(each for each in evidence.silent_services if not is_out(each.node)),
        services=tuple(each for each in evidence.services if each.fault in NAMELESS or not is_out(each.node)),
    )
