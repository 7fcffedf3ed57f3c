"""A machine of its own: systemd as process 1 in a container, on the bare Debian root of scripts/systemd-root.

It has files, processes and, unless it is a node of a laboratory, a network of its own. systemd-nspawn needs a tree of
control groups that it may write to: a cgroup2 one is mounted where nobody else sees it, with or without controllers,
so that it does not matter how the host has arranged its own, nor whether a systemd runs there.

A machine ends with the process that has booted it, however that ends: it is a namespace of process ids whose first
process dies with its parent, and the kernel ends all others with that. Mounts end with the last of them. A folder and
a control group are left then, of one name that no other machine has; the next boot removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from netnslab.process import children_of
from netnslab.waiting import wait_until
from tests.meta.tree import ROOT

BOOT_S = 60.0
END_S = 20.0
FOLDERS = Path("/var/tmp")
"""Of machines. A guest's own root is an overlay, which the upper part of another one cannot be in."""
FOR_MACHINES = re.compile(r'\{"|at_ns=|^<\d>', re.MULTILINE)
"""What a journal that people read has nowhere: JSON, numbers of nanoseconds, priorities as digits."""
PREFIX = "meshwatchd-machine-"
"""Of the folder of each machine, and of its control group."""

# unshare dies with the process that starts it, and what it starts dies with unshare. Nothing that is mounted here, nor
# what systemd-nspawn leaves in /run/systemd, is seen by the host.
ALONE = (
    *("setpriv", "--pdeathsig", "KILL", "--"),
    *("unshare", "--mount", "--pid", "--kill-child", "--mount-proc", "sh", "-euc"),
)
START = """
name=$1 base=$2 folder=$3
shift 3
mount -t overlay overlay -o "lowerdir=$base,upperdir=$folder/upper,workdir=$folder/work" "$folder/root"
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=/sys/fs/cgroup/${folder##*/}
mkdir "$group"
echo 0 >"$group/cgroup.procs"
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
exec systemd-nspawn --quiet --boot --directory="$folder/root" --machine="$name" --hostname="$name" \
    --register=no --keep-unit --console=pipe --bind=/dev/net/tun --capability=CAP_IPC_LOCK,CAP_NET_ADMIN "$@"
"""
INSTALL = """
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cp "$3" "$2/root/package.deb"
chroot "$2/root" dpkg --force-unsafe-io --install /package.deb
rm "$2/root/package.deb"
"""
# What neither the package nor its unit asks for, and each boot spends seconds on where a system call is dear.
SPARE = """
cd "$2/root"
mkdir -p etc/systemd/system etc/systemd/system-generators
for each in usr/lib/systemd/system-generators/*; do ln -s /dev/null "etc/systemd/system-generators/${each##*/}"; done
for each in dbus.socket dbus.service systemd-logind.service systemd-user-sessions.service systemd-sysusers.service \
    systemd-remount-fs.service systemd-sysctl.service systemd-journal-flush.service systemd-update-utmp.service \
    systemd-update-utmp-runlevel.service systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup-dev-early.service; do
    ln -s /dev/null "etc/systemd/system/$each"
done
"""
CLEAR = """
mount -t cgroup2 cgroup2 /sys/fs/cgroup
test ! -d "/sys/fs/cgroup/$1" || find "/sys/fs/cgroup/$1" -depth -type d -delete
"""

Starter = Callable[..., "subprocess.Popen[str]"]


class Machine:
    """A container in which systemd has started what is enabled."""

    def __init__(self, leader: int, process: subprocess.Popen[str]) -> None:
        self.leader = leader
        self.process = process

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
def booted(name: str, base: Path | str, *options: str, start: Starter | None = None) -> Iterator[Machine]:
    """A machine that has booted; it ends, and nothing is left of it, with the context. Arguments as `booting`."""
    with booting(name, base, *options, start=start) as await_boot:
        yield await_boot()


@contextmanager
def booting(
    name: str, base: Path | str, *options: str, start: Starter | None = None
) -> Iterator[Callable[[], Machine]]:
    """A machine that has begun to boot, as what waits until it has; it ends as one that is `booted`.

    Several boot at once where all have begun before the first is waited for. The thread that begins has to live as long
    as the machine, which dies with it.

    Args:
        name: its host name.
        base: the root below it, which stays as it is; several are joined by colons, the uppermost first.
        options: more of systemd-nspawn, such as what is bound from outside.
        start: as Popen, in the namespaces where the machine is to be; by default here, with a network of its own.
    """
    _remove_abandoned()
    with _folder() as folder:
        log = folder / "console"
        script = [*ALONE, START, "start", name, str(base), str(folder)]
        if start is None:
            start, options = partial(subprocess.Popen, stdin=subprocess.DEVNULL), ("--private-network", *options)
        with log.open("w") as console:
            process = start([*script, *options], stdout=console, stderr=console, text=True)
        try:
            yield partial(_await_boot, process, log)
        finally:
            process.kill()
            process.wait()


def install(package: Path, base: Path, folder: Path, *, is_spare: bool = False) -> str:
    """The roots of machines that have a package: what the installation has added, in a folder, above `base`.

    Args:
        package: a .deb.
        base: the root below it.
        folder: which is empty.
        is_spare: the machines start nothing of their own but what the package needs (SPARE).
    """
    _prepare(folder)
    script = [*ALONE, INSTALL + SPARE * is_spare, "install", str(base), str(folder), str(package)]
    ran = subprocess.run(script, capture_output=True, text=True, check=False)
    assert 0 == ran.returncode, ran.stdout + ran.stderr
    return f"{folder}/upper:{base}"


def debian_root(*packages: str, suite: str = "bookworm") -> Path:
    """The root that machines are made of, with packages; made by the first caller, which takes a minute."""
    command = [str(ROOT / "scripts/systemd-root"), "--suite", suite, *packages]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == made.returncode, made.stdout + made.stderr
    return Path(made.stdout.splitlines()[-1])


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for the files of one machine, held as long as this process lives, at most."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=FOLDERS))
    with _held(folder) as is_ours:
        assert is_ours
        _prepare(folder)
        try:
            yield folder
        finally:
            _remove(folder)


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Whether nobody else holds a folder; if so it is held for as long as the context lasts."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield True
    except BlockingIOError:
        yield False
    finally:
        os.close(descriptor)


def _prepare(folder: Path) -> None:
    for each in ("upper", "work", "root"):
        (folder / each).mkdir(mode=0o755)


def _remove_abandoned() -> None:
    """Remove what machines have left whose run was killed."""
    for folder in FOLDERS.glob(f"{PREFIX}*"):
        with contextlib.suppress(FileNotFoundError), _held(folder) as is_ours:
            if is_ours:
                _remove(folder)


def _remove(folder: Path) -> None:
    """Remove folder and control group of a machine that has ended; the last of its processes may still be ending."""

    def is_cleared() -> bool:
        cleared = subprocess.run([*ALONE, CLEAR, "clear", folder.name], capture_output=True, check=False)
        return cleared.returncode == 0

    wait_until(is_cleared, timeout_s=END_S, what=f"the end of the control group {folder.name}", poll_s=0.1)
    shutil.rmtree(folder)


def _await_boot(process: subprocess.Popen[str], log: Path) -> Machine:
    def leader() -> int | None:
        assert process.poll() is None, f"systemd-nspawn ended with {process.returncode}: {log.read_text()}"
        return next((pid for nspawn in children_of(process.pid) for pid in children_of(nspawn) if _is_first(pid)), None)

    machine = Machine(wait_until(leader, timeout_s=BOOT_S, what="the first process of a container"), process)

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
