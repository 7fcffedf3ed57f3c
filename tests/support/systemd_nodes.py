"""The nodes of a laboratory with the daemon of a package as their service, under systemd as process 1.

Either each node is a machine, with the network of its node, and of its folders those of wireguard-go, of flannel and of
the control socket; everything else is a Debian's of its own. Or one machine has a service for each node (`in_one`).
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
from netnslab.namespaces import Kind
from netnslab.traffic_source import Traffic
from tests.support.stage import Stage
from tests.support.systemd_machine import Machine, booted, booting

UNIT = "meshwatchd"
PACKAGES = "/packages"
"""The folder of a machine that `Services.install` finds packages in."""
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
# Of a service that is one of several: the unit that the package has, and beside it what makes a node of it. What the
# unit starts as root sees the machine's own folders, where configuration and key are the same.
ONE_OF_SEVERAL = """
from=/usr/lib/systemd/system/meshwatchd.service folder=/nodes/$1 unit=/etc/systemd/system/meshwatchd-$1.service
cp $from $unit
cp -a /etc/meshwatchd $folder/configuration
sed -i "/^\\[daemon]/anode = \\"$1\\"" $folder/configuration/meshwatchd.toml
mkdir $folder/state
chown meshwatch: $folder/state $folder/runtime
mkdir $unit.d
cat >$unit.d/node.conf <<END
[Service]
NetworkNamespacePath=$folder/network
BindPaths=$folder/runtime:/run/meshwatchd $folder/state:/var/lib/meshwatchd
BindReadOnlyPaths=$folder/configuration:/etc/meshwatchd $folder/flannel:/run/flannel
END
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
    """The services of a package on all nodes of a lab, started with a key and a mode and nothing else.

    Attributes:
        machines: where the service of each node runs.
        units: its name; by default that of the package.
    """

    def __init__(
        self, lab: Lab, directory: Path, machines: Mapping[str, Machine], units: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(lab, directory)
        self.machines = machines
        self.units = units or dict.fromkeys(machines, UNIT)
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
            log = machine.run("journalctl", "--unit", self.units[node], "--no-pager", "--output=short-precise").stdout
            (self._directory / f"journal-{node}.txt").write_text(log, encoding="utf-8")

    def start(self, node: str) -> None:
        """Enable and start the service of one node."""
        self.machines[node].read("systemctl", "enable", "--now", "--quiet", self.units[node])

    def restart(self, node: str) -> None:
        """As an operator restarts it."""
        self.machines[node].read("systemctl", "restart", self.units[node])

    def install(self, node: str, package: str) -> None:
        """Install a package of those bound in at PACKAGES; its service is started again by itself, others by us."""
        self.machines[node].read("dpkg", "--force-unsafe-io", "--install", f"{PACKAGES}/{package}.deb")
        if self.units[node] != UNIT:
            self.restart(node)

    def property(self, node: str, name: str) -> str:
        """A property of the service of a node."""
        return self.machines[node].property(name, self.units[node])

    def journal(self, node: str) -> str:
        """What the service of a node has told."""
        return self.machines[node].read("journalctl", "--unit", self.units[node], "--no-pager", "--output=cat")

    def kill(self, node: str, process: Process | str = Process.ENGINE) -> None:
        """SIGKILL to one of a node's two processes."""
        self.machines[node].read("kill", "-KILL", self.process(node, process))

    def process(self, node: str, process: Process | str) -> str:
        """The id, inside its machine, of one of a node's two processes; empty while there is none."""
        engine = self.property(node, "MainPID")
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
            machine.sh("sed -n 's/^usage_usec //p' /sys/fs/cgroup/cpu.stat") for machine in set(self.machines.values())
        ]
        return sum(map(int, counts)) / 1e6

    def _last_words(self, node: str) -> str:
        return self.machines[node].run("journalctl", "--unit", self.units[node], "--no-pager", "--lines=5").stdout


@contextmanager
def services(
    directory: Path, bases: Sequence[str], packages: Path, *, rate: int = 100
) -> Iterator[tuple[Stage, Services]]:
    """A lab whose nodes are machines with the package installed; the services are for the caller to start.

    Args:
        directory: for what they leave.
        bases: the roots below them (`systemd_machine.install`), which they have in turn.
        packages: a folder with `now.deb` and `later.deb`.
        rate: of the traffic between pods, per second.
    """
    shared = f"--bind-ro={packages}:{PACKAGES}"
    with Lab.up("kilo-flannel") as lab, ExitStack() as stack:
        untouched = {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}
        in_turn = zip(lab.topology.nodes, cycle(bases), strict=False)
        waiting = {node: stack.enter_context(_begun(lab.node(node), base, shared)) for node, base in in_turn}
        machines = {node: await_boot() for node, await_boot in waiting.items()}
        for node, machine in machines.items():
            machine.write(CONFIG, CONFIGURATION)
            machine.write(KEY, lab.node(node).run(["cat", KEY], check=True).stdout, "600")
            machine.sh(LET_IN)
        watching = Services(lab, directory, machines)
        traffic = stack.enter_context(Traffic(lab, directory, rate=rate))
        yield Stage(lab=lab, daemons=watching, traffic=traffic, directory=directory, untouched=untouched), watching


@contextmanager
def in_one(directory: Path, base: str, packages: Path, *, rate: int = 100) -> Iterator[tuple[Stage, Services]]:
    """As `services`, in one machine: a copy of the unit for each node, in the network of that node."""
    with Lab.up("kilo-flannel") as lab, ExitStack() as stack:
        places = {node: lab.node(node) for node in lab.topology.nodes}
        untouched = {node: kernel_objects(place) for node, place in places.items()}
        bound = [option for place in places.values() for option in _folders(place, directory / "nodes")]
        machine = stack.enter_context(booted("several", base, f"--bind-ro={packages}:{PACKAGES}", *bound))
        machine.write(CONFIG, CONFIGURATION)
        machine.write(KEY, next(iter(places.values())).run(["cat", KEY], check=True).stdout, "600")
        for node in places:
            machine.read("sh", "-euc", ONE_OF_SEVERAL, "unit", node)
        machine.read("systemctl", "daemon-reload")
        units = {node: f"{UNIT}-{node}" for node in places}
        watching = Services(lab, directory, dict.fromkeys(places, machine), units)
        traffic = stack.enter_context(Traffic(lab, directory, rate=rate))
        yield Stage(lab=lab, daemons=watching, traffic=traffic, directory=directory, untouched=untouched), watching


def _folders(place: Inhabitant, directory: Path) -> list[str]:
    """Options of a boot: a node's network and the folders that it shares with its service, of which there are two."""
    here = directory / place.name
    runtime, flannel = here / "runtime", here / "flannel"
    runtime.mkdir(parents=True)
    place.run(["mount", "--bind", str(runtime), "/run/meshwatchd"], check=True)
    place.run(["cp", "-a", "/run/flannel", str(flannel)], check=True)
    bound = {place.space.path(Kind.NET): "network", runtime: "runtime", flannel: "flannel"}
    return [f"--bind={source}:/nodes/{place.name}/{name}" for source, name in bound.items()]
