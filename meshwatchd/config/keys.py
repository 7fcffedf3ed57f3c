"""Secrets from files that nobody else can read.

The checks are made on the opened file, not on its name: nothing can be swapped between looking and reading.

A daemon with a user of its own cannot read what is root's. So root copies keys for it at each start and reload, each
under the name of the setting that names it, into a folder that the environment names (KEPT).
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from meshwatchd.config.values import KEY_BYTES, decode_key
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.ids import SERVICE_USER

KEPT = "MESHWATCH_KEYS"
"""Environment variable: the folder of copies; without it keys are read where the settings say."""
_KEPT_FOLDER_MODE, _KEPT_MODE = 0o711, 0o400

_MAX_FILE_BYTES = 4096
LEAST_STAMP_KEY_BYTES = 16
"""As long as the tags that are made with it."""


def read_mesh_key(path: Path, *, key: str = "auth.key_file") -> bytes:
    """The mesh secret: 32 bytes.

    Args:
        path: file with their base64, mode 0400 or 0600, owned by root, the daemon's user or this process.
        key: the setting that names the file, for the message.

    Raises:
        ConfigError: missing, unreadable, readable by others, of the wrong owner, or not base64 of 32 bytes.
            The remedy is a command; no message repeats the content.
    """
    make = f"head -c {KEY_BYTES} /dev/urandom | base64"
    text = _read_secret(path, key, missing=f"umask 077; {make} > {path}, and copy it to every node of the mesh")
    return _decode(path, key, text, remedy=f"copy it from another node, or make one: {make}")


def read_private_key(path: Path, *, key: str = "standby.private_key_file") -> bytes | None:
    """The private key of standby links: 32 bytes, or None when there is no such file.

    Raises:
        ConfigError: as for `read_mesh_key`, but for a missing file.
    """
    if is_missing(path, key):
        return None
    make = f"umask 077; wg genkey > {path}"
    text = _read_secret(path, key, missing=make)
    return _decode(path, key, text, remedy=f"run: {make}")


def read_stamp_key(path: Path, *, key: str = "stamp.key_file", least_bytes: int = LEAST_STAMP_KEY_BYTES) -> bytes:
    """The key shared with STAMP equipment of other makers: all bytes of the file, as they are.

    Args:
        path: mode 0400 or 0600, owned by root, the daemon's user or this process.
        key: the setting or option that names the file, for the message.
        least_bytes: a shorter key is refused.

    Raises:
        ConfigError: as for `read_mesh_key`, or the file is too short or too long to be a key.
    """
    make = f"umask 077; head -c {KEY_BYTES} /dev/urandom > {path}"
    secret = _read_file(path, key, missing=f"{make}, and give the same key to the other side")
    if not least_bytes <= len(secret) < _MAX_FILE_BYTES:
        problem = (
            f"holds {len(secret)} bytes" if len(secret) < least_bytes else f"holds {_MAX_FILE_BYTES} bytes or more"
        )
        raise ConfigError(str(path), key, problem, f"a key has {least_bytes} bytes or more: {make}")
    return secret


def keep(path: Path, key: str, folder: Path) -> None:
    """Copy a secret for the daemon's user, whatever it holds; without such a user, for this process's.

    Args:
        path: the file; the same is asked of it as by whoever reads it.
        key: the setting that names it, and the name of the copy.
        folder: of root's, made when missing; the copy has mode 0400.

    Raises:
        ConfigError: the file cannot be used, or the copy cannot be made.
    """
    data = _read_file(path, key, missing="meshwatchd --check")
    user = service_user()
    try:
        folder.mkdir(mode=_KEPT_FOLDER_MODE, exist_ok=True)
        folder.chmod(_KEPT_FOLDER_MODE)
        draft, copy = folder / f".{key}.new", folder / key
        draft.unlink(missing_ok=True)
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _KEPT_MODE)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            if user is not None:
                os.fchown(fd, user.pw_uid, user.pw_gid)
        draft.replace(copy)
    except OSError as error:
        problem = f"cannot be copied to {folder}: {error.strerror}"
        raise ConfigError(str(path), key, problem, f"make room there, and look at: ls -ld {folder}") from error


def service_user() -> pwd.struct_passwd | None:
    """The daemon's user, where there is one."""
    try:
        return pwd.getpwnam(SERVICE_USER)
    except KeyError:
        return None


def _place(path: Path, key: str) -> Path:
    """The copy that root has made of a key, if it has, and the file itself otherwise."""
    kept = os.environ.get(KEPT)
    copy = Path(kept, key) if kept else path
    return copy if copy.exists() else path


def is_missing(path: Path, key: str = "auth.key_file") -> bool:
    """Whether there is no such file; of one that cannot be looked at, reading it tells why."""
    try:
        _place(path, key).stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _read_secret(path: Path, key: str, *, missing: str) -> str:
    return _read_file(path, key, missing=missing).decode("ascii", "replace").strip()


def _read_file(path: Path, key: str, *, missing: str) -> bytes:
    try:
        descriptor = os.open(_place(path, key), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise ConfigError(str(path), key, "there is no such file", f"run: {missing}") from error
    except OSError as error:
        raise ConfigError(
            str(path),
            key,
            f"cannot be opened: {error.strerror}",
            f"run as root: meshwatchd --check; look at: ls -lL {path}",
        ) from error
    try:
        _check_access(path, key, os.fstat(descriptor))
        return os.read(descriptor, _MAX_FILE_BYTES)
    finally:
        os.close(descriptor)


def _check_access(path: Path, key: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(str(path), key, "is not a regular file", "name the file that holds the key")
    # The daemon's own user cannot be kept from its own files, and root reads them as well.
    user = service_user()
    if status.st_uid not in {0, os.geteuid(), user.pw_uid if user else 0}:
        raise ConfigError(
            str(path),
            key,
            f"belongs to user {status.st_uid}, who could read or replace it",
            f"run: chown root {path} && chmod 0400 {path}",
        )
    if status.st_mode & 0o077:
        others = "everybody" if status.st_mode & 0o007 else "its group"
        mode = stat.S_IMODE(status.st_mode)
        raise ConfigError(
            str(path),
            key,
            f"is open to {others} (mode {mode:04o})",
            f"run: chmod 0400 {path}, and replace the key",
        )


def _decode(path: Path, key: str, text: str, *, remedy: str) -> bytes:
    secret = decode_key(text)
    if secret is None:
        raise ConfigError(str(path), key, f"is not base64 of {KEY_BYTES} bytes (44 characters)", remedy)
    return secret
