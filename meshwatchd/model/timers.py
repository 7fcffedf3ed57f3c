"""The probe timers of the profiles."""

from __future__ import annotations

import msgspec

from meshwatchd.model.settings import MS, ProbeProfile


class Timers(msgspec.Struct, frozen=True, kw_only=True):
    """The probe timers of one profile, in nanoseconds.

    Attributes:
        interval_ns: between probes of one session on the path in use.
        watch_ns: between probes of a standby, pinned or segment session: often enough to know it good, at a fraction
            of the packets.
        miss_ns: shortest wait for an answer before a probe counts as missed.
        burst_gap_ns: between the probes of a confirm burst.
        silence_ns: how long everything on a path must be missing before it is condemned; a tunnel that is stalled for
            less is left alone.
        selective_ns: the same where old flows still pass: then the path is not stalled.
        calm_miss_ns, calm_silence_ns, calm_selective_ns: the three on a leg that is trusted, because it has shown for a
            minute that it does not stall (`session.rtt_estimator`). The wait has to cover the round trip and two
            machines that are late by a few milliseconds; the hold-off, one stall of those machines that no answer has
            told of.
    """

    interval_ns: int
    watch_ns: int
    miss_ns: int
    burst_gap_ns: int
    silence_ns: int
    selective_ns: int
    calm_miss_ns: int
    calm_silence_ns: int
    calm_selective_ns: int


TIMERS = {
    ProbeProfile.FAST: Timers(
        interval_ns=20 * MS,
        watch_ns=100 * MS,
        miss_ns=15 * MS,
        burst_gap_ns=1 * MS,
        silence_ns=25 * MS,
        selective_ns=15 * MS,
        calm_miss_ns=6 * MS,
        calm_silence_ns=10 * MS,
        calm_selective_ns=10 * MS,
    ),
    ProbeProfile.DEFAULT: Timers(
        interval_ns=50 * MS,
        watch_ns=200 * MS,
        miss_ns=30 * MS,
        burst_gap_ns=1 * MS,
        silence_ns=70 * MS,
        selective_ns=30 * MS,
        calm_miss_ns=10 * MS,
        calm_silence_ns=20 * MS,
        calm_selective_ns=20 * MS,
    ),
    ProbeProfile.WAN: Timers(
        interval_ns=200 * MS,
        watch_ns=800 * MS,
        miss_ns=400 * MS,
        burst_gap_ns=3 * MS,
        silence_ns=600 * MS,
        selective_ns=300 * MS,
        calm_miss_ns=150 * MS,
        calm_silence_ns=250 * MS,
        calm_selective_ns=150 * MS,
    ),
}
"""Three sets; a fast one finds a fault within two or three of its intervals and takes shorter stalls for faults.

But for `wan`, whose links stall for long, an interval, the wait and the hold-off together are the detection time of BFD
with a multiplier of 3 (RFC 5880 section 6.8.4): no leg has to be trusted for that.
"""
