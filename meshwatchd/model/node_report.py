"""What one node advertises to all others about what it sees: how it fares, its verdicts, and who does not answer it.

It goes with every hello and decides nothing: it is for people, so that one command on any node shows the whole mesh.
"""

from __future__ import annotations

import msgspec


class AdvertisedVerdict(msgspec.Struct, frozen=True, array_like=True):
    """A verdict or finding that the node has made itself.

    Attributes:
        towards: the location whose traffic suffers; empty for what it found in its own kernel.
        fault: a code; another version may have codes that this one does not know.
        culprit: the node that has it; empty where none is named.
        peer: the node whose entry it is, or at the other end; empty where it is of no single one.
    """

    towards: str
    fault: str
    culprit: str = ""
    peer: str = ""


class AdvertisedSilence(msgspec.Struct, frozen=True, array_like=True):
    """A peer that does not answer, and the lowest layer on which it does not (`ids.Layer`)."""

    peer: str
    layer: int


class NodeReport(msgspec.Struct, frozen=True, array_like=True):
    """One report.

    Attributes:
        severity: `faults.Severity`; empty for a node that watches nothing.
        is_cut: there is more than was told.
    """

    severity: str = ""
    verdicts: tuple[AdvertisedVerdict, ...] = ()
    silences: tuple[AdvertisedSilence, ...] = ()
    is_cut: bool = False
