"""What can be asked about where packets die: parameters and reply."""

from __future__ import annotations

import msgspec

from meshwatchd.model.bisection import BisectResult


class BisectParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of Bisect."""

    node: str


class BisectReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Bisect."""

    result: BisectResult
