"""Profiles of third parties: functions that packages offer under the entry-point group `meshwatchd.profiles`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from meshwatchd.model.discovery import Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import PROFILE_GROUP
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles.compose import LOOKS, Look

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = PROFILE_GROUP


def load(found: Iterable[EntryPoint] | None = None) -> Mapping[str, Look]:
    """The built-in looks, and behind them those of third parties by name.

    One that cannot be loaded, or has the name of a built-in one, takes part all the same: it says why it does not hold.

    Args:
        found: entry points; for tests. None asks the installed packages.
    """
    looks = dict(LOOKS)
    for point in sorted(_offered() if found is None else found, key=lambda point: point.name):
        if point.name in LOOKS:
            looks[f"{point.name} of {point.value}"] = _failing(point, "its name is that of a built-in profile")
            continue
        try:
            looks[point.name] = _guarded(point, point.load())
        except Exception as error:  # noqa: BLE001  # whatever a stranger's module does on import
            looks[point.name] = _failing(point, f"cannot be loaded: {_named(error)}")
    return looks


def _offered() -> Iterable[EntryPoint]:
    """Those of installed packages. Looked for by hand first: their reader weighs 3 MiB, and few nodes have any."""
    files = (file for folder in sys.path for file in Path(folder).glob("*-info/entry_points.txt"))
    if not any(_mentions_group(file) for file in files):
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)


def _mentions_group(file: Path) -> bool:
    """Whether a package may offer profiles; one that cannot be read offers none, as for the reader of packages."""
    with contextlib.suppress(OSError):
        return GROUP in file.read_text(errors="replace")
    return False


def _guarded(point: EntryPoint, look: object) -> Look:
    """A stranger's look that cannot do more harm than not to hold."""
    if not callable(look):
        return _failing(point, "is no function")

    def guarded(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
        try:
            view = look(snapshot, sources, declared, node)
        except Exception as error:  # noqa: BLE001  # the agent must not end for it
            return _reason(point, node, f"failed: {_named(error)}")
        return view if isinstance(view, LocalView) else _reason(point, node, "answered with no LocalView")

    return guarded


def _failing(point: EntryPoint, problem: str) -> Look:
    return lambda _snapshot, _sources, _declared, node: _reason(point, node, problem)


def _reason(point: EntryPoint, node: NodeName, problem: str) -> LocalView:
    finding = Finding(source=f"profile {point.name} ({point.value})", text=problem)
    return LocalView(profiles=(), node=node, why=(finding,))


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
