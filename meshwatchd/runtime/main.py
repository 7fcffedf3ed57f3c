"""The command `meshwatchd`."""

from __future__ import annotations

import argparse
import errno
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from meshwatchd import __version__
from meshwatchd.adapters.storage.mesh_secrets import read_secrets
from meshwatchd.config.keys import KEPT, is_missing, keep, read_stamp_key, service_user
from meshwatchd.config.load import DEFAULT_PATH, load, unreadable
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import Mode, Settings
from meshwatchd.runtime.boot import EXIT_BUG, EXIT_CONFIG, EXIT_OK, PYTHON_OPTIONS, Boot, Refusal, encode, hand_over
from meshwatchd.runtime.rest_check import check_rest, rest_lines
from meshwatchd.runtime.stderr import say
from meshwatchd.wire.auth import MeshKeys, MeshSecret

ENGINE = "meshwatchd.runtime.engine_process"

WRITABLE = ("/run/meshwatchd", "/var/lib/meshwatchd")
"""The unit's RuntimeDirectory= and StateDirectory=; all else is read-only to it (ProtectSystem=strict)."""


def become_engine(boot: Boot) -> int:
    """Replace this program by the engine, which then has nothing in memory of how its configuration was read."""
    command = [sys.executable, *PYTHON_OPTIONS, "-m", ENGINE, str(hand_over(boot))]
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606 - ourselves, with arguments of our own


def main(argv: Sequence[str] | None = None, become: Callable[[Boot], int] = become_engine) -> int:
    """Load the configuration and become the engine.

    Returns:
        only when there is nothing to run: 0 when that was the wish, 2 for a configuration that cannot be
        used, 70 for an error nobody expected. The engine's own status is 0 after an orderly stop and 1 when
        another meshwatchd runs here.
    """
    arguments = make_parser().parse_args(argv)
    if arguments.keep_keys is not None:
        # Copies are made of the files, and these are what is checked: not the copies of an earlier start.
        os.environ.pop(KEPT, None)
    try:
        if arguments.hand_over is not None:
            return _hand_over(arguments.config, arguments.hand_over)
        if arguments.dump_config:
            return _dump(load(arguments.config))
        if arguments.keep_keys is not None and not arguments.check:
            return keep_keys(arguments.config, arguments.keep_keys)
        boot = read_boot(arguments.config)
        if not arguments.check:
            return become(boot)
        check_for_service(boot)
        sys.stdout.writelines(f"{line}\n" for line in rest_lines(boot.settings.probe))
        return EXIT_OK if arguments.keep_keys is None else keep_keys(arguments.config, arguments.keep_keys)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CONFIG
    # The one place where everything is caught: whoever supervises us must see a status and one line.
    except Exception as error:  # noqa: BLE001
        say("engine.crashed", level="error", error=repr(error), trace=traceback.format_exc())
        return EXIT_BUG


