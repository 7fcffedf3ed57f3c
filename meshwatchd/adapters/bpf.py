"""Classic BPF: a program in front of a socket, by which the kernel drops what would only cost to be read.

A filter on a UDP socket sees a packet from its UDP header on, one on a packet socket from its outermost header.

Source: Linux Documentation/networking/filter.rst; linux/filter.h, linux/bpf_common.h.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable
from typing import Final

LOAD_BYTE, LOAD_HALF, LOAD_WORD, LOAD_LENGTH = 0x30, 0x28, 0x20, 0x80
AND, EQUAL, AT_LEAST, RETURN = 0x54, 0x15, 0x35, 0x06
UDP_HEADER_BYTES: Final = 8

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""

ACCEPT: Final[Instruction] = (RETURN, 0, 0, 0x4_0000)
REFUSE: Final[Instruction] = (RETURN, 0, 0, 0)

_SO_ATTACH_FILTER: Final = 26
_INSTRUCTION: Final = struct.Struct("@HBBI")
_FPROG: Final = struct.Struct("@HP")


def assemble(program: Iterable[Instruction]) -> bytes:
    """The program as the kernel takes it."""
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def attach(opened: socket.socket, code: bytes) -> None:
    """Put a program in front of a socket; before it is bound, or what is queued by then gets through.

    Raises:
        OSError: the kernel does not take it.
    """
    memory = ctypes.create_string_buffer(code, len(code))
    fprog = _FPROG.pack(len(code) // _INSTRUCTION.size, ctypes.addressof(memory))
    opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, fprog)
