"""`meshwatchctl rollback`: goes back to the version that the last `make install` has replaced.

PREFIX/lib/meshwatchd/versions/V    complete environments
PREFIX/lib/meshwatchd/current       -> versions/V, the one in force
PREFIX/lib/meshwatchd/previous      -> versions/V, the one before
PREFIX/lib/systemd/system           a copy of the unit of the one in force (scripts/put-unit says why no link)
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import click

from meshwatchd.cli.client import EXIT_NO_PERMISSION
from meshwatchd.cli.main import Terminal
from meshwatchd.config.load import DEFAULT_PATH
from meshwatchd.model.errors import ControlError

EXIT_FAILED = 1
_UNIT = Path("lib/systemd/system/meshwatchd.service")
"""Of a version, and of PREFIX."""


@click.command("rollback")
@click.option("--config", type=click.Path(path_type=Path), default=DEFAULT_PATH, help="What the daemon runs on.")
@click.pass_obj
def rollback(terminal: Terminal, *, config: Path) -> int:
    """Put the version before the last `make install` in force again. Twice comes back to where it was.

    What runs goes on until it is restarted. Exit status: 0 done, 1 there is no version before or it refuses the
    configuration, 77 not allowed.
    """
    home = _home(Path(sys.prefix))
    former, later = (_version(home / link) for link in ("current", "previous"))
    _check(home, config)
    try:
        _point(home / "current", later)
        _point(home / "previous", former)
        _put_unit(home)
    except PermissionError as error:
        raise ControlError(EXIT_NO_PERMISSION, f"you may not change {home}; use sudo") from error
    next_step = "next: systemctl daemon-reload && systemctl restart meshwatchd"
    text = f"{later.name} is in force, {former.name} is kept; {next_step}\n"
    terminal.answer({"current": later.name, "previous": former.name}, lambda: text)
    return 0


def _home(prefix: Path) -> Path:
    """The folder that holds the versions, one of which an interpreter is from: as its own environment, or within it."""
    return next((each.parent for each in prefix.parents if each.name == "versions"), prefix)


def _version(link: Path) -> Path:
    """Where a link leads, as it is written."""
    try:
        return link.readlink()
    except OSError as error:
        remedy = "install it again, or its package: apt-get install meshwatchd=VERSION, or dnf downgrade meshwatchd"
        raise ControlError(EXIT_FAILED, f"no earlier version is kept here ({link} is missing); {remedy}") from error


def _check(home: Path, config: Path) -> None:
    """Have the version before look at the configuration: one that it refuses would leave the node without a daemon."""
    command = [str(home / "previous/bin/meshwatchd"), "--check", "--config", str(config)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        reason = checked.stderr.strip() or f"exit status {checked.returncode}"
        raise ControlError(EXIT_FAILED, f"the version before cannot be used, nothing was changed: {reason}")


def _put_unit(home: Path) -> None:
    """Put the unit of the version in force where systemd looks for it; one that has none leaves that of the other."""
    with contextlib.suppress(FileNotFoundError):
        content = (home / "current" / _UNIT).read_bytes()
        draft = home.parent / _UNIT.with_name(f"{_UNIT.name}.new").relative_to("lib")
        draft.write_bytes(content)
        draft.chmod(0o644)
        draft.replace(draft.with_name(_UNIT.name))


def _point(link: Path, target: Path) -> None:
    """Replace a link as a whole: what starts at this moment finds the one or the other."""
    draft = link.with_name(f".{link.name}.new")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)
