"""Who owns what: one record per lab, written before the thing it names is made.

    /run/netnslab/lock                 one builder or cleaner at a time
    /run/netnslab/ID/state.json        the record
    /run/netnslab/ID/ns/               private tmpfs: one file per pinned namespace
    /run/netnslab/ID/log/              output of the processes the lab started

A lab is abandoned when the process that must remove it is gone, or the machine was rebooted since. The next
`up` removes abandoned labs by their records alone: processes by id and start time and by living in a recorded
namespace, namespaces by inode, the tmpfs by device number. A name is never enough to touch anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from netnslab import process, syscalls
from netnslab.errors import LabError
from netnslab.process import ProcessId

ROOT = Path("/run/netnslab")

MOUNT_POINTS = tuple(
    map(
        Path,
        (
            *("/run/wireguard", "/run/meshwatchd", "/var/lib/meshwatchd", "/etc/meshwatchd"),
            *("/run/flannel", "/var/lib/rancher", "/etc/rancher", "/etc/wireguard", "/var/lib/kilo"),
            *("/etc/bird", "/run/bird", "/etc/frr", "/run/frr", "/run/cilium"),
        ),
    )
)
"""Directories of which each node has its own. A mount needs a directory underneath: where the machine has
none, the lab makes an empty one, records it, and removes it with the last lab."""


class NamespaceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One pinned namespace: whose, of what kind, the file that pins it and its inode number."""

    name: str
    kind: str
    path: str
    inode: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do at one place: lines for `ip -batch`, `bridge -batch` or nft, or arguments of single calls.

    Attributes:
        place: node, `pod/NODE` or `wan`.
        tool: ip, bridge, nft, wg (each line a call), sysctl (`net/ipv4/ip_forward=0`), conntrack (flush, fill),
            cilium-agent (`lose CLUSTER`, `find CLUSTER`).
    """

    place: str
    tool: str
    lines: tuple[str, ...]


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One fault that is in the network: what it takes to build the fault object again and heal it.

    Attributes:
        undo: for faults of a node's own state: what restores it, found out before the fault struck.
    """

    kind: str
    node: str
    is_injected: bool
    parameters: dict[str, float] = {}
    undo: tuple[Step, ...] = ()


class LabRecord(msgspec.Struct, kw_only=True):
    """Everything one lab owns.

    Attributes:
        owner: the process that will remove the lab; None when it stays until somebody says down.
        is_ready: packets cross it.
        pin_device: device number of the tmpfs with the namespace files; 0 while it is being mounted, when
            whatever is mounted there can only be ours.
        topology: name or path, as given to `up`.
        made_directories: mount points that did not exist before.
    """

    lab_id: str
    boot_id: str
    topology: str
    wireguard: str = ""
    owner: ProcessId | None = None
    is_ready: bool = False
    pin_device: int = 0
    namespaces: list[NamespaceRecord] = []
    processes: list[ProcessId] = []
    made_directories: list[str] = []
    faults: list[FaultRecord] = []

    @property
    def directory(self) -> Path:
        """Where this lab keeps its files."""
        return ROOT / self.lab_id

    @property
    def pins(self) -> Path:
        """Where its namespaces are pinned."""
        return self.directory / "ns"

    def save(self) -> None:
        """Write the record; a reader sees the old or the new one, never half of it."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.directory / "state.json.draft"
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1))
        draft.replace(self.directory / "state.json")

    def is_abandoned(self) -> bool:
        """Whether nobody is left who would remove this lab."""
        if self.boot_id != process.boot_id():
            return True
        return self.owner is not None and not process.is_alive(self.owner)


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Hold the lock that serialises making and cleaning labs on this machine."""
    ROOT.mkdir(mode=0o755, exist_ok=True)
    with (ROOT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def read(lab_id: str) -> LabRecord:
    """The record of one lab.

    Raises:
        LabError: there is none, or it cannot be read.
    """
    try:
        return msgspec.json.decode((ROOT / lab_id / "state.json").read_bytes(), type=LabRecord)
    except OSError as error:
        raise LabError(f"there is no lab {lab_id}: {error.strerror}; `list` shows what runs") from error
    except msgspec.DecodeError as error:
        raise LabError(f"{ROOT / lab_id}/state.json is damaged ({error}); look at it and remove it by hand") from error


def read_all() -> list[LabRecord]:
    """All records on this machine, sorted by id."""
    return [read(path.parent.name) for path in sorted(ROOT.glob("*/state.json"))]


@contextlib.contextmanager
def updating(lab_id: str) -> Iterator[LabRecord]:
    """Change a record that others may change as well: read, let the block edit, write, under the lock."""
    with exclusive():
        record = read(lab_id)
        yield record
        record.save()


def make_mount_points(record: LabRecord) -> None:
    """Make what is missing of MOUNT_POINTS and record what is ours. The caller holds the lock."""
    missing = [path for path in MOUNT_POINTS if not path.exists()]
    inherited = {path for other in read_all() for path in other.made_directories}
    record.made_directories = sorted({*map(str, missing), *inherited})
    record.save()
    for path in missing:
        path.mkdir(mode=0o755, parents=True)


def remove_abandoned() -> list[str]:
    """Remove every abandoned lab; returns their ids. The caller holds the lock."""
    abandoned = [record for record in read_all() if record.is_abandoned()]
    for record in abandoned:
        remove(record)
    return [record.lab_id for record in abandoned]


def remove(record: LabRecord) -> None:
    """Remove all that a record names and nothing else, even if half is gone. The caller holds the lock."""
    if record.boot_id == process.boot_id():
        process.end(record.processes)
        pinned = [each for each in record.namespaces if _is_pinned(each)]
        process.end(process.inside_network(each.inode for each in pinned if each.kind == "net"))
        for each in pinned:
            syscalls.unmount(each.path)
        if record.pins.is_mount() and record.pin_device in (0, record.pins.stat().st_dev):
            syscalls.unmount(str(record.pins))
    if record.pins.is_mount():
        raise LabError(f"{record.pins} is a mount this lab did not make; unmount it by hand")
    shutil.rmtree(record.directory, ignore_errors=True)
    _remove_mount_points(record)


def _is_pinned(namespace: NamespaceRecord) -> bool:
    path = Path(namespace.path)
    try:
        status = path.stat()
        return status.st_ino == namespace.inode and status.st_dev != path.parent.stat().st_dev
    except OSError:
        return False


def _remove_mount_points(record: LabRecord) -> None:
    """Remove our empty directories with the last lab; earlier, it would unmount them in other labs."""
    if read_all():
        return
    for path in record.made_directories:
        with contextlib.suppress(OSError):  # not empty, or gone: somebody else uses it
            Path(path).rmdir()
