"""The last release, as it is kept for meshes of two versions."""

from __future__ import annotations

import compileall
import zipfile
from pathlib import Path

from tests.meta.tree import ROOT

RELEASES = ROOT / "tests/data/releases"


def last_version() -> str:
    """Its number, as the name of its wheel has it."""
    return _wheel().name.split("-")[1]


def unpack_last(folder: Path) -> Path:
    """Unpack it so that Python finds it there; returns the folder.

    It is compiled at once: the nodes of a mesh start together, and each would do so for itself.
    """
    with zipfile.ZipFile(_wheel()) as wheel:
        wheel.extractall(folder)
    assert compileall.compile_dir(folder, quiet=1, workers=0)
    return folder


def _wheel() -> Path:
    (wheel,) = RELEASES.glob("meshwatchd-*.whl")
    return wheel
