"""The reply to Status, apart from the interface: `meshwatchctl status` imports no more than it shows."""

from __future__ import annotations

import msgspec

from meshwatchd.model.status import Status


class StatusReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Status."""

    status: Status
