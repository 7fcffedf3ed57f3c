"""What watching the kernel costs the agent, and the engine beside it: `python -m netnslab.bench_mirror`, as root.

The agent process runs alone in a network namespace, first on an empty node, then on one of a large mesh; this program
stands at the engine's end of its link and knows nothing of it but when frames come, how large they are, and what the
kernel says of the process.

Then a daemon with sessions, in a mesh of six, gets as large a node, and its agent is killed again and again: each new
one reads everything. What is told is how late the engine's own timers were, before and while that went on. Five other
nodes on the same CPUs are in its way more than its own agent is, so that is measured twice: with all on all CPUs, and
with a CPU for this node alone, which its engine and its agent share. The figures are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from netnslab import ownership, process, syscalls
from netnslab.daemons import Daemons, Status
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.machine import machine_facts
from netnslab.waiting import pause_until, wait_until

ROUTES, NEIGHBOURS, BURST = 11_000, 10_000, 20_000
START_TIMEOUT_S = 60.0
SETTLE_S = 3.0
BUFFER_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 64 * 1024
CROWDED = "b2"
DUMPS = 6
READY_S = 90.0
WINDOW_NS = 20_000_000_000
"""What the engine's histogram looks back on, at most."""
ROUND_NS = 2_000_000_000
"""The engine works its percentiles out once a second."""
SO_SNDBUFFORCE = 32
"""asm-generic/socket.h."""

CONFIGURATION = """
[daemon]
node = "b2"
mode = "observe"
state_dir = "{directory}"
runtime_dir = "{directory}/run"
[standby]
private_key_file = "{directory}/standby.key"
"""


