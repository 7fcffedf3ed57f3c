"""The daemons of a lab, one on every node: started, watched, killed and ended from outside.

This is the only file of the lab that knows how the daemon is run and asked:

    start    python -P -m meshwatchd.runtime.main --config FILE       one engine process and its child, the agent
    ask      python -P -m meshwatchd.cli.main ..., or its socket directly: status, events
    sweep    python -P -m meshwatchd.cli.main sweep                   needs no daemon

The daemon shares no code with the lab; what it says is decoded here as plain JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypedDict, cast

import tomli_w

from netnslab import varlink
from netnslab.errors import LabError
from netnslab.inhabitant import Inhabitant
from netnslab.lab import Lab
from netnslab.process import children_of
from netnslab.waiting import wait_until

DAEMON = (sys.executable, "-P", "-m", "meshwatchd.runtime.main")
CONTROL = (sys.executable, "-P", "-m", "meshwatchd.cli.main")
CONFIGURATION = "/etc/meshwatchd/meshwatchd.toml"
CONFIGURATIONS = {
    "full": CONFIGURATION,
    "minimal": "/etc/meshwatchd/minimal.toml",
}
"""What the lab writes on each node: the whole mesh, or where its key is and the mode."""
# Where a configuration with overrides goes: beside the lab's own, which stays as it was.
OVERRIDDEN = "/etc/meshwatchd/overridden.toml"
# Part of the agent's command line and of no other process of the daemon.
AGENT_MODULE = "meshwatchd.runtime.agent_process"
# Where meshwatchctl asks, and for what; asked directly here, since a client process is dear.
SOCKET = "/run/meshwatchd/control.sock"
INTERFACE = "io.meshwatch.Control"
# Where logs go unless the caller has a place for them.
LOGS = Path("build/daemons")
# A daemon that does not obey SIGTERM within this is a failure in itself; an emulated machine is slow.
STOP_TIMEOUT_S = 15.0

# A leader has no business on paths that go around it, and nobody acts on standbys in observe and advise.
CALM = ("good", "unwatched")

Settings = Mapping[str, Mapping[str, object]]
"""Overrides of the configuration file: section, key, value, such as {"policy": {"hold_down": "5s"}}."""


class PathView(TypedDict):
    """One path in a status: what the lab reads of it."""

    rank: int
    relays: Sequence[str]
    state: str


class PairView(TypedDict):
    """One pair of locations in a status: what the lab reads of it."""

    active_rank: int
    generation: int
    verdict: Mapping[str, object]
    paths: Sequence[PathView]


class SessionView(TypedDict):
    """One probe session in a status: what the lab reads of it."""

    peer: str
    layer: int
    path: int
    state: str


class Status(TypedDict):
    """The decoded answer of `meshwatchctl --json status`: what the lab reads of it."""

    is_ready: bool
    severity: str
    pairs: Sequence[PairView]
    sessions: Sequence[SessionView]
    counters: Mapping[str, int]


class Process(StrEnum):
    """The two processes of a daemon."""

    ENGINE = "engine"
    AGENT = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One fact out of a daemon's event log.

    Attributes:
        name: such as `failover.applied`.
        at_ns: CLOCK_MONOTONIC, comparable with everything else on this machine.
        fields: what the fact carries beside these.
    """

    name: str
    node: str
    at_ns: int
    fields: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def decode(cls, line: str) -> Self:
        """Read one line of `meshwatchctl --json events`."""
        return cls.of(json.loads(line))

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> Self:
        """Take name, node and instant out of a fact's flat fields."""
        rest = dict(fields)
        name, node, at_ns = str(rest.pop("event")), str(rest.pop("node")), cast("int", rest.pop("at_ns"))
        return cls(name=name, node=node, at_ns=at_ns, fields=rest)


