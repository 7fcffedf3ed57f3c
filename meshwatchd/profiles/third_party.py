"""What a package offers under the entry-point group `meshwatchd.profiles`: a look, and the interface it is made for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources

INTERFACE: Final = 1
"""Goes up when a look that was right is no longer: when an argument or a field changes its meaning or goes away."""


class MeshKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of mesh, as a third party offers it.

    Attributes:
        interface: the number of `INTERFACE` that the look was written for, as a literal.
        look: as those of `profiles.compose.LOOKS`.
    """

    interface: int
    look: Callable[[Snapshot, Sources, MeshSettings, NodeName], LocalView]