class Agent:
    """One agent process, and the engine's end of its link."""

    def __init__(self, directory: Path) -> None:
        config = directory / "meshwatchd.toml"
        config.write_text(CONFIGURATION.format(directory=directory), encoding="ascii")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES)
        self.link = ours
        boot = os.memfd_create("boot")
        reader = [sys.executable, "-P", "-m", "meshwatchd.runtime.main"]
        reader += ["--config", str(config), "--hand-over", str(boot)]
        subprocess.run(reader, pass_fds=[boot], check=True)
        argv = [sys.executable, "-P", "-m", "meshwatchd.runtime.agent_process"]
        argv += ["--link-fd", str(theirs.fileno()), "--boot-fd", str(boot)]
        self.started_s = time.monotonic()
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(argv, pass_fds=[theirs.fileno(), boot], stdout=log, stderr=log)
        os.close(boot)
        theirs.close()

    def frames(self, seconds: float) -> Iterator[tuple[float, bytes]]:
        """The packets of the link as they come, with their instant, for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self.link], [], [], left)[0]:
                packet = self.link.recv(PIECE_BYTES)
                if not packet:
                    raise LabError("the agent has ended; see its log")
                yield time.monotonic(), packet

    def await_snapshot(self) -> float:
        """Seconds from the start to the first snapshot."""
        for at_s, packet in self.frames(START_TIMEOUT_S):
            if b"SnapshotReceived" in packet:
                return at_s - self.started_s
        raise LabError(f"no snapshot within {START_TIMEOUT_S:.0f} s")

    def cpu_s(self) -> float:
        """CPU seconds used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self, field: str) -> float:
        """VmRSS or VmHWM of /proc/PID/status."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in text.splitlines() if line.startswith(f"{field}:"))
        return round(int(line.split()[1]) / 1024, 1)

    def idle(self, seconds: float) -> dict[str, float]:
        """What it uses while nothing happens."""
        before = self.cpu_s()
        sizes = [len(packet) for _, packet in self.frames(seconds)]
        return {
            "cpu_percent_of_a_core": round(100 * (self.cpu_s() - before) / seconds, 2),
            "bytes_to_the_engine_per_s": round(sum(sizes) / seconds, 1),
        }


@contextmanager
def agent(directory: Path) -> Iterator[Agent]:
    """An agent, ended by the end of its link."""
    started = Agent(directory)
    try:
        yield started
    finally:
        started.link.close()
        try:
            started.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            started.process.kill()
            started.process.wait()


def batch(lines: Sequence[str], tool: str = "ip") -> None:
    """Many commands of ip or bridge at once."""
    subprocess.run([tool, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def large_node() -> Iterator[tuple[str, list[str]]]:
    """The tools and their lines that make a node one of a large mesh."""
    places = [f"{100 + number // 256}.{number % 256}" for number in range(ROUTES)]
    yield "ip", [f"route add 10.{place}.0/24 via 10.{place}.0 dev flannel.1 onlink" for place in places]
    macs = [f"02:00:00:00:{number // 256:02x}:{number % 256:02x}" for number in range(NEIGHBOURS)]
    pairs = list(zip(places, macs, strict=False))
    yield "ip", [f"neigh add 10.{place}.0 lladdr {mac} dev flannel.1 nud permanent" for place, mac in pairs]
    yield "bridge", [f"fdb add {mac} dst 192.{place}.1 dev flannel.1" for place, mac in pairs]


def measure(directory: Path, idle_s: float, *, with_burst: bool) -> dict[str, object]:
    """Start an agent on the node as it is."""
    with agent(directory) as started:
        first_s = started.await_snapshot()
        cpu_s = started.cpu_s()
        list(started.frames(SETTLE_S))
        figures: dict[str, object] = {
            "start_to_first_snapshot_s": round(first_s, 3),
            "start_to_first_snapshot_cpu_s": round(cpu_s, 3),
            "rss_mib": started.memory_mib("VmRSS"),
            "idle": started.idle(idle_s),
        }
        if with_burst:
            before = started.cpu_s()
            began = time.monotonic()
            batch([f"route replace 30.{i // 256}.{i % 256}.0/24 dev d0" for i in range(BURST)])
            kernel_s = time.monotonic() - began
            list(started.frames(SETTLE_S))
            agent_s = started.cpu_s() - before
            figures["burst"] = {"changes": BURST, "kernel_s": round(kernel_s, 3), "agent_cpu_s": round(agent_s, 3)}
            figures["peak_rss_mib"] = started.memory_mib("VmHWM")
        return figures


def measure_engine(directory: Path) -> dict[str, object]:
    """The lateness of an engine with sessions while its agent reads a large node for the first time."""
    with Lab.up("kilo-flannel") as lab, Daemons(lab, directory, config="minimal") as daemons:
        daemons.wait_ready(timeout_s=READY_S)
        place = lab.node(CROWDED)
        for tool, lines in large_node():
            place.run([tool, "-batch", "-"], input="\n".join(lines) + "\n", check=True)
        shared = _lateness_beside_dumps(daemons)
        _separate(lab)
        return {
            "node": CROWDED,
            "first_dumps": DUMPS,
            "all_on_all_cpus": shared,
            "a_cpu_for_this_node": _lateness_beside_dumps(daemons),
            "sessions": len(_status(daemons)["sessions"]),
        }


def _separate(lab: Lab) -> None:
    """One CPU for the processes of a node and what they start; the other CPUs for everything else in the lab."""
    alone, *others = sorted(os.sched_getaffinity(0))
    if not others:
        raise LabError("a CPU for one node alone takes a machine of two CPUs or more")
    for pinned in ownership.read(lab.lab_id).namespaces:
        if pinned.kind == "net":
            for found in process.inside_network([pinned.inode]):
                process.keep_to(found.pid, [alone] if pinned.name == CROWDED else others)
    os.sched_setaffinity(0, others)


def _lateness_beside_dumps(daemons: Daemons) -> dict[str, dict[str, float]]:
    """Of a window without any dump, and of those in which an agent was born: the median of them, and the worst."""
    pause_until(time.monotonic_ns() + WINDOW_NS)
    calm = _lateness(daemons)
    told = [_read_anew(daemons) for _ in range(DUMPS)]
    beside = {name: [each[name] for each in told] for name in calm}
    return {
        "calm": calm,
        "beside_first_dumps": {name: round(statistics.median(values), 3) for name, values in beside.items()},
        "worst_of_them": {name: max(values) for name, values in beside.items()},
    }


def _read_anew(daemons: Daemons) -> dict[str, float]:
    """Kill the agent; the lateness when the next one has read everything, which it has before it can be asked."""
    former = daemons.agent_pid(CROWDED)
    os.kill(former, signal.SIGKILL)
    wait_until(lambda: daemons.agent_pid(CROWDED) != former, timeout_s=START_TIMEOUT_S, what="another agent")
    pause_until(time.monotonic_ns() + ROUND_NS)
    return _lateness(daemons)


def _lateness(daemons: Daemons) -> dict[str, float]:
    """Of the last 10 to 20 s, in milliseconds, as the engine has measured it at each wake-up of its timer."""
    counters = _status(daemons)["counters"]
    return {f"{name}_ms": round(counters[f"loop-lateness-{name}-ns"] / 1e6, 3) for name in ("p50", "p99")}


def _status(daemons: Daemons) -> Status:
    return wait_until(lambda: daemons.status(CROWDED), timeout_s=START_TIMEOUT_S, what=f"a word of {CROWDED}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", type=float, default=20.0, metavar="SECONDS", help="how long to watch an idle agent")
    options = parser.parse_args(arguments)
    cpus = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory() as scratch:
        engine = measure_engine(Path(scratch))
    os.sched_setaffinity(0, cpus)
    syscalls.unshare(syscalls.CLONE_NEWNET)
    batch(
        [
            "link set lo up",
            "link add d0 type veth peer name p0",
            "link set p0 up",
            "link set d0 up",
            "link add flannel.1 type vxlan id 1 dstport 8472 nolearning",
            "addr add 10.42.0.0/32 dev flannel.1",
            "link set flannel.1 up",
        ]
    )
    with tempfile.TemporaryDirectory() as scratch:
        small = measure(Path(scratch), options.idle, with_burst=False)
        for tool, lines in large_node():
            batch(lines, tool)
        large = measure(Path(scratch), options.idle, with_burst=True)
    sizes = {"routes": ROUTES, "neighbours": NEIGHBOURS, "fdb_entries": NEIGHBOURS}
    report = {"machine": machine_facts(), "small_node": small, "large_node": {**sizes, **large}, "engine": engine}
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
