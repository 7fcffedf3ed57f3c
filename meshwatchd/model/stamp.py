"""STAMP as other makers speak it: packet formats, the settings of the reflector for them, and what it reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from meshwatchd.model.setting_types import OptionalPath

MAX_PREFIXES = 64
"""Each is up to 13 instructions of a socket filter, which has room for 4 096."""

MAX_PACKETS_PER_SECOND = 10_000
"""About half of one core, which the probes of the mesh need more."""


class StampMode(StrEnum):
    """The two packet formats of a STAMP session (RFC 8762 section 4)."""

    OPEN = "open"
    AUTHENTICATED = "authenticated"


class StampSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reflector for STAMP and TWAMP Light senders of other makers. It has nothing to do with the probes of the mesh.

    Attributes:
        listen: its UDP port, 0 for none; STAMP's own is 862 (RFC 8762 section 4.1).
        mode: open answers packets that nobody signed, authenticated only those signed with the key.
        key_file: the key shared with the senders, as it is: 16 bytes or more, mode 0400. In open mode it
            only protects TLVs, and may be left out.
        allow: prefixes whose senders are answered, as in ["198.51.100.7/32", "2001:db8:7::/64"]; whoever is not in
            them hears nothing.
        stateful: count answers in each session, so that a sender can tell on which way its packets are lost.
        packets_per_second: answers in all; what comes beyond gets none.
    """

    listen: Annotated[int, Meta(ge=0, le=65_535, description="0 switches it off")] = 0
    mode: StampMode = StampMode.OPEN
    key_file: OptionalPath = ""
    allow: Annotated[
        tuple[str, ...], Meta(max_length=MAX_PREFIXES, description="join them to larger prefixes where they touch")
    ] = ()
    stateful: bool = True
    packets_per_second: Annotated[int, Meta(ge=1, le=MAX_PACKETS_PER_SECOND)] = 1_000


class StampRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The reflector for other makers' senders refuses packets of a source for this reason; only the first is reported.

    With `sessions-full` a sender in open mode is still answered, by its own sequence numbers instead of a count.

    Attributes:
        source: the sender's address.
        reason: the counter `stamp-REASON` has all of them.
    """

    source: str
    reason: str
