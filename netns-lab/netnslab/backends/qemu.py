"""One guest: how virtme-ng is asked for it, what it shares with us, and how it ends."""

from __future__ import annotations

import codecs
import contextlib
import os
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from netnslab.backends.guest import HOST_ROOT_TAG, KERNEL_ARGUMENT, SHARED
from netnslab.backends.model import BackendError

# Emulated, the command starts 5 to 7 s after power-on on an idle machine, several times that on a busy one.
BOOT_LIMIT_S = 120
# With hardware virtualisation it takes 2 s. A nested hypervisor may offer /dev/kvm and hang after the BIOS.
BOOT_LIMIT_KVM_S = 20
POWER_OFF_LIMIT_S = 10
PID_FILE = "qemu.pid"

TERMINAL = "terminal"
"""The socket that is /dev/hvc0 inside."""

POLL_S = 0.1
MEMORY = "1G"
CPUS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestRun:
    """What became of a command in a guest.

    Attributes:
        returncode: the command's own exit status.
        boot_s: seconds from power-on until the command started, by the guest's clock.
        total_s: seconds from the call to the end of QEMU, by ours.
    """

    returncode: int
    stdout: str
    stderr: str
    boot_s: float
    total_s: float


class Guest:
    """One QEMU process group and the directory it shares with us."""

    def __init__(self, shared: Path, stdout: TextIO | None, stderr: TextIO | None) -> None:
        self._shared = shared
        self._relays = [_Relay(shared / name, sink) for name, sink in (("stdout", stdout), ("stderr", stderr)) if sink]
        self._process: subprocess.Popen[bytes] | None = None
        self._power_on = time.monotonic()

    @contextlib.contextmanager
    def booted(self, command: Sequence[str]) -> Iterator[None]:
        """Power on; at exit nothing of the group is left, however the block was left."""
        # vng runs virtme-run through a shell, and both look their helpers up on PATH.
        path = f"{sysconfig.get_path('scripts')}:{os.environ.get('PATH', os.defpath)}"
        with (self._shared / "console").open("wb") as console:
            self._process = subprocess.Popen(
                command,
                cwd="/",
                # What a killed virtme-run leaves behind goes away with our own directory.
                env={**os.environ, "PATH": path, "TMPDIR": str(self._shared.parent)},
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
            )
        try:
            yield
        finally:
            self._power_off()

    @property
    def terminal(self) -> Path:
        """A UNIX socket; its other end is the guest's terminal /dev/hvc0."""
        return self._shared / TERMINAL

    def has_started(self, limit_s: float) -> bool:
        """Wait until the command starts; False when the guest ended or hung before."""
        return self._wait_for("started", limit_s)

    def outcome(self, limit_s: float) -> GuestRun:
        """Wait for the command's end, passing its output on."""
        if not self._wait_for("status", limit_s):
            problem = "died" if self._has_ended() else f"is still busy after {limit_s:.0f} s"
            raise BackendError(f"the command in the guest {problem}\n{self.last_words()}")
        return GuestRun(
            returncode=int(self._read("status")),
            stdout=self._read("stdout"),
            stderr=self._read("stderr"),
            boot_s=float(self._read("started")),
            total_s=time.monotonic() - self._power_on,
        )

    def last_words(self) -> str:
        """The end of everything the guest has said, for an error message."""
        said = [f"--- {name}\n{self._read(name)[-2000:]}" for name in ("console", "complaints", "stdout", "stderr")]
        return "\n".join(said)

    def _power_off(self) -> None:
        """The guest switches itself off when its command has ended, and is made to otherwise.

        QEMU alone is killed at first: whoever has started it then ends in good order and leaves nothing behind.
        """
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            if (self._shared / "status").exists():
                self._process.wait(POWER_OFF_LIMIT_S)
        with contextlib.suppress(subprocess.TimeoutExpired, FileNotFoundError):
            if not self._has_ended():
                os.kill(int(self._read(PID_FILE)), signal.SIGKILL)
                self._process.wait(POWER_OFF_LIMIT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _wait_for(self, file: str, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while not (self._shared / file).exists():
            if self._has_ended() and not (self._shared / file).exists():
                return False
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
            self._pass_on()
        self._pass_on()
        return True

    def _has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _pass_on(self) -> None:
        for relay in self._relays:
            relay.pass_on()

    def _read(self, name: str) -> str:
        return (self._shared / name).read_text(encoding="utf-8", errors="replace")


class _Relay:
    """Follows a growing file; a character cut in half by the poll waits for its other half."""

    def __init__(self, source: Path, sink: TextIO) -> None:
        self._source = source
        self._sink = sink
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def pass_on(self) -> None:
        """Write to the sink what has been added since the last call."""
        with self._source.open("rb") as stream:
            stream.seek(self._offset)
            added = stream.read()
        self._offset += len(added)
        self._sink.write(self._decoder.decode(added))
        self._sink.flush()


def command_line(image: Path, shared: Path, *, accelerated: bool) -> list[str]:
    """What to run on the host so that SHARED/boot runs in the guest; `image` is a kernel, `shared` our end."""
    vng = find_vng()
    assert vng is not None, "vm.missing() has checked"
    root_again = (
        f"-fsdev local,id={HOST_ROOT_TAG},path=/,security_model=none,readonly=on,multidevs=remap "
        f"-device virtio-9p-pci,fsdev={HOST_ROOT_TAG},mount_tag={HOST_ROOT_TAG} "
        f"-pidfile {shared / PID_FILE} "
        f"-chardev socket,id=terminal,path={shared / TERMINAL},server=on,wait=off "
        "-device virtio-serial-pci -device virtconsole,chardev=terminal"
    )
    return [
        vng,
        f"--run={image}",
        *([] if accelerated else ["--disable-kvm"]),
        "--disable-microvm",  # the devices below are PCI's
        "--verbose",  # the console is the only witness of a guest that dies young
        "--force-9p",  # else a QEMU with the old virtiofsd costs five seconds of waiting for it
        "--user=root",
        f"--memory={MEMORY}",
        f"--cpus={CPUS}",
        f"--rwdir={SHARED}={shared}",
        f"--append={KERNEL_ARGUMENT}=1",
        f"--qemu-opts={root_again}",
        "--",
        f"sh {SHARED}/boot start",
    ]


def accelerations() -> tuple[bool, ...]:
    """Whether to try hardware virtualisation, in order; the last is always False."""
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    has_hardware = " vmx" in flags or " svm" in flags
    return (True, False) if has_hardware and os.access("/dev/kvm", os.R_OK | os.W_OK) else (False,)


def find_vng() -> str | None:
    """Beside the running interpreter, where pip puts it, or anywhere on PATH."""
    return shutil.which("vng", path=sysconfig.get_path("scripts")) or shutil.which("vng")
