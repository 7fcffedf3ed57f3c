"""Process 1 of a container: what systemd does for the daemon on other machines, where a container runtime starts it.

    container runtime --> this --> meshwatchd (the engine), and its child, the agent

Talos' extension services know an entry point and a restart, no more. Left to do here are:

- *Keys.* Talos writes every file of an ExtensionServiceConfig with mode 0644, and a key that others can read is
  refused. So keys are copied into memory that only this container sees, with mode 0400.
- *The watchdog.* A daemon that has nothing to say for WATCHDOG_S is killed, and the container ends with it.
- *Signals.* The kernel gives process 1 only those that it has a handler for, and every orphan.
- *Descriptors.* Old container runtimes allow 1 024; the unit allows as many as here.
"""

from __future__ import annotations

import argparse
import os
import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from meshwatchd.runtime.signals import SignalPipe
from meshwatchd.runtime.stderr import say

DAEMON: Final = (sys.executable, "-P", "-m", "meshwatchd.runtime.main")
GIVEN: Final = Path("/etc/meshwatchd/given")
"""Where keys are mounted, readable by everybody."""
KEPT: Final = Path("/run/keys")
"""Where they are copied to; in the image /etc/meshwatchd/NAME.key are links to here."""
START_S: Final = 90.0
"""What a daemon has until it says READY=1: systemd's DefaultTimeoutStartSec."""
WATCHDOG_S: Final = 10.0
"""The unit's WatchdogSec."""
FILES: Final = 16_384
"""The unit's LimitNOFILE."""

EXIT_CONFIG: Final = 2
"""That of `runtime.boot`, with which all settings would be loaded: 8 MiB for as long as the daemon runs."""

_MAX_KEY_BYTES: Final = 4096
_MAX_WORD_BYTES: Final = 4096
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_KILLED: Final = 128
"""A shell's exit status for a process that was killed is this and the signal's number."""


def main(argv: Sequence[str] | None = None, *, command: Sequence[str] = DAEMON) -> int:
    """Prepare what the daemon finds, run it to its end, and return its exit status.

    Args:
        argv: `--given` and `--kept`, two folders; all behind `--` is passed on to the daemon.
        command: the daemon; its own arguments follow.

    Returns:
        the daemon's exit status; 128 and a signal's number where it was killed; 2 where a key cannot be copied.
    """
    parser = argparse.ArgumentParser(prog="meshwatchd.runtime.container", description="Runs meshwatchd as process 1.")
    parser.add_argument("--given", type=Path, default=GIVEN, help="folder of mounted keys (default: %(default)s)")
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder they are copied to (default: %(default)s)")
    parser.add_argument("options", nargs="*", help="options of meshwatchd, behind --")
    arguments = parser.parse_args(argv)
    os.umask(0o077)
    try:
        keep_keys(arguments.given, arguments.kept)
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}; mount keys as {arguments.given}/NAME.key\n")
        return EXIT_CONFIG
    allow_files(FILES)
    return watch([*command, *arguments.options], arguments.kept / "notify")


def keep_keys(given: Path, kept: Path) -> None:
    """Copy each *.key of a folder, which may be missing, into another one, readable by their owner alone.

    Raises:
        OSError: a key cannot be read or written.
    """
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    for source in sorted(given.glob("*.key")):
        target = kept / source.name
        target.unlink(missing_ok=True)
        with source.open("rb") as key:
            secret = key.read(_MAX_KEY_BYTES)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
        try:
            os.write(fd, secret)
        finally:
            os.close(fd)


def allow_files(wanted: int) -> None:
    """Raise the hard limit of open descriptors, where it is lower and that is allowed (CAP_SYS_RESOURCE)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, wanted))
    except (ValueError, PermissionError):
        say("files.limited", remedy=f"allow {wanted} open files; fewer flows can be in flight", limit=hard)


def watch(command: Sequence[str], notify: Path, *, start_s: float = START_S, watchdog_s: float = WATCHDOG_S) -> int:
    """Run a command that reports as sd_notify(3) has it, to its end.

    SIGTERM, SIGINT and SIGHUP are passed on; from the first of these that asks for the end, silence is nobody's fault.

    Args:
        command: argument vector; its first word is a path.
        notify: where to listen; what is there is replaced.
        start_s: seconds until the command has to be ready.
        watchdog_s: seconds from one sign of life to the next.

    Returns:
        its exit status, or 128 and the number of the signal that killed it.
    """
    notify.unlink(missing_ok=True)
    signals = SignalPipe(_SIGNALS)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as words:
            words.bind(str(notify))
            pid = os.posix_spawn(command[0], list(command), {**os.environ, "NOTIFY_SOCKET": str(notify)})
            return _Watch(pid, signals, words, start_s=start_s, watchdog_s=watchdog_s).run()
    finally:
        signals.close()


class _Watch:
    """One daemon from its start to its end."""

    def __init__(
        self, pid: int, signals: SignalPipe, words: socket.socket, *, start_s: float, watchdog_s: float
    ) -> None:
        self._pid, self._signals, self._words = pid, signals, words
        self._watchdog_s = watchdog_s
        self._limit_s = start_s
        self._deadline_s: float | None = time.monotonic() + start_s

    def run(self) -> int:
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.register(self._words, select.POLLIN)
        while (status := self._reap()) is None:
            poll.poll(self._patience_ms())
            self._hear()
            self._pass_on()
            self._insist()
        return status if status >= 0 else _KILLED - status

    def _patience_ms(self) -> int | None:
        if self._deadline_s is None:
            return None
        return max(0, int((self._deadline_s - time.monotonic()) * 1000) + 1)

    def _hear(self) -> None:
        """Every word that is known moves the deadline, before it is looked at: what waited here was said in time."""
        while True:
            try:
                word = self._words.recv(_MAX_WORD_BYTES)
            except BlockingIOError:
                return
            if self._deadline_s is not None and {b"READY=1", b"WATCHDOG=1"} & set(word.splitlines()):
                self._limit_s = self._watchdog_s
                self._deadline_s = time.monotonic() + self._limit_s

    def _pass_on(self) -> None:
        for number in self._signals.take():
            if number is signal.SIGCHLD:
                continue
            if number is not signal.SIGHUP:
                self._deadline_s = None
            os.kill(self._pid, number)

    def _insist(self) -> None:
        if self._deadline_s is None or time.monotonic() < self._deadline_s:
            return
        self._deadline_s = None
        say("watchdog.expired", level="error", pid=self._pid, silent_s=self._limit_s)
        os.kill(self._pid, signal.SIGKILL)

    def _reap(self) -> int | None:
        """Bury whoever has ended; returns the daemon's exit status, or minus the signal's number, if it was among them.

        Until it is buried here its process id belongs to nobody else.
        """
        ended: int | None = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            if pid == self._pid:
                ended = os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
