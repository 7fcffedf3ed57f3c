"""The configuration file, the keys it names, and what it leaves unwatched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from meshwatchd.config.keys import read_mesh_key, read_stamp_key
from meshwatchd.config.load import DEFAULT_PATH, load
from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import Mode, Settings


def check_configuration(path: Path | None) -> tuple[Settings, list[Check]]:
    """The settings, or the defaults where the file cannot be used, and what is to be said of the file."""
    try:
        settings = load(path or DEFAULT_PATH)
    except ConfigError as error:
        return Settings(), [_complaint("configuration", error)]
    text = f"{path or DEFAULT_PATH}: node {settings.daemon.node}, mode {settings.daemon.mode}"
    return settings, [Check(area="configuration", state=CheckState.OK, text=text), *_gaps(settings)]


def _gaps(settings: Settings) -> Iterator[Check]:
    """What is legal and may not be meant."""
    if settings.daemon.mode is not Mode.ENFORCE:
        text = f"mode {settings.daemon.mode} reports faults and moves no traffic"
        remedy = 'set daemon.mode = "enforce", then run: systemctl restart meshwatchd'
        yield Check(area="configuration", state=CheckState.NOTE, text=text, remedy=remedy)
    if not settings.probe.canary:
        text = "no canary is declared: faults between a node and its pods stay unseen"
        remedy = "declare [[probe.canary]] for a pod of each location, as the sample shows"
        yield Check(area="configuration", state=CheckState.NOTE, text=text, remedy=remedy)


def check_keys(settings: Settings) -> Iterator[Check]:
    """Whether each key can be read, is a key, and is read by nobody else."""
    auth, stamp = settings.auth, settings.stamp
    yield _try("auth.key_file", auth.key_file, read_mesh_key)
    if auth.accepted_key_file:
        name = "auth.accepted_key_file"
        yield _try(name, auth.accepted_key_file, lambda path: read_mesh_key(path, key=name))
    if stamp.listen and stamp.key_file:
        yield _try("stamp.key_file", stamp.key_file, read_stamp_key)


def _try(name: str, path: str, read: Callable[[Path], bytes]) -> Check:
    try:
        read(Path(path))
    except ConfigError as error:
        if isinstance(error.__cause__, PermissionError) and os.geteuid() != 0:
            # As it should be: the daemon says on its own when it cannot use its key.
            text = f"{name}: only root can look at {path}"
            return Check(area="key", state=CheckState.NOTE, text=text, remedy="sudo meshwatchctl doctor")
        return _complaint("key", error)
    return Check(area="key", state=CheckState.OK, text=f"{name}: {path} is a key that root alone can read")


def _complaint(area: str, error: ConfigError) -> Check:
    place = f"{error.path}: {error.key}" if error.key else error.path
    return Check(
        area=area, state=CheckState.ERROR, text=f"{place}: {error.problem}", remedy=error.remedy.removeprefix("run: ")
    )
