"""The loop: look at both sides, decide, act. One thread beside the watch; whatever blocks is bounded by a timeout."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Final, Protocol

from meshwatchkube.actions import (
    Action,
    Drain,
    Pin,
    Remember,
    RunHook,
    SetConditions,
    SetCordon,
    SetMark,
    SetTaint,
    Steered,
    Tell,
    Unpin,
    Written,
)
from meshwatchkube.api import Clocks
from meshwatchkube.cluster import Cluster
from meshwatchkube.decide import Decisions, mistaken
from meshwatchkube.look import Look
from meshwatchkube.memory import Memory
from meshwatchkube.mesh import Mesh
from meshwatchkube.pace import Say
from meshwatchkube.settings import Settings

_HOOK_S: Final = 30.0
_RENEW_S: Final = 1.0
"""Between looks at whether the Lease is to be renewed: it may be one of three seconds."""


class MeshSide(Protocol):
    """The daemon (`control.Control`)."""

    def look(self) -> Mesh | None:
        """What the daemon sees; None where it does not answer."""

    def steer(self, action: Steered) -> None:
        """Ask the daemon for something."""


class ClusterSide(Protocol):
    """The API (`api.Api`)."""

    def look(self, node: str, *, is_fit: bool) -> tuple[Cluster, Memory | None]:
        """What the API has, as far as it is known, and who writes to it.

        Args:
            node: this machine's name in the mesh, empty if unknown.
            is_fit: this process has a daemon to decide by.
        """

    def remember(self, memory: Memory) -> bool:
        """Write the memory; whether it is written."""

    def write(self, action: Written) -> bool:
        """Write to a Node; whether it is done."""


class Loop:
    """One look after the other.

    Args:
        settings: of the whole file.
        say: writes a line.
    """

    def __init__(self, settings: Settings, control: MeshSide, api: ClusterSide, *, say: Say, clocks: Clocks) -> None:
        self._settings, self._control, self._api, self._say, self._clocks = settings, control, api, say, clocks
        self._decisions = Decisions(settings)
        self._is_writer = False
        self._mistake = self._node = ""
        self._reliable_ns: int | None = None

    def run(self, stopped: threading.Event) -> None:
        """Go round until told to stop."""
        while not stopped.wait(self._settings.daemon.read_interval / 1e9):
            self.turn()

    def turn(self) -> None:
        """Look, decide and act once."""
        mesh = self._control.look()
        self._node = "" if mesh is None else mesh.node
        cluster, memory = self._api.look(self._node, is_fit=self._is_fit(mesh))
        if cluster.is_writer != self._is_writer:
            self._is_writer = cluster.is_writer
            self._say("lease.taken" if cluster.is_writer else "lease.lost", level="info")
        if mesh is None:
            self._decisions.forget()
            return
        if cluster.is_fresh and (cluster.is_writer or self._settings.drain.follow):
            self._note_mistake(mistaken(mesh, cluster))
        now, now_s = self._clocks.monotonic(), self._clocks.unix() // 1_000_000_000
        look = Look(mesh=mesh, cluster=cluster, memory=memory, now=now, now_s=now_s)
        for action in self._decisions.decide(look):
            if not self._act(action):
                return

    def _is_fit(self, mesh: Mesh | None) -> bool:
        """Whether there is, or was until a moment ago, a daemon to decide by: else another process may write.

        A daemon that is restarted is back within the duration of the Lease.
        """
        now = self._clocks.monotonic()
        if mesh is not None and mesh.is_reliable:
            self._reliable_ns = now
        return self._reliable_ns is not None and now - self._reliable_ns <= self._settings.lease.duration

    def _act(self, action: Action) -> bool:
        """Do one thing; False where what comes after it in this turn must wait for it."""
        match action:
            case Pin() | Unpin() | Drain():
                self._control.steer(action)
                return True
            case Remember(memory=memory):
                return self._api.remember(memory)
            case RunHook():
                return self._call_hook(action)
            case SetMark():
                is_done = self._api.write(action)
                self._say_done(action, is_done=is_done)
                return is_done
            case SetConditions() | SetTaint() | SetCordon() | Tell():
                self._say_done(action, is_done=self._api.write(action))
                return True

    def _say_done(self, action: Written, *, is_done: bool) -> None:
        if is_done:
            kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(action).__name__).lstrip("_")
            fields = {name: getattr(action, name) for name in action.__slots__ if name != "version"}
            self._say("cluster.written", level="info", what=kind, **fields)

    def _call_hook(self, hook: RunHook) -> bool:
        command = [self._settings.promotion.hook, hook.location, hook.former, hook.leader]
        try:
            done = self._run_and_renew(command)
        except (OSError, subprocess.TimeoutExpired) as error:
            self._say("hook.failed", level="warning", command=command, why=str(error))
            return False
        if done.returncode:
            self._say("hook.failed", level="warning", command=command, why=done.stderr[-300:] or str(done.returncode))
        return done.returncode == 0

    def _run_and_renew(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program, and keep the Lease meanwhile: else what it has done could not be written down."""
        run = partial(subprocess.run, command, capture_output=True, check=False, timeout=_HOOK_S)
        with ThreadPoolExecutor(1, "hook") as pool:
            running = pool.submit(run, text=True, errors="replace")
            while wait([running], _RENEW_S).not_done:
                self._api.look(self._node, is_fit=True)
        return running.result()

    def _note_mistake(self, mistake: str) -> None:
        if mistake and mistake != self._mistake:
            self._say("cluster.mistaken", level="error", why=mistake)
        self._mistake = mistake
