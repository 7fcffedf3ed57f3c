"""Requests that move or hold traffic: parameters, reply, and their part of the interface."""

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


_MOVES = """\

# An operator's standing order. Kinds: pause, drain, pin, confirm. An empty location stands for all; the rank is of
# when the order was given, the relays say which path was meant.
type Order (
  kind: string,
  name: string,
  until_ns: int,
  location: string,
  rank: ?int,
  reason: string,
  relays: []string
)

# Move the traffic to a location to a standby path: the best one, or the one of that rank.
# Root only, but for `dry_run`, which tells the operations and changes nothing.
# With `confirm_within_ns` it is undone unless Confirm comes in time.
method Failover(location: ?string, rank: ?int, dry_run: ?bool, confirm_within_ns: ?int) -> (
  accepted: bool,
  text: string,
  operations: []string
)

# Move the traffic to a location back to the mesh's own path. Root only, but for `dry_run`.
method Failback(location: ?string, dry_run: ?bool) -> (
  accepted: bool,
  text: string,
  operations: []string
)
"""

# One signature for all of them: a client sends what the command line was given, and each takes what it knows.
_HOLD = """
# {about}
method {verb}(
  location: ?string,
  rank: ?int,
  name: ?string,
  reason: ?string,
  duration_ns: ?int,
  dry_run: ?bool
) -> (accepted: bool, text: string, operations: []string)
"""
_HOLDS = {
    "Confirm": "Keep what Failover has done; root only, as are all standing orders, but for `dry_run`.",
    "Pause": "Move nothing to a location, or nothing at all, but what operators ask for.",
    "Resume": "End pauses: of a location, of a name, or all.",
    "Drain": "Take this node out of service: traffic moves off it first, and its silence is no fault.",
    "Undrain": "Put this node into service again.",
    "Pin": "Move traffic to a standby path and make it the one to come back to.",
    "Unpin": "End pins: of a location, of a name, or all.",
}
OPERATOR_REQUESTS = _MOVES + "".join(_HOLD.format(verb=verb, about=about) for verb, about in _HOLDS.items())