def make_parser() -> argparse.ArgumentParser:
    """What meshwatchd understands on its command line."""
    about = "Detects, names and heals partial failures of WireGuard and VXLAN meshes."
    parser = argparse.ArgumentParser(prog="meshwatchd", description=about)
    parser.add_argument("--config", type=Path, default=DEFAULT_PATH, help="configuration file (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="check the configuration and the key, then exit")
    parser.add_argument("--dump-config", action="store_true", help="print the effective configuration")
    # For the unit, as root: the daemon has a user of its own, and the keys are root's.
    parser.add_argument("--keep-keys", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    # For the engine, which lets a program of its own read the file again on SIGHUP.
    parser.add_argument("--hand-over", type=int, metavar="FD", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="version", version=f"meshwatchd {__version__}")
    return parser


def read_boot(config: Path) -> Boot:
    """Read and check everything the engine runs on.

    Raises:
        ConfigError: the first thing wrong, with the file, the key's path and the remedy.
    """
    settings = load(config)
    if settings.probe.wan_kbit or settings.probe.lan_kbit:
        check_rest(str(config), settings.probe)
    secrets = secrets_of(settings)
    if secrets:
        try:
            MeshKeys(settings.daemon.node, secrets)
        except ValueError as error:
            problem, _, remedy = str(error).partition("; ")
            raise ConfigError(str(config), "auth", problem, remedy) from error
    return Boot(config=str(config), settings=settings, secrets=secrets, stamp_key=_read_stamp_key(settings))


def secrets_of(settings: Settings) -> tuple[MeshSecret, ...]:
    """The mesh keys; none for a daemon fresh from its package, which observes and has nobody to authenticate.

    Raises:
        ConfigError: a key is missing, unreadable, open to others, or no key.
    """
    is_fresh = not settings.mesh.location and settings.daemon.mode is Mode.OBSERVE
    return () if is_fresh and is_missing(Path(settings.auth.key_file)) else read_secrets(settings.auth)


def check_for_service(boot: Boot) -> None:
    """Look at what the service would look at, by its own user; says where there is no key, and what it may not write.

    Raises:
        ConfigError: that user cannot read the configuration.
    """
    auth, user = boot.settings.auth, service_user()
    if not boot.secrets:
        sys.stdout.write(f"{boot.config}: no mesh key: {auth.key_file} is missing, so the daemon will watch nothing\n")
    if user is None or os.geteuid() != 0:
        return
    can_read = subprocess.run(
        ["/bin/sh", "-c", '[ -r "$0" ]', boot.config], user=user.pw_uid, group=user.pw_gid, extra_groups=(), check=False
    )
    if can_read.returncode != 0:
        raise unreadable(Path(boot.config), os.strerror(errno.EACCES))
    settings = boot.settings
    written = {
        "daemon.state_dir": settings.daemon.state_dir,
        "daemon.runtime_dir": settings.daemon.runtime_dir,
        "metrics.textfile": settings.metrics.textfile,
        "standby.private_key_file": settings.standby.private_key_file,
    }
    remedy = f"write a path below {' or '.join(WRITABLE)}, or allow it by ReadWritePaths= in a drop-in"
    for key, path in written.items():
        if path and not any(Path(path).is_relative_to(folder) for folder in WRITABLE):
            sys.stdout.write(f"{boot.config}: {key}: the service may not write {path}; {remedy}\n")


def keep_keys(config: Path, folder: Path) -> int:
    """Copy the keys that a configuration names for the daemon's user; those that cannot be used are told and left out.

    Returns:
        2 where one was left out. A configuration that cannot be used is the daemon's to report.
    """
    try:
        settings = load(config)
    except ConfigError:
        return EXIT_CONFIG
    named = {
        "auth.key_file": settings.auth.key_file,
        "auth.accepted_key_file": settings.auth.accepted_key_file,
        "stamp.key_file": settings.stamp.key_file,
    }
    status = EXIT_OK
    for key, path in named.items():
        (folder / key).unlink(missing_ok=True)
        try:
            if path and not is_missing(Path(path), key):
                keep(Path(path), key, folder)
        except ConfigError as error:
            sys.stderr.write(f"{error}\n")
            status = EXIT_CONFIG
    return status


def _hand_over(config: Path, fd: int) -> int:
    """Tell an engine that runs what the file says at present."""
    word: Boot | Refusal
    try:
        word, status = read_boot(config), EXIT_OK
    except ConfigError as error:
        word, status = Refusal(reason=str(error)), EXIT_CONFIG
    with open(fd, "wb") as pipe:
        pipe.write(encode(word))
    return status


def _read_stamp_key(settings: Settings) -> bytes | None:
    """The key shared with other makers' senders, where they are answered and one is named."""
    stamp = settings.stamp
    return read_stamp_key(Path(stamp.key_file)) if stamp.listen and stamp.key_file else None


def _dump(settings: Settings) -> int:
    # Writing TOML is no business of a running engine.
    from meshwatchd.config.dump import dump_effective  # noqa: PLC0415

    sys.stdout.write(dump_effective(settings))
    return EXIT_OK


if __name__ == "__main__":
    # What is buffered is written; what is left of the heap is the kernel's to reclaim.
    status = main()
    sys.stdout.flush()
    os._exit(status)
