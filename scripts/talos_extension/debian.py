"""Debian's packages, fetched and unpacked without being installed: as the machine's apt is configured."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import unquote

from scripts.talos_extension.errors import BuildError

T = TypeVar("T")

TOOLS: Final = {"apt-get": "apt", "apt-cache": "apt", "dpkg": "dpkg", "dpkg-deb": "dpkg"}
"""Commands and the packages they are in."""

DOCUMENTS: Final = "usr/share/doc"
_ARCHIVE: Final = re.compile(r"^'[^']*' (\S+_\S+_\S+\.deb) ", re.MULTILINE)
_DEPENDS: Final = re.compile(r"^[ |]*(?:Pre)?Depends: (\w\S*)$", re.MULTILINE)
"""Real packages; apt-cache writes virtual ones in angle brackets."""


def require_tools() -> None:
    """Look for the commands that are run here.

    Raises:
        BuildError: some are missing; the message names them and what to do.
    """
    missing = sorted(command for command in TOOLS if shutil.which(command) is None)
    if missing:
        packages = " ".join(sorted({TOOLS[command] for command in missing}))
        raise BuildError(
            f"lacking: {', '.join(missing)}; build on Debian or Ubuntu, or in a container of theirs, with: {packages}"
        )


def architecture() -> str:
    """This machine's, as Debian and OCI call it: amd64, arm64."""
    return _run("dpkg", "--print-architecture").strip()


class Packages:
    """Packages in a folder: fetched once, unpacked one beside the other.

    Args:
        folder: kept between builds; what is there already is not fetched again.
    """

    def __init__(self, folder: Path) -> None:
        self._archives, self._unpacked = folder / "archives", folder / "unpacked"
        self._archives.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._unpacked, ignore_errors=True)
        self._unpacked.mkdir()
        self._versions: dict[str, str] = {}
        # Each look takes half a second.
        self._beside: dict[str, list[str]] = {}

    def unpack(self, names: Sequence[str]) -> dict[str, Path]:
        """Fetch packages and unpack them; returns the folder of each.

        Raises:
            BuildError: apt-get could not fetch them.
        """
        wanted = [name for name in names if name not in self._versions]
        archives = _with_fresh_lists(lambda: self._fetch(wanted)) if wanted else {}
        for name, archive in archives.items():
            _run("dpkg-deb", "--extract", str(archive), str(self.folder(name)))
            self._versions[name] = unquote(archive.name.split("_")[1])
        return {name: self.folder(name) for name in names}

    def folder(self, name: str) -> Path:
        """Where a package is unpacked."""
        return self._unpacked / name

    def version(self, name: str) -> str:
        """An unpacked package's version."""
        return self._versions[name]

    def beside(self, name: str) -> list[str]:
        """The packages that one depends on."""
        if name not in self._beside:
            self._beside[name] = dependencies(name)
        return self._beside[name]

    def _fetch(self, names: Sequence[str]) -> dict[str, Path]:
        archives = self._locate(names)
        missing = [name for name, archive in archives.items() if not archive.exists()]
        if missing:
            _run("apt-get", "--quiet", "download", *missing, within=self._archives)
        return archives

    def _locate(self, names: Sequence[str]) -> dict[str, Path]:
        """The file of each package: of several versions the one that apt would install."""
        listing = _run("apt-get", "--print-uris", "download", *names)
        archives = {archive.split("_")[0]: self._archives / archive for archive in _ARCHIVE.findall(listing)}
        if unknown := sorted(set(names) - set(archives)):
            raise BuildError(f"apt-get knows nothing to download for {', '.join(unknown)}; run: apt-get update")
        return archives


def dependencies(package: str) -> list[str]:
    """What a package depends on: real packages, sorted, alternatives included.

    Raises:
        BuildError: there is no such package.
    """
    listing = _run("apt-cache", "depends", "--important", package)
    return sorted(set(_DEPENDS.findall(listing)) - {package})


def python_minor() -> str:
    """The version of this release's Python: "3.11".

    Raises:
        BuildError: there is none, or one that the daemon does not run with.
    """
    for name in _with_fresh_lists(lambda: dependencies("python3-minimal")):
        if found := re.fullmatch(r"python(3\.(\d+))-minimal", name):
            if int(found[2]) < 11:
                raise BuildError(f"this release's Python is {found[1]}; build on one with Python 3.11 or newer")
            return found[1]
    raise BuildError("python3-minimal depends on no interpreter; run: apt-get update")


def _with_fresh_lists(attempt: Callable[[], T]) -> T:
    """What an attempt gives, or a second one after fetching the package lists, where we may.

    They are missing on a new machine, and old ones name versions that the mirror has dropped.
    """
    try:
        return attempt()
    except BuildError:
        if os.geteuid() != 0:
            raise
        _run("apt-get", "--quiet", "update")
        return attempt()


def _run(*command: str, within: Path | None = None) -> str:
    ran = subprocess.run(command, cwd=within, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        said = (ran.stderr.strip() or ran.stdout.strip() or "nothing").splitlines()[-1]
        raise BuildError(f"{' '.join(command[:3])} ended with {ran.returncode}: {said}; run: apt-get update")
    return ran.stdout
