"""The nodes of a laboratory as machines with systemd, each with the daemon of a package as its service.

A machine has the network of its node, and of its folders those of wireguard-go, of flannel and of the control socket.
Everything else is a Debian's of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from subprocess import Popen
from types import TracebackType
from typing import IO, Self, cast

from netnslab import Lab, varlink
from netnslab.daemons import AGENT_MODULE, INTERFACE, SOCKET, Daemons, Process
from netnslab.inhabitant import Inhabitant
from netnslab.live_state import kernel_objects
from netnslab.traffic_source import Traffic
from tests.support.stage import Stage
from tests.support.systemd_machine import Machine, booting

CONFIG, KEY = "/etc/meshwatchd/meshwatchd.toml", "/etc/meshwatchd/mesh.key"
SHARED = ("/run/wireguard", "/run/meshwatchd", "/run/flannel")
CONFIGURATION = '[daemon]\nmode = "enforce"\n'
# A wireguard-go that root has started has a socket for root alone, and ends when that socket's owner changes:
# docs/install.md names the drop-in for such nodes. Where the kernel has WireGuard the unit stays as it is.
LET_IN = """
test -S /run/wireguard/kilo0.sock || exit 0
install -D -m 644 -t /etc/systemd/system/meshwatchd.service.d /usr/share/doc/meshwatchd/examples/root.conf
systemctl daemon-reload
"""


def _start(place: Inhabitant, argv: Sequence[str], *, stdout: IO[str], stderr: IO[str], text: bool) -> Popen[str]:
    """As Popen, in a node; text is what its pipes carry anyway."""
    assert text
    return place.popen(argv, stdout=stdout, stderr=stderr)


def _begun(place: Inhabitant, base: Path | str, *options: str) -> AbstractContextManager[Callable[[], Machine]]:
    """The machine of a node, which has begun to boot."""
    bound = (f"--bind={folder}" for folder in SHARED if place.run(["test", "-d", folder]).returncode == 0)
    network = "--network-namespace-path=/proc/self/ns/net"
    return booting(place.name, base, network, *bound, *options, start=partial(_start, place))


class Services(Daemons):
    """The services of a package on all nodes of a lab, started with a key and a mode and nothing else."""

    def __init__(self, lab: Lab, directory: Path, machines: Mapping[str, Machine]) -> None:
        super().__init__(lab, directory)
        self.machines = machines
        # Whether a node's machine runs is asked by what runs it.
        self._engines = {name: machine.process for name, machine in machines.items()}

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        for node in self.nodes:
            self.start(node)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for node, machine in self.machines.items():
            log = machine.run("journalctl", "--unit=meshwatchd", "--no-pager", "--output=short-precise").stdout
            (self._directory / f"journal-{node}.txt").write_text(log, encoding="utf-8")

    def start(self, node: str) -> None:
        """Enable and start the service of one node."""
        self.machines[node].read("systemctl", "enable", "--now", "--quiet", "meshwatchd")

    def restart(self, node: str) -> None:
        """As an operator restarts it."""
        self.machines[node].read("systemctl", "restart", "meshwatchd")

    def kill(self, node: str, process: Process | str = Process.ENGINE) -> None:
        """SIGKILL to one of a node's two processes."""
        self.machines[node].read("kill", "-KILL", self.process(node, process))

    def process(self, node: str, process: Process | str) -> str:
        """The id, inside its machine, of one of a node's two processes; empty while there is none."""
        engine = self.machines[node].property("MainPID")
        if engine == "0":
            return ""
        if Process(process) is Process.ENGINE:
            return engine
        return self.machines[node].run("pgrep", "--parent", engine, "--full", AGENT_MODULE).stdout.strip()

    def versions(self, node: str) -> dict[str, str]:
        """The version of each other node, as one has heard it."""
        (reply,) = varlink.call(self._lab.node(node), SOCKET, f"{INTERFACE}.Nodes")
        nodes = cast("list[dict[str, str]]", reply["nodes"])
        return {each["name"]: each["version"] for each in nodes if each["name"] != node}

    def used_s(self) -> float:
        """Processor time of all machines since they booted, in seconds."""
        counts = [
            machine.sh("sed -n 's/^usage_usec //p' /sys/fs/cgroup/cpu.stat") for machine in self.machines.values()
        ]
        return sum(map(int, counts)) / 1e6

    def _last_words(self, node: str) -> str:
        return self.machines[node].run("journalctl", "--unit=meshwatchd", "--no-pager", "--lines=5").stdout


@contextmanager
def services(directory: Path, bases: Sequence[str], *options: str, rate: int = 100) -> Iterator[tuple[Stage, Services]]:
    """A lab whose nodes are machines with the package installed; the services are for the caller to start.

    Args:
        directory: for what they leave.
        bases: the roots below them (`systemd_machine.install`), which they have in turn.
        options: of each boot.
        rate: of the traffic between pods, per second.
    """
    with Lab.up("kilo-flannel") as lab, ExitStack() as stack:
        untouched = {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}
        in_turn = zip(lab.topology.nodes, cycle(bases), strict=False)
        waiting = {node: stack.enter_context(_begun(lab.node(node), base, *options)) for node, base in in_turn}
        machines = {node: await_boot() for node, await_boot in waiting.items()}
        for node, machine in machines.items():
            machine.write(CONFIG, CONFIGURATION)
            machine.write(KEY, lab.node(node).run(["cat", KEY], check=True).stdout, "600")
            machine.sh(LET_IN)
        watching = Services(lab, directory, machines)
        traffic = stack.enter_context(Traffic(lab, directory, rate=rate))
        yield Stage(lab=lab, daemons=watching, traffic=traffic, directory=directory, untouched=untouched), watching
