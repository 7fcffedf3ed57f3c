"""Commands under a kernel that is a program: what the vm backend does, without emulation of a processor.

user-mode-linux runs what it holds on this machine's own processor, and takes its system calls and page faults itself.
So a guest computes at the speed of this machine, while each call costs several times what it costs here; it has one
processor. By its own clock all of that takes no time (`debian_uml`).

The guest boots as that of the vm backend does (`guest`), with hostfs in place of 9p, and INIT in place of virtme-ng's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from netnslab.backends import debian_uml
from netnslab.backends.debian_uml import UserModeKernel
from netnslab.backends.guest import KERNEL_ARGUMENT, SHARED, guest_environment, prepare_shared
from netnslab.backends.model import BackendError
from netnslab.backends.qemu import Guest, GuestRun
from netnslab.shutdown import sigterm_as_exit

MEMORY: Final = "3G"
BOOT_LIMIT_S: Final = 120
"""It takes 4 s on a calm machine."""

# hostfs ignores "ro" among its options; a remount of the mount point is what keeps the guest from this machine's files.
LOWER_HOSTFS: Final = "mount -t hostfs -o / none $1 && mount -o remount,bind,ro $1"

INIT: Final = """\
#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=0755 run /run
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm {shared}
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
ln -sfn /proc/self/fd /dev/fd
ln -sfn /proc/self/fd/0 /dev/stdin
ln -sfn /proc/self/fd/1 /dev/stdout
ln -sfn /proc/self/fd/2 /dev/stderr
ip link set lo up
mount -t hostfs -o {directory} none {shared}
sh {shared}/boot start
busybox poweroff -f
"""


def run_in_user_mode(
    argv: Sequence[str],
    *,
    timeout_s: float = 240,
    cwd: Path | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    echo: bool = True,
) -> GuestRun:
    """Run one command as root under a kernel of its own; arguments and errors as `vm.run_in_guest`.

    `timeout_s` is of this machine's clock.
    """
    kernel = debian_uml.obtain()
    with sigterm_as_exit(), tempfile.TemporaryDirectory(prefix="netnslab-guest-") as scratch:
        shared = Path(scratch) / "shared"
        shared.mkdir()
        prepare_shared(
            shared,
            argv,
            modules=kernel.modules,
            cwd=cwd or Path.cwd(),
            environment={**guest_environment(), **environment},
            limit_s=debian_uml.GUEST_LIMIT_S,
            lower=LOWER_HOSTFS,
        )
        write_init(shared)
        guest = Guest(shared, sys.stdout if echo else None, sys.stderr if echo else None)
        with guest.booted(command_line(kernel, shared)):
            if not guest.has_started(BOOT_LIMIT_S):
                raise BackendError(f"the guest did not boot within {BOOT_LIMIT_S} s\n{guest.last_words()}")
            return guest.outcome(timeout_s)


def write_init(shared: Path) -> None:
    """Write the guest's first process: a script."""
    init = shared / "init"
    init.write_text(INIT.format(shared=SHARED, directory=shared), encoding="utf-8")
    init.chmod(0o755)


def command_line(kernel: UserModeKernel, shared: Path) -> list[str]:
    """What to run here; `shared` is our end of the folder that both see."""
    return [
        str(kernel.program),
        f"mem={MEMORY}",
        *("rootfstype=hostfs", "rootflags=/", "ro", f"init={shared / 'init'}"),
        *("con=null", "con0=null,fd:1", "quiet", "selinux=0"),
        f"uml_dir={shared / 'uml'}/",
        f"{KERNEL_ARGUMENT}=1",
        *debian_uml.ARGUMENTS,
    ]
