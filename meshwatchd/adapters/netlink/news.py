"""What the mirror tells of: objects of ours that somebody removed, and what was done to the mesh's own device."""

from __future__ import annotations

from dataclasses import dataclass

from meshwatchd.model.events import MeshStirred
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.snapshot import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An object with our mark was removed; `text` is how `ip` would say it."""

    text: str
    rule: Rule | None = None
    route: Route | None = None
    device: str | None = None


def stirred(device: str, before: Link | None, after: Link | None) -> MeshStirred | None:
    """Whether the mesh's own device came, went, or changed its flag; its MTU and the like are nobody's business."""
    if device not in {link.name for link in (before, after) if link is not None}:
        return None
    was_up, is_up = before is not None and before.is_up, after is not None and after.is_up
    if was_up is is_up and before is not None and after is not None:
        return None
    is_rebuilding = after is not None and (before is None or is_up)
    word = "was made or brought up" if is_rebuilding else "went down or away"
    return MeshStirred(what=f"{device} {word}", is_rebuilding=is_rebuilding)
