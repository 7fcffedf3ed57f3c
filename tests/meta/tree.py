"""The repository as the meta tests see it: what would be committed, and nothing else."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Where there is no git (a source tarball), the walk leaves out what .gitignore would.
_GENERATED_FOLDERS = frozenset(
    {".git", ".venv", "build", "dist", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
    | {".import_linter_cache", ".hypothesis"}
)


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file that is, or would be, committed; sorted, absolute."""
    # safe.directory: root may test a tree that belongs to the user who called sudo.
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return tuple(sorted(_walk()))
    paths = (ROOT / name for name in listing.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


def python_files(*folders: str) -> list[Path]:
    """The Python files below the given folders of the repository."""
    roots = [ROOT / folder for folder in folders]
    return [
        path for path in repository_files() if path.suffix == ".py" and any(folder in path.parents for folder in roots)
    ]


def name_of(path: Path) -> str:
    """The path as a reader of a failure wants it: from the repository's root."""
    return path.relative_to(ROOT).as_posix()


def _walk() -> list[Path]:
    found: list[Path] = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in _GENERATED_FOLDERS and not name.endswith(".egg-info")]
        found.extend(Path(folder, name) for name in files)
    return found
