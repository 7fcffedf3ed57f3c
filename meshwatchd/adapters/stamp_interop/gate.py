"""Who may ask the standard reflector: a filter on its socket, so that nobody else costs us anything.

A packet passes if it is long enough, comes from one of the allowed prefixes, and its source port is no
service's. The last is what keeps two reflectors from answering each other for ever after one packet under a
false address: in open mode nothing in a packet tells an answer from a request.

Source: Linux Documentation/networking/filter.rst; linux/filter.h (SKF_NET_OFF).
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Final

FIRST_CLIENT_PORT: Final = 1024
"""Echo, chargen, DNS, NTP, and STAMP's own 862 are below."""

_SO_ATTACH_FILTER: Final = 26
_INSTRUCTION: Final = struct.Struct("@HBBI")
_FPROG: Final = struct.Struct("@HP")
_LOAD_LENGTH: Final = 0x80
_LOAD_WORD: Final = 0x20
_LOAD_HALF: Final = 0x28
_AND: Final = 0x54
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_WHOLE_PACKET: Final = 0x4_0000

_NETWORK_HEADER: Final = 0xFFF0_0000
"""SKF_NET_OFF: offsets from here on count from the IP header; a UDP socket's filter begins at the UDP header."""
_UDP_HEADER_BYTES: Final = 8
_SOURCE_OFFSET: Final = {4: 12, 6: 8}
_WORD_BITS: Final = 32

Prefix = IPv4Network | IPv6Network
Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""

_REFUSE: Final[Instruction] = (_RETURN, 0, 0, 0)
_ACCEPT: Final[Instruction] = (_RETURN, 0, 0, _WHOLE_PACKET)


def gate_program(prefixes: Iterable[Prefix], *, port: int, least_bytes: int) -> list[Instruction]:
    """The filter for prefixes of one family."""
    program: list[Instruction] = [
        (_LOAD_LENGTH, 0, 0, 0),
        (_JUMP_AT_LEAST, 1, 0, _UDP_HEADER_BYTES + least_bytes),
        _REFUSE,
        (_LOAD_HALF, 0, 0, 0),
        (_JUMP_AT_LEAST, 1, 0, FIRST_CLIENT_PORT),
        _REFUSE,
        (_JUMP_EQUAL, 0, 1, port),
        _REFUSE,
    ]
    for prefix in prefixes:
        program += _match(prefix)
    return [*program, _REFUSE]


def attach_gate(listener: socket.socket, program: Sequence[Instruction]) -> None:
    """Put the filter in front of a socket; before it is bound, or what is queued by then gets through.

    Raises:
        OSError: the kernel does not take it.
    """
    code = b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)
    memory = ctypes.create_string_buffer(code, len(code))
    listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _FPROG.pack(len(program), ctypes.addressof(memory)))


def _match(prefix: Prefix) -> list[Instruction]:
    """Accept a source inside the prefix, or go on behind this piece."""
    words: list[list[Instruction]] = []
    for index in range(-(-prefix.prefixlen // _WORD_BITS)):
        offset = _NETWORK_HEADER + _SOURCE_OFFSET[prefix.version] + 4 * index
        mask, value = _word(prefix.netmask.packed, index), _word(prefix.network_address.packed, index)
        words.append([(_LOAD_WORD, 0, 0, offset), (_AND, 0, 0, mask), (_JUMP_EQUAL, 0, 0, value)])
    piece: list[Instruction] = []
    # From behind: how far a mismatch has to jump is known by what follows.
    for load, mask_word, (code, _, _, value) in reversed(words):
        piece = [load, mask_word, (code, 0, len(piece) + 1, value), *piece]
    return [*piece, _ACCEPT]


def _word(packed: bytes, index: int) -> int:
    return int.from_bytes(packed[4 * index : 4 * index + 4], "big")
