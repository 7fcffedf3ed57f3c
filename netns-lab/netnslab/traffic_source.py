"""Traffic between pods of a lab, from the point of view of the test that runs it.

    with Traffic(lab, directory, pairs=[("a3", "b3"), ("b3", "a3")]) as traffic:
        traffic.wait_flowing()
        ...
    outage = measure_outage(traffic.flows(), injected_ns)

Every pod that is driven at runs a server, every pair a driver, all of them processes of their own.
Records are read from the drivers' files and can be followed while they run. They have real-time priority where that
is allowed: on a busy machine a source that waits for a processor would take its own delay for the network's.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.process import put_first
from netnslab.traffic_driver import FLUSH_NS
from netnslab.traffic_flows import DEADLINE_NS
from netnslab.traffic_records import Echo, Flow, FlowKind, Punctuality, Records, StreamEvent, parse
from netnslab.waiting import wait_until

COMMAND = (sys.executable, "-m", "netnslab.traffic")
BOTH_WAYS = (("a3", "b3"), ("b3", "a3"))
# A driver waits for its last flows (1 s) before it ends; an emulated machine takes its time.
STOP_TIMEOUT_S = 10.0
# From the end of a flow to its line in the file: the driver's flush, and a late driver.
SETTLE_NS = 2 * FLUSH_NS
# How long after its start the fate of a flow is known and written.
SETTLED_AFTER_NS = DEADLINE_NS + SETTLE_NS
# How fresh the last success must be for traffic to count as flowing: several flows of each kind.
FLOWING_NS = 500_000_000


class Follower:
    """Reads the records of one growing file, each line once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._flows: list[Flow] = []
        self._echoes: list[Echo] = []
        self._stream: list[StreamEvent] = []
        self._punctuality: list[Punctuality] = []

    def records(self) -> Records:
        """Everything written so far."""
        self._advance()
        return Records(
            flows=tuple(sorted(self._flows, key=_start_ns)),
            echoes=tuple(self._echoes),
            stream=tuple(self._stream),
            punctuality=tuple(self._punctuality),
        )

    def flows_since(self, since_ns: int) -> list[Flow]:
        """The flows that started at `since_ns` or later; costs no more than these, however long the file."""
        self._advance()
        # Flows are written when they end, at most a deadline after their start.
        recent = itertools.takewhile(lambda flow: flow.start_ns >= since_ns - 2 * DEADLINE_NS, reversed(self._flows))
        return sorted((flow for flow in recent if flow.start_ns >= since_ns), key=_start_ns)

    @property
    def is_echoed(self) -> bool:
        """The long-lived connection has been answered."""
        return bool(self._echoes)

    def _advance(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        part = parse(complete.decode("ascii").splitlines(keepends=True))
        self._flows += part.flows
        self._echoes += part.echoes
        self._stream += part.stream
        self._punctuality += part.punctuality


class Traffic:
    """Servers and drivers between pairs of pods, for as long as the context lasts.

    Args:
        lab: where the pods are.
        directory: gets one file of records a pair, `traffic-a3-b3.jsonl`, and the servers' output.
        pairs: (asking pod, answering pod).
        rate: new flows a second for each pair.
    """

    def __init__(
        self, lab: Lab, directory: Path, *, pairs: Sequence[tuple[str, str]] = BOTH_WAYS, rate: int = 200
    ) -> None:
        self._lab = lab
        self._directory = directory
        self._pairs = tuple(pairs)
        self._rate = rate
        self._servers: list[subprocess.Popen[str]] = []
        self._drivers: dict[tuple[str, str], subprocess.Popen[str]] = {}
        self._followers: dict[tuple[str, str], Follower] = {}
        self._files = ExitStack()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            for answering in sorted({answering for _asking, answering in self._pairs}):
                self._serve(answering)
            for pair in self._pairs:
                self._drive(*pair)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End drivers, which finish the flows in the air, then servers. May be called twice."""
        drivers = list(self._drivers.values())
        for processes in (drivers, self._servers):
            for process in processes:
                process.terminate()
            for process in processes:
                _await_end(process)
        self._files.close()

    def records(self, asking: str, answering: str) -> Records:
        """What one driver has written so far (it flushes five times a second)."""
        return self._followers[asking, answering].records()

    def flows(self, *, since_ns: int = 0) -> list[Flow]:
        """The new flows of all pairs that started at `since_ns` or later, in the order of their start."""
        followers = self._followers.values()
        return sorted((flow for each in followers for flow in each.flows_since(since_ns)), key=_start_ns)

    def settled_flows(self, *, since_ns: int) -> list[Flow]:
        """As `flows`, but only those started so long ago that their fate is known and written.

        Successes are known at once and losses after a deadline: recent records on their own look better than it is.
        """
        settled_ns = time.monotonic_ns() - SETTLED_AFTER_NS
        return [flow for flow in self.flows(since_ns=since_ns) if flow.start_ns < settled_ns]

    def wait_flowing(self, *, timeout_s: float = 10.0) -> None:
        """Wait until each pair has fresh successes of both kinds and its long-lived connection.

        Raises:
            LabError: it has not after `timeout_s`, or a driver has died.
        """
        wait_until(self._is_flowing, timeout_s=timeout_s, what="traffic to flow", poll_s=0.1)

    def _is_flowing(self) -> bool:
        for pair, driver in self._drivers.items():
            if driver.poll() is not None:
                raise LabError(f"the traffic driver {pair[0]} -> {pair[1]} ended with {driver.returncode}")
            follower = self._followers[pair]
            recent = follower.flows_since(time.monotonic_ns() - FLOWING_NS)
            if {flow.kind for flow in recent if flow.is_ok} != set(FlowKind) or not follower.is_echoed:
                return False
        return True

    def _serve(self, name: str) -> None:
        path = self._directory / f"traffic-server-{name}.log"
        output = self._files.enter_context(path.open("w", encoding="utf-8"))
        server = self._lab.pod(name).popen([*COMMAND, "serve"], stdout=output)
        put_first(server.pid)
        self._servers.append(server)

        def is_serving() -> bool:
            if server.poll() is not None:
                raise LabError(f"the traffic server of pod {name} ended with {server.returncode}")
            return "serving" in path.read_text(encoding="utf-8")

        wait_until(is_serving, timeout_s=30, what=f"the traffic server of pod {name}")

    def _drive(self, asking: str, answering: str) -> None:
        path = self._directory / f"traffic-{asking}-{answering}.jsonl"
        path.unlink(missing_ok=True)
        target = self._lab.pod(answering).ip
        arguments = ["drive", target, "--rate", str(self._rate), "--output", str(path)]
        driver = self._lab.pod(asking).popen([*COMMAND, *arguments])
        put_first(driver.pid)
        self._drivers[asking, answering] = driver
        self._followers[asking, answering] = Follower(path)


def _start_ns(flow: Flow) -> int:
    return flow.start_ns


def _await_end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
