"""Who writes: one process of all, elected by a Lease as client-go's leaderelection does it.

No two clocks are compared. What counts is how long, by the own clock, a Lease has not changed: a holder whose renewals
are not seen for its own `leaseDurationSeconds` is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from meshwatchkube.cluster import Lease, LeaseSpec, render_time

SECOND = 1_000_000_000

OFFERED = "meshwatchd.io/without-daemon"
"""On a Lease whose holder has nothing to decide by: whoever has a daemon takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A Lease as it was read.

    Attributes:
        since_ns: monotonic instant at which this version of it was seen first.
    """

    lease: Lease
    since_ns: int


def note(before: Seen | None, lease: Lease, now: int) -> Seen:
    """Take in a Lease that was read; a version that was seen before keeps its instant."""
    if before is not None and before.lease.metadata.resource_version == lease.metadata.resource_version:
        return before
    return Seen(lease=lease, since_ns=now)


def is_free(seen: Seen, now: int) -> bool:
    """Whether nobody holds a Lease: it was given back, or its holder does not renew it."""
    spec = seen.lease.spec
    return not spec.holder_identity or now - seen.since_ns > (spec.lease_duration_seconds or 0) * SECOND


def is_offered(lease: Lease) -> bool:
    """Whether a process that has a daemon may take a Lease from its holder."""
    return OFFERED in (lease.metadata.annotations or {})


def offered(lease: Lease, *, is_offered: bool) -> Lease:
    """The Lease with that note on it, or without."""
    others = {name: value for name, value in (lease.metadata.annotations or {}).items() if name != OFFERED}
    notes = {**others, **({OFFERED: "true"} if is_offered else {})}
    return msgspec.structs.replace(lease, metadata=msgspec.structs.replace(lease.metadata, annotations=notes or None))


def held_by(lease: Lease, identity: str, *, duration_ns: int, unix_ns: int) -> Lease:
    """The Lease as its holder writes it, for the first time or again; memory in its annotations stays."""
    was, now = lease.spec, render_time(unix_ns)
    is_change = was.holder_identity != identity
    spec = LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=max(1, duration_ns // SECOND),
        acquire_time=now if is_change else was.acquire_time,
        renew_time=now,
        lease_transitions=(was.lease_transitions or 0) + bool(is_change and was.holder_identity),
    )
    return msgspec.structs.replace(lease, spec=spec)
