"""What ARP says about one address of a LAN: the part of the underlay that a node can ask about."""

from __future__ import annotations

import msgspec


class ArpAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Answers to probes for one address.

    Attributes:
        macs: those that answered probes to everybody.
        asked: how many probes were sent to everybody, and as many to the expected MAC alone; 0 where none is expected.
        heard: how many probes to everybody an expected MAC answered.
        heard_alone: how many probes to the expected MAC alone were answered.
    """

    macs: tuple[str, ...] = ()
    asked: int = 0
    heard: int = 0
    heard_alone: int = 0
