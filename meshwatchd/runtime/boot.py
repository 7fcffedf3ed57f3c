"""What one process reads and another one runs on: settings and secrets, checked, as bytes in a descriptor.

    meshwatchd (reads, checks) --memory file--> exec: the engine, in the same process id
                                             memory file --> each agent it starts
    SIGHUP: the engine spawns a reader --pipe--> what the file says at present, or why it cannot be used

An agent that is started anew runs on what its engine runs on: the file may have been edited since, or be of no use.
Reading loads a TOML parser, validators and their tables, some 1.5 MiB that an interpreter never gives back, and
takes tens of milliseconds on a large mesh. So whoever probes never reads.
"""

from __future__ import annotations

import fcntl
import os
from typing import Final

import msgspec

from meshwatchd.model.decoding import Door, decode_frame
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.settings import Settings
from meshwatchd.wire.auth import MeshSecret

PYTHON_OPTIONS: Final = ("-P", "-X", "no_debug_ranges")
"""Of engine and agent. Nothing is imported from the current folder, which may be anybody's while this is root's. And no
columns of each instruction, which tracebacks underline: 0.15 MiB and more."""

EXIT_OK: Final = 0
EXIT_NOT_ALONE: Final = 1
EXIT_CONFIG: Final = 2
EXIT_BUG: Final = 70
"""EX_SOFTWARE of sysexits.h."""

_FIRST_FREE_FD: Final = 16


class Boot(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A configuration that can be run.

    Attributes:
        config: the file the settings came from; a reload reads it again.
        secrets: one to sign with and at most one to accept; empty where there is no mesh and thus no key.
        stamp_key: shared with STAMP senders of other makers, if any.
    """

    config: str
    settings: Settings
    secrets: tuple[MeshSecret, ...] = ()
    stamp_key: bytes | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A configuration that cannot be run, with its place and remedy."""

    reason: str


_DECODER: Final[msgspec.msgpack.Decoder[Boot | Refusal]] = msgspec.msgpack.Decoder(Boot | Refusal)


def encode(word: Boot | Refusal) -> bytes:
    """As the other process decodes it."""
    return msgspec.msgpack.encode(word)


def decode(data: bytes) -> Boot | Refusal:
    """What a reader wrote; one that was cut short has not been understood."""
    try:
        return decode_frame(data, _DECODER, Door("configuration reader"))
    except DecodeError as error:
        return Refusal(reason=f"the reader of the configuration ended early: {error.reason}")


def hand_over(boot: Boot) -> int:
    """Put a boot where the program that replaces this one finds it; returns the inherited descriptor.

    Memory, not a file: the secrets must not come to lie on a disk.
    """
    fd = os.memfd_create("meshwatchd-boot", 0)
    os.write(fd, encode(boot))
    return fd


def take_over(fd: int) -> Boot:
    """The boot in an inherited descriptor, which is closed."""
    boot = read_shared(fd)
    assert isinstance(boot, Boot), "only a boot that was checked is handed over"
    return boot


class SharedBoot:
    """What each agent that the engine starts runs on.

    Attributes:
        fd: memory that others may read, closed on exec. Its number leaves those free that an agent finds things at.
    """

    def __init__(self, boot: Boot) -> None:
        made = os.memfd_create("meshwatchd-agent", os.MFD_CLOEXEC)
        self.fd: Final = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
        os.close(made)
        self.replace(boot)

    def replace(self, boot: Boot) -> None:
        """The next agent runs on this. One that reads at this very moment finds nonsense, and is started once more."""
        data = encode(boot)
        os.pwrite(self.fd, data, 0)
        os.ftruncate(self.fd, len(data))


def read_shared(fd: int) -> Boot | Refusal:
    """What is in an inherited descriptor, which is closed."""
    with open(fd, "rb") as file:
        file.seek(0)
        return decode(file.read())


def changed_keys(old: Settings, new: Settings) -> tuple[str, ...]:
    """The dotted keys whose values differ, but for those of the files that a reload applies."""
    changed = []
    for section in old.__struct_fields__:
        before, after = getattr(old, section), getattr(new, section)
        if section != "auth" and before != after:
            changed += [
                f"{section}.{field}"
                for field in before.__struct_fields__
                if getattr(before, field) != getattr(after, field)
            ]
    return tuple(changed)
