"""Requests that move or hold traffic: parameters and reply."""

from __future__ import annotations

import msgspec

from meshwatchd.adapters.control.varlink import Number


class FailoverParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Failover; without location the only one, without rank the best standby path."""

    location: str | None = None
    rank: Number | None = None
    dry_run: bool | None = None
    confirm_within_ns: Number | None = None


class OrderParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Pause, Drain, Pin and their ends, and of Confirm; each takes those that mean something to it.

    Attributes:
        location: the remote one; without it all of them, or for Pin the only one.
        rank: of Pin; the best standby path by default.
        name: whose order it is; without it an end is everybody's.
        duration_ns: an hour by default.
    """

    location: str | None = None
    rank: Number | None = None
    name: str | None = None
    reason: str | None = None
    duration_ns: Number | None = None
    dry_run: bool | None = None


class FailbackParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Failback; without location the only one."""

    location: str | None = None
    dry_run: bool | None = None


class OperateReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of everything that an operator asks for."""

    accepted: bool
    text: str
    operations: tuple[str, ...] = ()
