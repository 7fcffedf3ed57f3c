"""A machine of its own: systemd as process 1 in a container, on the bare Debian root of scripts/systemd-root.

It has files, processes and, unless it is a node of a laboratory, a network of its own. systemd-nspawn needs a tree of
control groups that it may write to: a cgroup2 one is mounted where nobody else sees it, with or without controllers,
so that it does not matter how the host has arranged its own, nor whether a systemd runs there.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from netnslab.waiting import wait_until
from tests.meta.tree import ROOT

BOOT_S = 60.0
END_S = 20.0

# In a mount namespace of its own, so that mounts end with the container.
START = """
set -eu
name=$1 base=$2 folder=$3
shift 3
mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir "/sys/fs/cgroup/$name"
echo 0 >"/sys/fs/cgroup/$name/cgroup.procs"
exec systemd-nspawn --quiet --boot --directory="$folder/root" --machine="$name" --hostname="$name" \
    --register=no --keep-unit --console=pipe --bind=/dev/net/tun --capability=CAP_IPC_LOCK "$@"
"""
CLEAR = """
mount -t cgroup2 cgroup2 /sys/fs/cgroup
find "/sys/fs/cgroup/$1" -depth -type d -delete
"""

Starter = Callable[[Sequence[str]], "subprocess.Popen[str]"]


class Machine:
    """A container in which systemd has started what is enabled."""

    def __init__(self, leader: int) -> None:
        self.leader = leader

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument vector that runs a command inside, as root."""
        inside = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG=C.UTF-8", *argv]
        return ["nsenter", "--target", str(self.leader), "--all", "--root", "--wd", "--", *inside]

    def run(self, *argv: str, text: str = "", timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; the output is kept, and a failure is the caller's to judge."""
        return subprocess.run(
            self.command(argv), capture_output=True, text=True, input=text, check=False, timeout=timeout
        )

    def read(self, *argv: str) -> str:
        """What a command prints that has to succeed."""
        ran = self.run(*argv)
        assert 0 == ran.returncode, f"{' '.join(argv)}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def sh(self, script: str) -> str:
        """What a shell script prints that has to succeed."""
        return self.read("sh", "-euc", script)

    def property(self, name: str, unit: str = "meshwatchd") -> str:
        """A property of a unit (systemctl show)."""
        return self.read("systemctl", "show", "--property", name, "--value", unit).strip()

    def write(self, path: str, text: str, mode: str = "644") -> None:
        """Write a file, whose folder is made if need be."""
        ran = self.run(
            "sh", "-euc", f"umask 022; mkdir -p $(dirname {path}); cat >{path}; chmod {mode} {path}", text=text
        )
        assert 0 == ran.returncode, ran.stderr


@contextmanager
def booted(name: str, base: Path, *options: str, start: Starter | None = None) -> Iterator[Machine]:
    """A machine that has booted; it ends, and nothing is left of it, with the context.

    Args:
        name: its host name, and that of its control group.
        base: the root below it, which stays as it is.
        options: more of systemd-nspawn, such as what is bound from outside.
        start: runs a command in the namespaces where the machine is to be; by default here, with a network of its own.
    """
    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir="/var/tmp") as given:
        folder = Path(given)
        for each in ("upper", "work", "root"):
            (folder / each).mkdir(mode=0o755)
        log = folder / "console"
        script = ["unshare", "--mount", "sh", "-c", START, "start", name, str(base), str(folder)]
        with log.open("w") as console:
            if start is None:
                command = [*script, "--private-network", *options]
                nspawn = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, text=True)
            else:
                nspawn = start([*script, *options])
        try:
            yield _await_boot(nspawn, log)
        finally:
            _end(nspawn)
            subprocess.run(["unshare", "--mount", "sh", "-euc", CLEAR, "clear", name], check=True)


def debian_root(*packages: str) -> Path:
    """The root that machines are made of, with packages; made by the first caller, which takes a minute."""
    made = subprocess.run([ROOT / "scripts/systemd-root", *packages], capture_output=True, text=True, check=False)
    assert 0 == made.returncode, made.stdout + made.stderr
    return Path(made.stdout.splitlines()[-1])


def _await_boot(nspawn: subprocess.Popen[str], log: Path) -> Machine:
    def leader() -> int | None:
        assert nspawn.poll() is None, f"systemd-nspawn ended with {nspawn.returncode}: {log.read_text()}"
        return next((child for child in _children(nspawn.pid) if _is_first(child)), None)

    machine = Machine(wait_until(leader, timeout_s=BOOT_S, what="the first process of a container"))

    def settled() -> str:
        asked = machine.run("systemctl", "is-system-running")
        return asked.stdout.strip() if asked.stdout.strip() in {"running", "degraded"} else ""

    state = wait_until(settled, timeout_s=BOOT_S, what="systemd to have started everything", poll_s=0.2)
    assert "running" == state, machine.run("systemctl", "--failed", "--no-pager").stdout
    return machine


def _is_first(pid: int) -> bool:
    """Whether a process is the first of a PID namespace below ours, and systemd already."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return fields["Name"].strip() == "systemd" and fields["NSpid"].split()[-1] == "1"
    return False


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
    return []


def _end(nspawn: subprocess.Popen[str]) -> None:
    """systemd-nspawn ends the whole container at SIGTERM; what is deaf to that is killed with it."""
    nspawn.terminate()
    try:
        nspawn.wait(END_S)
    except subprocess.TimeoutExpired:
        nspawn.kill()
        nspawn.wait()
