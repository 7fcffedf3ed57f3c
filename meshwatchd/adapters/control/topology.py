"""Which mesh a node is in and why: the reply of Topology."""

from __future__ import annotations

import msgspec

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.status import PairStatus


class TopologyReply(msgspec.Struct, frozen=True, kw_only=True):
    """Of Topology; no pairs before the engine has reported."""

    view: LocalView
    pairs: tuple[PairStatus, ...]
