"""`meshwatchctl sweep`: works without a daemon, and only without one."""

from __future__ import annotations

from pathlib import Path

import click

from meshwatchd.adapters.process import LOCK_NAME, is_locked
from meshwatchd.cli.client import Client
from meshwatchd.cli.main import Terminal
from meshwatchd.config.load import DEFAULT_PATH, load
from meshwatchd.model.errors import ConfigError, ControlError, MeshwatchError
from meshwatchd.model.settings import Settings

EXIT_FAILED = 1
EXIT_CONFIG = 2


@click.command("sweep")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Show what would be removed and change nothing.")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help=f"Where the numbers of our tables and rules are set (default: {DEFAULT_PATH}, if it exists).",
)
@click.pass_obj
def sweep(terminal: Terminal, *, is_dry_run: bool, config: Path | None) -> int:
    """Remove every rule, route and device of meshwatchd from the kernel. Root only; stop the daemon first.

    Only what carries our mark is removed; what the mesh itself has put there is never touched.
    Exit status: 0 done, 1 not everything could be removed, 2 the configuration cannot be used.
    """
    try:
        settings = _load(config)
    except ConfigError as error:
        click.echo(f"meshwatchctl: {error}", err=True)
        return EXIT_CONFIG
    if not is_dry_run and _is_running(Path(settings.daemon.runtime_dir), terminal.socket):
        click.echo("meshwatchctl: meshwatchd is running and would put all of it back; stop it first", err=True)
        return EXIT_FAILED
    try:
        removed = _sweep(settings, is_dry_run=is_dry_run)
    except MeshwatchError as error:
        click.echo(f"meshwatchctl: {error}", err=True)
        return EXIT_FAILED
    word = "would remove" if is_dry_run else "removed"
    text = "".join(f"{word} {what}\n" for what in removed) or "nothing of meshwatchd is in the kernel\n"
    terminal.answer({"dry_run": is_dry_run, "removed": removed}, lambda: text)
    return 0


def _load(config: Path | None) -> Settings:
    """The settings, or the defaults where no file was named and none is there."""
    if config is None and not DEFAULT_PATH.exists():
        return Settings()
    return load(config or DEFAULT_PATH)


def _is_running(folder: Path, socket: Path) -> bool:
    """Whether an engine has the lock of a runtime directory, or a daemon answers.

    The lock tells more: an agent that is wedged, being restarted or has too many clients answers nobody, and the engine
    beside it would still put everything back.
    """
    return is_locked(folder / LOCK_NAME) or any(_answers(each) for each in (folder / "control.sock", socket))


def _answers(socket: Path) -> bool:
    try:
        Client(socket).call("org.varlink.service.GetInfo")
    except ControlError:
        return False
    return True


def _sweep(settings: Settings, *, is_dry_run: bool) -> list[str]:
    from meshwatchd.adapters.netlink import sweep as kernel  # noqa: PLC0415 - pyroute2 is slow to import

    return kernel.sweep(settings.kernel, dry_run=is_dry_run, state_dir=Path(settings.daemon.state_dir))
