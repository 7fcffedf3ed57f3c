"""Whether what steers discovery makes sense: addresses to greet, names, and the number of backups."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from meshwatchd.config.values import Finding, check_duration, check_endpoint, check_name, check_number
from meshwatchd.model.settings import MINUTE, Settings

MAX_PEERS = 64
"""Each is greeted for ever; the rest of a mesh is found from a few."""

MOST_STANDBYS = 1
"""Two locations with a leader and two backups each would have nine paths, and a pair has ports and tables for eight."""

_HIGHEST_UID = 2**32 - 2

_SHORTEST_FORGET_NS = 10 * MINUTE
"""Shorter than a reboot and a node would be forgotten by each."""
_LONGEST_FORGET_NS = 365 * 24 * 60 * MINUTE


def check_discovery(settings: Settings) -> Iterator[Finding]:
    """Everything under [discovery]."""
    discovery = settings.discovery
    yield from _check_peers(discovery.peers)
    if discovery.location:
        yield from check_name("discovery.location", discovery.location)
    yield from check_number(
        "discovery.standbys", discovery.standbys, least=0, most=MOST_STANDBYS, why="a pair of locations has 8 paths"
    )
    for index, name in enumerate(discovery.forbid):
        yield from check_name(f"discovery.forbid[{index}]", name)
    if settings.daemon.node in discovery.forbid:
        yield Finding(
            key="discovery.forbid",
            problem=f"{settings.daemon.node} is this node itself",
            remedy="take it out, or stop the daemon here",
        )
    if discovery.endpoint:
        yield from check_endpoint("discovery.endpoint", discovery.endpoint)
    for index, uid in enumerate(discovery.source_uids):
        why = "that is the highest user number"
        yield from check_number(f"discovery.source_uids[{index}]", uid, least=0, most=_HIGHEST_UID, why=why)
    yield from check_duration(
        "discovery.forget", discovery.forget, shortest_ns=_SHORTEST_FORGET_NS, longest_ns=_LONGEST_FORGET_NS
    )


def _check_peers(peers: tuple[str, ...]) -> Iterator[Finding]:
    if len(peers) > MAX_PEERS:
        yield Finding(
            key="discovery.peers",
            problem=f"{len(peers)} addresses are listed",
            remedy=f"keep at most {MAX_PEERS}: one or two of each location will do",
        )
    for index, text in enumerate(peers):
        try:
            ipaddress.ip_address(text)
        except ValueError:
            yield Finding(
                key=f"discovery.peers[{index}]",
                problem=f"{text!r} is no address",
                remedy="write IPv4 or IPv6 without port, as in 10.2.0.11",
            )
