"""Namespaces that outlive the process that made them, built and entered without helper processes.

A thread unshares, prepares what must be prepared from the inside (mounts, sysctls, the host name), and
waits while the main thread pins its namespaces by bind mounts of /proc/self/task/TID/ns/* onto files:

    main thread                       worker thread
      start ------------------------>   unshare(FS | NET [| NS | UTS]), prepare()
      bind mounts ns files   <-------   ready
      release ---------------------->   ends; the pins keep the namespaces

The same files serve `nsenter`, so a person can enter without this package. The directory of the pins must
be a private mount: the kernel refuses to bind a mount namespace where the bind could propagate into that
namespace itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from netnslab import syscalls
from netnslab.errors import LabError

T = TypeVar("T")


class Kind(StrEnum):
    """Kinds of namespaces the lab uses; the values are the names under /proc/PID/ns."""

    NET = "net"
    MOUNT = "mnt"
    UTS = "uts"


CLONE_FLAGS = MappingProxyType(
    {Kind.NET: syscalls.CLONE_NEWNET, Kind.MOUNT: syscalls.CLONE_NEWNS, Kind.UTS: syscalls.CLONE_NEWUTS}
)

NODE_KINDS = (Kind.NET, Kind.MOUNT, Kind.UTS)
"""A node is a machine: links, files and a host name of its own."""

NETWORK_ONLY = (Kind.NET,)
"""A pod, and the wide area between the locations, need nothing but a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The pinned namespaces of one inhabitant of the lab.

    Attributes:
        name: of the inhabitant: `b3`, `pod/b3`, `wan`.
        directory: where its namespace files are.
        kinds: which of them exist.
    """

    name: str
    directory: Path
    kinds: tuple[Kind, ...]

    def path(self, kind: Kind) -> Path:
        """The file that pins one of its namespaces."""
        return self.directory / f"{self.name.replace('/', '-')}.{kind}"

    def command(self, argv: Sequence[str]) -> list[str]:
        """The argument vector that runs `argv` inside.

        nsenter replaces itself by the command, so the process id of the child is the command's. Entering a
        mount namespace resets the working directory to /, hence `env --chdir`; network namespaces leave it
        alone.
        """
        options = [f"--{_NSENTER_OPTION[kind]}={self.path(kind)}" for kind in self.kinds]
        chdir = ["env", f"--chdir={Path.cwd()}"] if Kind.MOUNT in self.kinds else []
        return ["nsenter", *options, "--", *chdir, *argv]

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in a thread inside these namespaces and return its result.

        Only what the thread itself opens is seen from the inside: files, /proc/self/net, sockets.
        """
        return _in_thread(lambda: self._enter_and(function))

    def _enter_and(self, function: Callable[[], T]) -> T:
        descriptors = [(kind, os.open(self.path(kind), os.O_RDONLY | os.O_CLOEXEC)) for kind in self.kinds]
        try:
            syscalls.unshare(syscalls.CLONE_FS)  # setns(CLONE_NEWNS) demands an unshared fs_struct
            for kind, descriptor in descriptors:
                syscalls.setns(descriptor, CLONE_FLAGS[kind])
        finally:
            for _, descriptor in descriptors:
                os.close(descriptor)
        return function()


_NSENTER_OPTION = MappingProxyType({Kind.NET: "net", Kind.MOUNT: "mount", Kind.UTS: "uts"})


def create(space: Space, prepare: Callable[[], None]) -> dict[Kind, int]:
    """Make the namespaces of `space`, run `prepare` inside them, and pin them.

    Returns:
        the inode number of each namespace, which identifies it as long as it is pinned.

    Raises:
        LabError: the kernel refused.
    """
    ready, release = threading.Event(), threading.Event()
    thread_id: list[int] = []
    failure: list[OSError] = []

    def inhabit() -> None:
        try:
            syscalls.unshare(_flags(space.kinds))
            prepare()
            thread_id.append(threading.get_native_id())
        except OSError as error:
            failure.append(error)
        ready.set()
        release.wait()

    worker = threading.Thread(target=inhabit, name=f"netnslab-{space.name}", daemon=True)
    worker.start()
    try:
        ready.wait()
        if failure:
            raise LabError(f"cannot make the namespaces of {space.name}: {failure[0]}; the lab needs root")
        return {kind: _pin(space.path(kind), kind, thread_id[0]) for kind in space.kinds}
    finally:
        release.set()
        worker.join()


def make_pin_directory(directory: Path) -> int:
    """Mount a private tmpfs for namespace files.

    Returns:
        its device number, by which later runs recognise the mount as ours.
    """
    directory.mkdir(mode=0o700, parents=True)
    syscalls.mount("netnslab", str(directory), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NOEXEC, data="mode=0700")
    syscalls.mount("", str(directory), flags=syscalls.MS_PRIVATE)
    return directory.stat().st_dev


def isolate_mounts(pins: Path, tmpfs: Sequence[Path]) -> None:
    """Prepare the calling thread's fresh mount namespace.

    Mounts become slaves of the host's, so that nothing leaks out and the host's unmounts still arrive. The
    pins are dropped: a namespace that holds a copy of another's pin keeps it alive. /sys is mounted anew
    because sysfs shows the network namespace of its mounter.
    """
    syscalls.mount("", "/", flags=syscalls.MS_SLAVE | syscalls.MS_REC)
    syscalls.unmount(str(pins))
    syscalls.mount("sysfs", "/sys", "sysfs", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    for directory in tmpfs:
        syscalls.mount("netnslab", str(directory), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, data="mode=0755")


def _flags(kinds: Sequence[Kind]) -> int:
    flags = syscalls.CLONE_FS
    for kind in kinds:
        flags |= CLONE_FLAGS[kind]
    return flags


def _pin(path: Path, kind: Kind, thread_id: int) -> int:
    path.touch(mode=0o600)
    syscalls.mount(f"/proc/self/task/{thread_id}/ns/{kind}", str(path), flags=syscalls.MS_BIND)
    return path.stat().st_ino


def _in_thread(function: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread, not swallowed
            errors.append(error)

    worker = threading.Thread(target=run, name="netnslab-inside", daemon=True)
    worker.start()
    worker.join()
    if errors:
        raise errors[0]
    return results[0]
