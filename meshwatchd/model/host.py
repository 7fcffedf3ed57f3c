"""What a node's kernel is set to and has counted beside routes and devices."""

from __future__ import annotations

from typing import Final

import msgspec

STRICT: Final = 1
"""rp_filter (RFC 3704): packets whose source is not routed back by the same device are dropped; 0 is off, 2 loose."""


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """One look at sysctls and counters.

    Attributes:
        at_ns: CLOCK_MONOTONIC.
        is_forwarding: net.ipv4.ip_forward; None where it cannot be read.
        rp_filter: what is in force on each device that was asked about: the larger of conf.all and conf.DEV.
        unforwarding: of those devices, and of others asked about for that alone, the ones whose own forwarding is off.
        conntrack_count, conntrack_max: entries; both 0 without connection tracking.
        conntrack_drops: packets dropped because the table was full, since boot.
        conntrack_invalid: packets that belong to no connection, since boot.
        udp_checksum_errors: datagrams received with a wrong checksum, since boot.
        packets: received and sent by each device whose counters were asked for, since it was made.
    """

    at_ns: int
    is_forwarding: bool | None = None
    rp_filter: dict[str, int] = {}
    unforwarding: tuple[str, ...] = ()
    conntrack_count: int = 0
    conntrack_max: int = 0
    conntrack_drops: int = 0
    conntrack_invalid: int = 0
    udp_checksum_errors: int = 0
    packets: dict[str, tuple[int, int]] = {}
