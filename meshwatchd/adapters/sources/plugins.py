"""Profiles of third parties: what packages offer under the entry-point group `meshwatchd.profiles`."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from meshwatchd.model.discovery import Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.mesh_profile import PROFILE_GROUP
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import INTERFACE, MeshKind
from meshwatchd.profiles.compose import JOINING, LOOKS, Look

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = PROFILE_GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The profiles that take part.

    Attributes:
        looks: the built-in ones and those of third parties by name, the outermost first. One that cannot be used takes
            part all the same: it says why it does not hold.
        problems: what cannot be used of third parties: where it is, and what is wrong with what to do about it.
    """

    looks: Mapping[str, Look]
    problems: Mapping[str, str]


def load(found: Iterable[EntryPoint] | None = None) -> Loaded:
    """Ask the installed packages once."""
    outer = {name: look for name, look in LOOKS.items() if name in JOINING}
    asked = _ask(found)
    return Loaded(
        looks={**outer, **{name: look for name, (look, _) in asked.items()}, **LOOKS},
        problems={name: problem for name, (_, problem) in asked.items() if problem},
    )


def _ask(found: Iterable[EntryPoint] | None) -> Mapping[str, tuple[Look, str]]:
    """For each profile that is offered its look, and what is wrong with it; empty for nothing."""
    points = sorted(_offered() if found is None else found, key=lambda point: (point.name, point.value))
    counts = Counter(point.name for point in points)
    asked: dict[str, tuple[Look, str]] = {}
    for point in points:
        if point.name in LOOKS:
            problem = "its name is that of a built-in profile, which is used: remove the package"
        elif counts[point.name] > 1:
            problem = f"{counts[point.name]} packages offer this name, and none of them is used: remove all but one"
        else:
            look, problem = _take(point)
            asked[_place(point) if problem else point.name] = look, problem
            continue
        asked[_place(point)] = _failing(point, problem), problem
    return asked


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


def _take(point: EntryPoint) -> tuple[Look, str]:
    """A stranger's look, which cannot do more harm than not to hold; and what is wrong with it."""
    try:
        offered = point.load()
    except Exception as error:  # noqa: BLE001  # whatever a stranger's module does on import
        problem = f"cannot be loaded: {_named(error)}; mend or remove the package"
        return _failing(point, problem), problem
    look = offered.look if isinstance(offered, MeshKind) else offered
    problem = ""
    if isinstance(offered, MeshKind) and offered.interface != INTERFACE:
        problem = f"is for interface {offered.interface} of profiles, and this is {INTERFACE}: install a version for it"
    elif not callable(look) or isinstance(look, type):
        problem = f"is an object of type {type(offered).__name__}; offer a meshwatchd.profiles.MeshKind, or a function"
    return (_failing(point, problem) if problem else _guarded(point, look)), problem


def _guarded(point: EntryPoint, look: Callable[..., object]) -> Look:
    """A stranger's look that cannot do more harm than not to hold."""

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
    finding = Finding(source=_place(point), text=problem)
    return LocalView(profiles=(), node=node, why=(finding,))


def _place(point: EntryPoint) -> str:
    """Which profile, and where it is: its object, its package and the folder that it is installed in."""
    dist = point.dist
    package = f" of {dist.name} {dist.version} in {dist.locate_file('')}" if dist is not None else ""
    return f"profile {point.name} ({point.value}{package})"


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
