"""A handful of namespaces for one measurement, owned and removed like any lab.

They are recorded before they are made, so that what even SIGKILL leaves behind is removed by the next lab or
benchmark on the machine. Every process that is started here is recorded as well and ended with the world.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from netnslab import namespaces, ownership, process, shutdown
from netnslab.build import SYSCTLS
from netnslab.errors import LabError
from netnslab.inhabitant import Inhabitant, Stream
from netnslab.namespaces import NODE_KINDS, Space
from netnslab.ownership import MOUNT_POINTS, LabRecord, NamespaceRecord


class World:
    """Some machines without links.

        with World(["a", "b"]) as world:
            world.place("a").batch("ip", ["link add ..."])

    Args:
        names: of the machines; each gets network, mounts and host name of its own.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._children: list[subprocess.Popen[str]] = []
        self._record: LabRecord | None = None
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise LabError("benchmarks make namespaces and need root; run them with sudo")
        record = LabRecord(
            lab_id=f"bench-{secrets.token_hex(3)}",
            boot_id=process.boot_id(),
            topology="bench",
            owner=process.identify(os.getpid()),
        )
        with ownership.exclusive():
            ownership.remove_abandoned()
            ownership.make_mount_points(record)
        self._record = record
        atexit.register(self.close)
        self._exits.enter_context(shutdown.sigterm_as_exit())
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        """A directory of this world's own, for sockets and logs; removed with it."""
        assert self._record is not None
        return self._record.directory / "log"

    def place(self, name: str) -> Inhabitant:
        """One machine."""
        assert self._record is not None
        return Inhabitant(name=name, ip="", space=Space(name=name, directory=self._record.pins, kinds=NODE_KINDS))

    def network(self, name: str) -> Path:
        """The file that pins a machine's network namespace, for `ip link ... netns`."""
        return self.place(name).space.path(namespaces.Kind.NET)

    def start(self, name: str, argv: Sequence[str], *, stdout: Stream = None, stderr: Stream = None) -> Child:
        """Start a process on a machine; it ends with the world at the latest."""
        started = self.place(name).popen(argv, stdout=stdout, stderr=stderr)
        self._children.append(started)
        self._remember(started.pid)
        return Child(started)

    def adopt(self, started: subprocess.Popen[bytes]) -> None:
        """Take over a process that somebody else has started in here."""
        self._remember(started.pid)
        self._exits.callback(started.wait)

    def close(self) -> None:
        """End all processes and remove everything; a second call does nothing."""
        record, self._record = self._record, None
        if record is None or record.owner is None or record.owner.pid != os.getpid():
            return
        with shutdown.signals_held(), ownership.exclusive():
            if record.directory.exists():
                ownership.remove(record)
        for child in self._children:
            child.wait()
        atexit.unregister(self.close)
        self._exits.close()

    def _make(self) -> None:
        record = self._record
        assert record is not None
        record.pin_device = namespaces.make_pin_directory(record.pins)
        (record.directory / "log").mkdir()
        for name in self._names:
            space = self.place(name).space
            inodes = namespaces.create(space, partial(_prepare, space))
            record.namespaces += [
                NamespaceRecord(name=name, kind=kind, path=str(space.path(kind)), inode=inode)
                for kind, inode in inodes.items()
            ]
        record.save()

    def _remember(self, pid: int) -> None:
        assert self._record is not None
        known = process.identify(pid)
        if known is not None:
            self._record.processes.append(known)
            self._record.save()


class Child:
    """A process of a world."""

    def __init__(self, started: subprocess.Popen[str]) -> None:
        self._started = started
        self.pid = started.pid

    @property
    def status(self) -> int | None:
        """How it ended; None while it runs."""
        return self._started.poll()

    def end(self) -> None:
        """SIGTERM, in need SIGKILL, and wait."""
        known = process.identify(self.pid)
        if known is not None:
            process.end([known])
        self._started.wait()


def _prepare(space: Space) -> None:
    """Runs inside the fresh namespaces."""
    socket.sethostname(space.name)
    namespaces.isolate_mounts(space.directory, MOUNT_POINTS)
    for key, value in SYSCTLS.items():
        path = Path("/proc/sys") / key
        if path.exists():
            path.write_text(value, encoding="ascii")
