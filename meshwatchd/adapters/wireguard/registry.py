"""Which devices are ours, kept in state_dir/links.json across restarts of the daemon.

A device is recorded before it is made and forgotten after it is gone, so that whatever stands is known. A file that
cannot be decoded is quarantined: a device is also known by its private key, and no start may fail for a note.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from meshwatchd.adapters.storage.policy_file import read_boot
from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.adapters.wireguard.files import PRIVATE_MODE, write_privately
from meshwatchd.adapters.wireguard.process import ProcessId

VERSION = 1
FILE_NAME = "links.json"
MAX_BYTES = 1024 * 1024
"""A thousand times what a relay has links."""


class LinkRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One device of ours.

    Attributes:
        index: interface index; 0 when it was about to be made.
        process: the wireguard-go behind it, None for a device of the kernel.
        boot_id: of the boot in which it was made; device and process do not survive it.
    """

    device: str
    index: int
    boot_id: str
    process: ProcessId | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    links: tuple[LinkRecord, ...] = ()


class Registry:
    """The records of one state directory, read once and written at each change."""

    def __init__(self, state_dir: Path) -> None:
        self.path = state_dir / FILE_NAME
        self._boot_id = read_boot()
        self._records = {each.device: each for each in self._load() if each.boot_id == self._boot_id}

    def records(self) -> tuple[LinkRecord, ...]:
        """All devices of ours of this boot, by name."""
        return tuple(self._records[device] for device in sorted(self._records))

    def find(self, device: str) -> LinkRecord | None:
        """The record of that device, or None when we made none of that name."""
        return self._records.get(device)

    def put(self, device: str, *, index: int = 0, process: ProcessId | None = None) -> None:
        """Record a device.

        Raises:
            KernelError: the file cannot be written; without a record nothing should be made.
        """
        self._records[device] = LinkRecord(device=device, index=index, boot_id=self._boot_id, process=process)
        self._save()

    def forget(self, device: str) -> None:
        """Drop the record of a device that is gone."""
        if self._records.pop(device, None) is not None:
            self._save()

    def _load(self) -> tuple[LinkRecord, ...]:
        found = VersionedFile(self.path, _File, version=VERSION, max_bytes=MAX_BYTES, mode=PRIVATE_MODE).load()
        return found.content.links if found.content is not None else ()

    def _save(self) -> None:
        file = _File(version=VERSION, links=self.records())
        # No fsync: it may take longer than the event loop can spare, and a power cut ends what the file describes.
        write_privately(self.path, msgspec.json.format(msgspec.json.encode(file), indent=1).decode() + "\n")
