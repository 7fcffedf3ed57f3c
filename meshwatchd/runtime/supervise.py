"""Keeps the agent alive: starts it, notices its end, starts it again, ever more seldom where it does not last.

The agent is spawned, not forked: a fork of the engine would carry its memory and its locked schedule along.
Its end is read from a pidfd in the engine's own epoll, so there is no signal handler and no waiting.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.process import AGENT_LOCK_NAME, InstanceLock
from meshwatchd.runtime import link
from meshwatchd.runtime.boot import PYTHON_OPTIONS
from meshwatchd.runtime.stderr import say

BACKOFF_FIRST_NS: Final = 200_000_000
BACKOFF_LAST_NS: Final = 5_000_000_000
"""A start costs a second of CPU time; this is what an agent that never lasts may cost."""
STEADY_NS: Final = 60_000_000_000
"""An agent that lived so long was healthy: its end starts a new series of attempts. One that hangs from its start is
killed before (heartbeat.Patience)."""
STOP_GRACE_NS: Final = 3_000_000_000
"""What the agent has for its last log lines; systemd's own limit is far behind."""

_STOP_STEPS: Final = ((None, STOP_GRACE_NS), (signal.SIGTERM, STOP_GRACE_NS), (signal.SIGKILL, None))
"""Wait, ask, insist."""

AGENT: Final = "meshwatchd.runtime.agent_process"

Spawn = Callable[[socket.socket], int]
"""Starts an agent that has the given end of the link; returns its pid."""


def spawn_agent(boot_fd: int) -> Spawn:
    """How the real agent is started: python with the numbers of two descriptors.

    Args:
        boot_fd: what it runs on (boot.SharedBoot); its number is above BOOT_FD.
    """

    def spawn(end: socket.socket) -> int:
        # The only descriptors without close-on-exec, and only in the child: dup2 in file_actions clears the
        # flag.
        fd = end.fileno()
        argv = [sys.executable, *PYTHON_OPTIONS, "-m", AGENT, "--link-fd", str(LINK_FD), "--boot-fd", str(BOOT_FD)]
        return os.posix_spawn(
            sys.executable,
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, LINK_FD), (os.POSIX_SPAWN_DUP2, boot_fd, BOOT_FD)],
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
        )

    return spawn


LINK_FD: Final = 3
"""The agent's end of the link, behind the standard three."""

BOOT_FD: Final = 4
"""What the agent runs on."""


def succeed(runtime_dir: Path) -> None:
    """Become the agent of this node, in an agent's own process, before it opens anything.

    An engine that was killed leaves its agent, which nobody watches and which may hang: its sockets and ports are its
    successor's, of which there is one, since there is one engine.
    """
    killed = InstanceLock(runtime_dir / AGENT_LOCK_NAME).take_over()
    if killed is not None:
        say("agent.killed", pid=killed, reason="the agent of an earlier engine did not end")


class Supervisor:
    """One agent at a time.

    Args:
        on_exit: called with the exit status of an agent that ended: its code, or minus the signal that
        killed it.
    """

    def __init__(
        self,
        *,
        spawn: Spawn,
        poller: Poller,
        on_start: Callable[[socket.socket], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self._spawn, self._poller = spawn, poller
        self._on_start, self._on_exit = on_start, on_exit
        self._pid: int | None = None
        self._pidfd = -1
        self._started_ns = 0
        self._backoff_ns = 0
        self._due_ns: int | None = time.monotonic_ns()

    @property
    def pid(self) -> int | None:
        """The running agent, if any."""
        return self._pid

    def deadline(self) -> int | None:
        """When the next agent is due; None while one runs."""
        return self._due_ns

    def advance(self, now_ns: int) -> None:
        """Start an agent if it is time."""
        if self._due_ns is not None and self._due_ns <= now_ns:
            self._start(now_ns)

    def kill(self) -> None:
        """End an agent that hangs; its end is noticed like any other."""
        signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def stop(self) -> None:
        """Wait for the agent, whose link is closed by now, to end; end it if it does not."""
        self._due_ns = None
        if self._pid is None:
            return
        self._poller.forget(self._pidfd)
        for number, grace_ns in _STOP_STEPS:
            if number is not None:
                signal.pidfd_send_signal(self._pidfd, number)
            if self._is_ended_within(grace_ns):
                break
        os.close(self._pidfd)
        self._pid = None

    def _start(self, now_ns: int) -> None:
        ours, theirs = link.pair()
        with theirs:
            try:
                self._pid = self._spawn(theirs)
            except OSError:
                ours.close()
                self._postpone(now_ns)
                return
        self._pidfd = os.pidfd_open(self._pid)
        self._due_ns, self._started_ns = None, now_ns
        self._poller.add(self._pidfd, self._on_pidfd)
        self._on_start(ours)

    def _on_pidfd(self, fd: int) -> None:
        assert self._pid is not None
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == 0:
            return
        self._poller.forget(fd)
        os.close(fd)
        self._pid = None
        now_ns = time.monotonic_ns()
        if now_ns - self._started_ns >= STEADY_NS:
            self._backoff_ns = 0
        self._postpone(now_ns)
        self._on_exit(os.waitstatus_to_exitcode(status))

    def _postpone(self, now_ns: int) -> None:
        before_ns = self._backoff_ns
        self._backoff_ns = min(max(2 * before_ns, BACKOFF_FIRST_NS), BACKOFF_LAST_NS)
        if before_ns < self._backoff_ns == BACKOFF_LAST_NS:
            # Once a series, and here: there may be no agent to log it.
            pause_s, remedy = BACKOFF_LAST_NS // 1_000_000_000, "probing goes on; see agent.restarted, agent.failed"
            say("agent.failing", level="error", pause_s=pause_s, remedy=remedy)
        self._due_ns = now_ns + self._backoff_ns

    def _is_ended_within(self, grace_ns: int | None) -> bool:
        assert self._pid is not None
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(None if grace_ns is None else grace_ns // 1_000_000):
            return False
        os.waitpid(self._pid, 0)
        return True
