"""What decisions ask for; the two adapters do it, and say what they could not do."""

from __future__ import annotations

from dataclasses import dataclass

from meshwatchkube.cluster import Condition, Taint
from meshwatchkube.leaders import Mark
from meshwatchkube.memory import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Remember:
    """Write the memory into the Lease."""

    memory: Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMark:
    """Give a node a label or annotation, or take it, if the node still is in that version.

    Attributes:
        is_dry: ask the API whether it would do it (`dryRun=All`).
    """

    mark: Mark
    version: str
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHook:
    """Call the program that moves leaders where no API does."""

    location: str
    former: str
    leader: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConditions:
    """Set conditions of ours on a node's status."""

    node: str
    conditions: tuple[Condition, ...]
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTaint:
    """Give a node these taints and no others, if it still is in that version."""

    node: str
    version: str
    taints: tuple[Taint, ...]
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCordon:
    """Mark a node unschedulable, or take our mark away, if the node still is in that version."""

    node: str
    version: str
    is_cordoned: bool
    fault: str = ""
    is_dry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """An Event on a Node."""

    node: str
    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """Have the daemon of this node move traffic to a path and keep it there for a while."""

    remote: str
    rank: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpin:
    """End our pin: traffic comes home when the primary path is good."""

    remote: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Have the daemon of this node taken out of service, or put back."""

    is_drained: bool


Steered = Pin | Unpin | Drain
"""Asked of the daemon on this node."""

Written = SetMark | SetConditions | SetTaint | SetCordon | Tell
"""Asked of the API, by the holder of the Lease alone."""

Action = Steered | Written | Remember | RunHook
