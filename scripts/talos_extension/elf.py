"""What a program needs to run, read from its dynamic section (System V ABI, chapter 5; linux/elf.h)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAGIC: Final = b"\x7fELF\x02\x01"
"""ELF, 64 bits, little-endian: amd64 and arm64."""

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NULL, _DT_NEEDED, _DT_STRTAB = 0, 1, 5

_HEADER: Final = struct.Struct("<32xQ14xHH")
"""e_phoff, e_phentsize, e_phnum, from the file's begin."""
_PROGRAM: Final = struct.Struct("<IIQQQQQ")
"""p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz."""
_DYNAMIC: Final = struct.Struct("<qQ")
"""d_tag, d_val."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a dynamic program or library asks for.

    Attributes:
        libraries: DT_NEEDED, such as "libz.so.1", in order.
        interpreter: PT_INTERP, the dynamic loader's path; empty for libraries.
    """

    libraries: tuple[str, ...] = ()
    interpreter: str = ""


def read_needs(path: Path) -> Needs | None:
    """What a file needs; None where it is no ELF file for this kind of machine. A static program needs nothing."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return None
    data = path.read_bytes()
    segments = tuple(_segments(data))
    interpreter = next((_text(data, offset) for kind, offset, _, _ in segments if kind == _PT_INTERP), "")
    return Needs(libraries=tuple(_libraries(data, segments)), interpreter=interpreter)


_Segment = tuple[int, int, int, int]
"""Type, offset in the file, virtual address, size in the file."""


def _segments(data: bytes) -> Iterator[_Segment]:
    offset, size, count = _HEADER.unpack_from(data)
    for index in range(count):
        kind, _, start, address, _, length, _ = _PROGRAM.unpack_from(data, offset + index * size)
        yield kind, start, address, length


def _libraries(data: bytes, segments: tuple[_Segment, ...]) -> Iterator[str]:
    entries = [
        entry for kind, start, _, size in segments if kind == _PT_DYNAMIC for entry in _entries(data, start, size)
    ]
    table = next((_offset(value, segments) for tag, value in entries if tag == _DT_STRTAB), 0)
    for tag, value in entries:
        if tag == _DT_NEEDED:
            yield _text(data, table + value)


def _entries(data: bytes, start: int, size: int) -> Iterator[tuple[int, int]]:
    for offset in range(start, start + size, _DYNAMIC.size):
        tag, value = _DYNAMIC.unpack_from(data, offset)
        if tag == _DT_NULL:
            return
        yield tag, value


def _offset(address: int, segments: tuple[_Segment, ...]) -> int:
    """Where in the file lies what will be at that address."""
    for kind, start, base, size in segments:
        if kind == _PT_LOAD and base <= address < base + size:
            return address - base + start
    raise ValueError(f"no segment holds address {address:#x}")


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode()
