"""The listening socket: where it may be, who may connect and hold traffic, and what to do with a dead daemon's."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import socket
import stat
from pathlib import Path

from meshwatchd.model.errors import ControlError

SOCKET_MODE = 0o660
GROUP = "meshwatch"
"""Members may read; where the group does not exist, or the daemon is not in it, only root may connect."""
OPERATORS = "meshwatch-operators"
"""Members may pin and drain besides, which moves traffic. They have to be in GROUP as well, to connect at all."""

EXIT_UNREACHABLE = 3


def open_listener(path: Path) -> socket.socket:
    """A listening, non-blocking socket at a path; a dead daemon's is replaced.

    Raises:
        ControlError: the path is a link, somebody else's file, or in use; or the folder is one others may write to.
    """
    try:
        _prepare_folder(path.parent)
        _clear(path)
        return _bind(path)
    except OSError as error:
        raise ControlError(
            EXIT_UNREACHABLE, f"cannot listen on {error.filename or path}: {error.strerror or error}"
        ) from error


def is_operator(uid: int) -> bool:
    """Whether a user is a member of the operators' group (group(5)); nobody is where there is no such group.

    Blocks for as long as LDAP or sssd takes, where nsswitch.conf(5) names them.
    """
    try:
        return pwd.getpwuid(uid).pw_name in grp.getgrnam(OPERATORS).gr_mem
    except KeyError:
        return False


def _prepare_folder(folder: Path) -> None:
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise ControlError(EXIT_UNREACHABLE, f"{folder} is a link; name the folder itself in daemon.runtime_dir")
    if status.st_uid not in {0, os.geteuid()} or status.st_mode & stat.S_IWOTH:
        raise ControlError(
            EXIT_UNREACHABLE, f"{folder} can be written to by others; run: chown root {folder} && chmod 0755 {folder}"
        )


def _clear(path: Path) -> None:
    """Make the path free, if what is there is a socket nobody listens on."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no socket"
        raise ControlError(EXIT_UNREACHABLE, f"{path} is {kind}; remove it if it is not needed: rm {path}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass
    raise ControlError(EXIT_UNREACHABLE, f"{path} is in use: another meshwatchd is running")


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    # The socket must never exist with a wider mode than it ends with, not even for a moment.
    previous = os.umask(0o777 & ~SOCKET_MODE)
    try:
        listener.bind(str(path))
        _give_to_group(path)
        listener.listen(16)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(previous)
    return listener


def _give_to_group(path: Path) -> None:
    try:
        group = grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return
    # Without CAP_CHOWN only to a group that the daemon is in; otherwise root alone may connect, as without the group.
    with contextlib.suppress(PermissionError):
        os.chown(path, -1, group, follow_symlinks=False)
