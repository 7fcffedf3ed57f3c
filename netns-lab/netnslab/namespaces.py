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

import errno
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
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
        mount namespace resets the root and the working directory to /, hence `chroot` and `env --chdir`; network
        namespaces leave them alone.
        """
        options = [f"--{_NSENTER_OPTION[kind]}={self.path(kind)}" for kind in self.kinds]
        if Kind.MOUNT not in self.kinds:
            return ["nsenter", *options, "--", *argv]
        chroot = [] if own_root() == "/" else ["chroot", own_root()]
        return ["nsenter", *options, "--", *chroot, "env", f"--chdir={Path.cwd()}", *argv]

    def call(self, function: Callable[[], T]) -> T:
        """Run a function in a thread inside these namespaces and return its result.

        Only what the thread itself opens is seen from the inside: files, /proc/self/net, sockets.
        """
        return _in_thread(lambda: self._enter_and(function))

    def _enter_and(self, function: Callable[[], T]) -> T:
        root = own_root()
        descriptors = [(kind, os.open(self.path(kind), os.O_RDONLY | os.O_CLOEXEC)) for kind in self.kinds]
        try:
            syscalls.unshare(syscalls.CLONE_FS)  # setns(CLONE_NEWNS) demands an unshared fs_struct
            for kind, descriptor in descriptors:
                syscalls.setns(descriptor, CLONE_FLAGS[kind])
            if Kind.MOUNT in self.kinds and root != "/":
                syscalls.chroot(root)
        finally:
            for _, descriptor in descriptors:
                os.close(descriptor)
        return function()


_NSENTER_OPTION = MappingProxyType({Kind.NET: "net", Kind.MOUNT: "mount", Kind.UTS: "uts"})


def create(space: Space, prepare: Callable[[], None]) -> dict[Kind, int]:
    """Make the namespaces of `space`, run `prepare` inside them, and pin them.

    A mount namespace can be pinned only in one that was made earlier (mnt_ns_loop() in fs/namespace.c), which the
    kernel knows by their numbers. Since Linux 6.18 each CPU takes those from a stock of its own (gen_cookie_next() in
    linux/cookie.h), so that a namespace which another CPU has made may look older: each CPU is tried.

    Returns:
        the inode number of each namespace, which identifies it as long as it is pinned.

    Raises:
        LabError: the kernel refused.
    """
    problem: OSError | None = None
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            return _create(space, prepare, cpu)
        except OSError as error:
            problem = error
            if error.errno != errno.EINVAL:
                break
    raise LabError(f"cannot make the namespaces of {space.name}: {problem}; the lab needs root")


def _create(space: Space, prepare: Callable[[], None], cpu: int) -> dict[Kind, int]:
    ready, release = threading.Event(), threading.Event()
    thread_id: list[int] = []
    failure: list[OSError] = []

    def inhabit() -> None:
        try:
            os.sched_setaffinity(0, {cpu})
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
            raise failure[0]
        # The one that may be refused comes first, so that nothing is left of a try in vain.
        kinds = sorted(space.kinds, key=lambda kind: kind is not Kind.MOUNT)
        return {kind: _pin(space.path(kind), kind, thread_id[0]) for kind in kinds}
    finally:
        release.set()
        worker.join()


@cache
def own_root() -> str:
    """This process's root directory, as it is called from the root of its mount namespace: not / in a chroot.

    A thread that enters the namespace it is in already has that root, and finds its way back by a descriptor.
    """
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def look_around() -> str:
        syscalls.unshare(syscalls.CLONE_FS)
        syscalls.setns(namespace, syscalls.CLONE_NEWNS)
        os.fchdir(here)
        return str(Path.cwd())

    try:
        return _in_thread(look_around)
    except PermissionError:
        return "/"  # without root nothing is entered either
    finally:
        os.close(namespace)
        os.close(here)


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
    syscalls.set_propagation(syscalls.MS_SLAVE)
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