class Daemons:
    """The daemons of all nodes, or of some, for as long as the context lasts.

    Args:
        directory: gets `daemon-NODE.log`, standard output and error of each, appended across restarts.
        settings: overrides of the configuration the lab has written.
        nodes: default all.
        config: which of the configurations, full or minimal.
        releases: the folder of the daemon that a node runs, as its wheel unpacks; this checkout's where there is none.
        python: the interpreter that daemons are run by, where packages of third parties are installed for it.

    Attributes:
        releases: as above; a change is in force from the next start on.
    """

    def __init__(
        self,
        lab: Lab,
        directory: Path = LOGS,
        *,
        settings: Settings | None = None,
        nodes: Iterable[str] | None = None,
        config: str = "full",
        releases: Mapping[str, Path] | None = None,
        python: str = sys.executable,
    ) -> None:
        self._python = python
        self.releases = dict(releases or {})
        self.nodes = tuple(nodes if nodes is not None else lab.topology.nodes)
        self._lab = lab
        self._directory = directory
        self._settings = settings or {}
        self._configuration = CONFIGURATIONS[config]
        self._engines: dict[str, subprocess.Popen[str]] = {}
        self._logs: dict[str, IO[str]] = {}

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            for node in self.nodes:
                self.start(node)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._end()

    def start(self, node: str) -> None:
        """Start the daemon of one node, which must not be running."""
        assert node not in self._engines, f"the daemon of {node} is running"
        if node not in self._logs:
            self._logs[node] = (self._directory / f"daemon-{node}.log").open("a", encoding="utf-8")
        log = self._logs[node]
        place = self._lab.node(node)
        self._engines[node] = place.popen(
            [self._python, *DAEMON[1:], "--config", self._configure(place)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_found_in(self.releases.get(node)),
        )

    def stop(self, node: str | None = None) -> None:
        """End one daemon, or all, with SIGTERM, in good order; those not running are passed over.

        Good order is exit status 0, which a daemon can keep once it has been ready, not in its first moments.

        Raises:
            LabError: one had to be killed, or ended with an error.
        """
        engines = {name: self._engines.pop(name) for name in self._chosen(node) if name in self._engines}
        for engine in engines.values():
            engine.terminate()
        failures = [f"{name}: {failure}" for name, engine in engines.items() if (failure := _await_end(engine))]
        if failures:
            raise LabError("daemons did not stop in good order: " + "; ".join(failures))

    def kill(self, node: str, process: Process | str = Process.ENGINE) -> None:
        """SIGKILL to one of a node's two processes."""
        engine = self._engines[node]
        if Process(process) is Process.AGENT:
            os.kill(self.agent_pid(node), signal.SIGKILL)
            return
        engine.kill()
        engine.wait()
        del self._engines[node]

    def reload(self, node: str) -> None:
        """SIGHUP to the engine, as the unit's ExecReload sends it."""
        self._engines[node].send_signal(signal.SIGHUP)

    def restart(self, node: str) -> None:
        """Stop the daemon of a node if it runs, and start it."""
        self.stop(node)
        self.start(node)

    def engine_pid(self, node: str) -> int:
        """The engine is the process that was started."""
        return self._engines[node].pid

    def agent_pid(self, node: str, *, timeout_s: float = 10.0) -> int:
        """The agent is a child of the engine; waits for it, as it may be between two lives."""
        engine = self.engine_pid(node)
        return wait_until(lambda: _agent_of(engine), timeout_s=timeout_s, what=f"the agent of {node}")

    def has_agent(self, node: str) -> bool:
        """Whether the agent runs at this moment."""
        return _agent_of(self.engine_pid(node)) is not None

    def control(self, node: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the meshwatchctl of a node's release there."""
        return self.control_of(self.releases.get(node), node, *arguments)

    def control_of(self, release: Path | None, node: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the meshwatchctl of a release, or of this checkout, on a node, whatever its daemon is of."""
        return self._lab.node(node).run([self._python, *CONTROL[1:], *arguments], timeout=60, env=_found_in(release))

    def status(self, node: str) -> Status | None:
        """What `meshwatchctl --json status` shows; None while the daemon cannot be reached."""
        try:
            (reply,) = varlink.call(self._lab.node(node), SOCKET, f"{INTERFACE}.Status")
        except varlink.CallFailedError:
            return None
        return cast("Status", reply["status"])

    def events(self, node: str | None = None, *, since_ns: int = 0) -> list[Event]:
        """The facts of one daemon, or of all that run, in the order of time."""
        found = [event for name in self._chosen(node) if name in self._engines for event in self._told(name, since_ns)]
        return sorted(found, key=lambda event: (event.at_ns, event.node))

    def wait_ready(self, node: str | None = None, *, timeout_s: float = 30.0) -> None:
        """Wait until each daemon has judged its paths and finds nothing wrong, standbys included.

        Raises:
            LabError: a daemon ended, or is not ready in time; the message quotes its log.
        """
        waiting = list(self._chosen(node))

        def are_ready() -> bool:
            self._lab.favour_tunnels()  # standby links come up one after the other
            while waiting and self._is_ready(waiting[0]):
                waiting.pop(0)
            return not waiting

        try:
            wait_until(are_ready, timeout_s=timeout_s, what="the daemons to be ready", poll_s=0.3)
        except LabError as error:
            raise LabError(f"{error}: {waiting[0]} is not; {self._last_words(waiting[0])}") from error

    def sweep(self, node: str | None = None) -> list[subprocess.CompletedProcess[str]]:
        """Remove everything the daemons have marked, with the daemons stopped."""
        return [self.control(name, "sweep") for name in self._chosen(node)]

    def _told(self, node: str, since_ns: int) -> list[Event]:
        replies = varlink.call(self._lab.node(node), SOCKET, f"{INTERFACE}.Events", {"since_ns": since_ns})
        told = [event for reply in replies for event in cast("list[dict[str, object]]", reply["events"])]
        return [Event.of(fields) for fields in told if cast("int", fields["at_ns"]) >= since_ns]

    def _chosen(self, node: str | None) -> tuple[str, ...]:
        return self.nodes if node is None else (node,)

    def _is_ready(self, node: str) -> bool:
        if (status := self._engines[node].poll()) is not None:
            raise LabError(f"the daemon of {node} ended with {status}; {self._last_words(node)}")
        return is_ready(self.status(node))

    def _last_words(self, node: str) -> str:
        """What the daemon says about itself, in one line: its verdicts, or the end of its log."""
        path = self._directory / f"daemon-{node}.log"
        if node in self._engines and (status := self.status(node)):
            return f"its status says {_summarise(status)} (log: {path})"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"{path} ends: {lines[-1][:300] if lines else '(nothing)'}"

    def _configure(self, place: Inhabitant) -> str:
        """The configuration to start with: the lab's own, or a copy of it with the overrides."""
        if not self._settings:
            return self._configuration
        document = tomllib.loads(place.run(["cat", self._configuration], check=True).stdout)
        for section, values in self._settings.items():
            document.setdefault(section, {}).update(values)
        place.run(["tee", OVERRIDDEN], input=tomli_w.dumps(document), check=True)
        return OVERRIDDEN

    def _end(self) -> None:
        """End what runs, whatever its exit status: the way out must not hide why we leave."""
        with contextlib.suppress(LabError):
            self.stop()
        for log in self._logs.values():
            log.close()
        self._logs.clear()


def _found_in(release: Path | None) -> Mapping[str, str] | None:
    """What has Python find an unpacked release ahead of this checkout; its agent inherits it of the engine."""
    return None if release is None else {"PYTHONPATH": str(release)}


def is_ready(status: Status | None) -> bool:
    """Whether a status says: nothing wrong, every session up, every path that the node watches good."""
    if status is None or not status["is_ready"] or status["severity"] != "ok":
        return False
    if any(session["state"] != "up" for session in status["sessions"]):
        return False
    return all(path["state"] in CALM for pair in status["pairs"] for path in pair["paths"])


def _summarise(status: Status) -> str:
    pairs = (
        f"{pair['verdict']['fault']}, paths {[path['state'] for path in pair['paths']]}" for pair in status["pairs"]
    )
    quiet = [f"{each['peer']} (layer {each['layer']})" for each in status["sessions"] if each["state"] != "up"]
    return f"ready {status['is_ready']}, {status['severity']}, {'; '.join(pairs)}, not up: {', '.join(quiet) or 'none'}"


def _agent_of(engine: int) -> int | None:
    """The child of `engine` that runs the agent's module."""
    for child in children_of(engine):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if AGENT_MODULE.encode() in (Path("/proc") / str(child) / "cmdline").read_bytes():
                return child
    return None


def _await_end(engine: subprocess.Popen[str]) -> str:
    """Wait for a terminated engine; returns what is to be complained about, or nothing."""
    try:
        status = engine.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()
        return f"killed after {STOP_TIMEOUT_S:g} s"
    return f"exit status {status}" if status else ""
