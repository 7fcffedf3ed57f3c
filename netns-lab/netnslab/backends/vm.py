"""Backend `vm`: commands under a stock distribution kernel in QEMU, started by virtme-ng.

Works without hardware virtualisation, at a twentieth of the speed: time limits have to be generous and
no performance figure may come from it. A guest is booted for each command and is gone after it, so
whole test runs are what to run there, not single steps.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from netnslab.backends import debian_kernel, host
from netnslab.backends.guest import guest_environment, in_guest, prepare_shared
from netnslab.backends.model import Backend, BackendError, BackendName, Needs, WireGuard
from netnslab.backends.qemu import (
    BOOT_LIMIT_KVM_S,
    BOOT_LIMIT_S,
    Guest,
    GuestRun,
    accelerations,
    command_line,
    find_vng,
)
from netnslab.shutdown import sigterm_as_exit

# Programs the host needs, with the Debian packages that bring them. virtme-ng comes with the development
# dependencies of this project; busybox makes its initramfs, `file` tells it a kernel's version.
TOOLS = MappingProxyType(
    {
        "qemu-system-x86_64": "qemu-system-x86",
        "busybox": "busybox-static",
        "modprobe": "kmod",
        "file": "file",
    }
)


def offer(needs: Needs) -> Backend:
    """The guest as a backend, judged by what is installed; nothing is booted or downloaded.

    A stock kernel lacks nothing a topology can need. Inside the guest that is checked.

    Raises:
        BackendError: something is missing; says what to install.
    """
    if in_guest():
        return host.offer(needs)
    problems = missing()
    if problems:
        raise BackendError("; ".join(problems))
    return Backend(
        name=BackendName.VM,
        wireguard=WireGuard.KERNEL,
        has_ipip=True,
        has_netem=True,
        is_here=False,
        reason="QEMU with a stock kernel: slow, but it has everything",
        run=_run,
    )


def missing() -> list[str]:
    """What keeps a guest from booting here, one remedy each; empty when nothing does."""
    absent = sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)
    problems = [f"apt-get install {' '.join(absent)}"] if absent else []
    if find_vng() is None:
        problems.append("pip install virtme-ng")
    if not (os.environ.get("NETNSLAB_KERNEL") or debian_kernel.cached() or debian_kernel.can_fetch()):
        problems.append("set NETNSLAB_KERNEL to a kernel image: without apt none can be fetched")
    return problems


def describe_kernel() -> str:
    """The kernel a guest would boot, without fetching it."""
    if chosen := os.environ.get("NETNSLAB_KERNEL"):
        return f"NETNSLAB_KERNEL={chosen}"
    kernel = debian_kernel.cached()
    return f"kernel {kernel.release}" if kernel else "kernel not fetched yet (70 MB, once)"


def run_in_guest(
    argv: Sequence[str],
    *,
    timeout_s: float = 240,
    cwd: Path | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    echo: bool = True,
) -> GuestRun:
    """Boot a guest, run one command in it as root, and switch it off.

    The guest sees the files of this machine where they are; whatever it writes is lost with it, but for the
    command's output and exit status. It has no network but what it builds.

    Args:
        argv: the command; programs are looked up on PATH as here.
        timeout_s: limit for the command, boot not counted.
        cwd: directory the command starts in; default: this process's.
        environment: in addition to `guest_environment()`.
        echo: pass the output on while it appears.

    Raises:
        BackendError: the guest did not boot or died, or the command took too long. The message ends with the
            guest's last words.
    """
    with started(argv, limit_s=timeout_s, cwd=cwd, environment=environment, echo=echo) as guest:
        return guest.outcome(timeout_s)


@contextlib.contextmanager
def started(
    argv: Sequence[str],
    *,
    limit_s: float,
    cwd: Path | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    echo: bool = True,
) -> Iterator[Guest]:
    """A guest in which a command has just started, for the length of the context; arguments as `run_in_guest`.

    Raises:
        BackendError: something is not installed, or no guest would boot.
    """
    problems = missing()
    if problems:
        raise BackendError("the vm backend cannot be used: " + "; ".join(problems))
    kernel = debian_kernel.obtain()
    with sigterm_as_exit(), tempfile.TemporaryDirectory(prefix="netnslab-guest-") as scratch:
        for attempt, accelerated in enumerate(accelerations()):
            shared = Path(scratch) / str(attempt)
            shared.mkdir()
            prepare_shared(
                shared,
                argv,
                modules=kernel.modules,
                cwd=cwd or Path.cwd(),
                environment={**guest_environment(), **environment},
                limit_s=limit_s + BOOT_LIMIT_S,
            )
            guest = Guest(shared, sys.stdout if echo else None, sys.stderr if echo else None)
            with guest.booted(command_line(kernel.image, shared, accelerated=accelerated)):
                if guest.has_started(BOOT_LIMIT_KVM_S if accelerated else BOOT_LIMIT_S):
                    yield guest
                    return
        raise BackendError(f"the guest did not boot within {BOOT_LIMIT_S} s\n{guest.last_words()}")


def _run(argv: Sequence[str], *, timeout_s: float) -> int:
    return run_in_guest(argv, timeout_s=timeout_s).returncode
