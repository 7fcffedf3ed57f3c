"""The guest's side of the vm backend: how a booted kernel becomes a machine that can hold the lab.

virtme-ng boots with the host's root on 9p, read-only and uncached. Both hurt: UNIX sockets cannot be
made there, and every import of a Python module costs dozens of round trips. So a second 9p device
exports the same root once more, this time cached (nobody but the guest matters while it runs), an
overlay on tmpfs makes all of it writable without a trace on the host, and the guest moves in:

    9p, cache=loose (lower) + tmpfs (upper)  ->  overlay  --pivot_root-->  /

pivot_root and not chroot, because setns() into a mount namespace of the lab resets the root
directory to that namespace's own, and that has to be this one.

/var/tmp is a tmpfs of its own there: the upper part of another overlay, a container's for example, cannot be in one.

The directory SHARED is a third 9p device, writable: the command goes in, its output and exit status
come out. virtme-ng has channels of its own for that, but they need udev in the guest.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

# On the guest's kernel command line: unlike an environment variable nobody sets it by accident.
KERNEL_ARGUMENT = "netnslab.guest"

SHARED = Path("/run/netnslab-guest")
HOST_ROOT_TAG = "netnslabroot"

# Loaded before the command starts. Kernels load most on demand, but /dev/net/tun appears with its module.
MODULES = ("wireguard", "ipip", "vxlan", "sch_netem", "tun", "veth", "bridge")

LOWER_9P = f"mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose {HOST_ROOT_TAG} $1"
"""How the guest mounts this machine's root at the folder that is the script's argument."""

BOOT_SCRIPT = f"""\
set -eu
cd /
shared={SHARED}
area=/run/netnslab-root
enter() {{
    mkdir -p $area/lower $area/upper $area/work $area/root
    sh $shared/lower $area/lower
    mount -t overlay -o lowerdir=$area/lower,upperdir=$area/upper,workdir=$area/work netnslab $area/root
    for tree in proc sys dev; do mount --rbind /$tree $area/root/$tree; done
    mount -t tmpfs -o mode=0755 run $area/root/run
    mkdir -p $area/root/run/former $area/root$shared $area/root/lib/modules
    mkdir -m 1777 $area/root/run/tmp $area/root/run/lock
    mount -t tmpfs -o mode=1777 tmp $area/root/var/tmp
    mount --bind $shared $area/root$shared
    ln -sfn "$(cat $shared/modules)" "$area/root/lib/modules/$(uname -r)"
    cd $area/root
    pivot_root . run/former
    umount -l /run/former
    exec chroot . sh $shared/boot inside
}}
inside() {{
    modprobe -a {" ".join(MODULES)}
    cut -d' ' -f1 /proc/uptime >$shared/started
    status=0
    sh $shared/command </dev/null >$shared/stdout 2>$shared/stderr || status=$?
    echo $status >$shared/status.part
    mv $shared/status.part $shared/status
}}
case "$1" in
    start) exec unshare --mount --propagation private sh $shared/boot enter 2>$shared/complaints ;;
    *) "$1" ;;
esac
"""


def in_guest() -> bool:
    """True where this process runs under the kernel of the vm backend."""
    return f"{KERNEL_ARGUMENT}=1" in Path("/proc/cmdline").read_text(encoding="ascii").split()


def prepare_shared(
    directory: Path,
    argv: Sequence[str],
    *,
    modules: Path,
    cwd: Path,
    environment: Mapping[str, str],
    limit_s: float,
    lower: str = LOWER_9P,
) -> None:
    """Fill the shared directory: what the guest is to run, and with what.

    Args:
        directory: SHARED as the host sees it.
        argv: the command.
        modules: directory of the guest kernel's modules, as the host sees it.
        cwd: the command's working directory.
        environment: the command's environment, apart from what the shell of the guest sets.
        limit_s: the guest ends the command then, so that a guest nobody waits for switches itself off.
        lower: see LOWER_9P.
    """
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    run = ["timeout", "--kill-after=5", str(int(limit_s)), *argv]
    lines = [*exports, f"cd {shlex.quote(str(cwd))}", f"exec {shlex.join(run)}"]
    (directory / "command").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (directory / "modules").write_text(str(modules), encoding="utf-8")
    (directory / "boot").write_text(BOOT_SCRIPT, encoding="utf-8")
    (directory / "lower").write_text(lower + "\n", encoding="utf-8")
    for stream in ("stdout", "stderr", "complaints"):
        (directory / stream).touch()


def guest_environment() -> dict[str, str]:
    """What the command inherits of this process's environment: how to find programs, and our own settings."""
    kept = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "LC_ALL", "TERM", "NO_COLOR")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in kept or name.startswith(("NETNSLAB_", "MESHWATCH_"))
    }
    return {"HOME": "/root", "TMPDIR": "/run/tmp", **inherited}
