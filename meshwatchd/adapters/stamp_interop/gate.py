"""Who may ask the standard reflector: a filter on its socket, so that nobody else costs us anything.

A packet passes if it is long enough, comes from one of the allowed prefixes, and its source port is no
service's. The last is what keeps two reflectors from answering each other for ever after one packet under a
false address: in open mode nothing in a packet tells an answer from a request.

Source: linux/filter.h (SKF_NET_OFF).
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Final

from meshwatchd.adapters import bpf

FIRST_CLIENT_PORT: Final = 1024
"""Echo, chargen, DNS, NTP, and STAMP's own 862 are below."""

_NETWORK_HEADER: Final = 0xFFF0_0000
"""SKF_NET_OFF: offsets from here on count from the IP header; a UDP socket's filter begins at the UDP header."""
_SOURCE_OFFSET: Final = {4: 12, 6: 8}
_WORD_BITS: Final = 32

Prefix = IPv4Network | IPv6Network


def gate_program(prefixes: Iterable[Prefix], *, port: int, least_bytes: int) -> list[bpf.Instruction]:
    """The filter for prefixes of one family."""
    program: list[bpf.Instruction] = [
        (bpf.LOAD_LENGTH, 0, 0, 0),
        (bpf.AT_LEAST, 1, 0, bpf.UDP_HEADER_BYTES + least_bytes),
        bpf.REFUSE,
        (bpf.LOAD_HALF, 0, 0, 0),
        (bpf.AT_LEAST, 1, 0, FIRST_CLIENT_PORT),
        bpf.REFUSE,
        (bpf.EQUAL, 0, 1, port),
        bpf.REFUSE,
    ]
    for prefix in prefixes:
        program += _match(prefix)
    return [*program, bpf.REFUSE]


def _match(prefix: Prefix) -> list[bpf.Instruction]:
    """Accept a source inside the prefix, or go on behind this piece."""
    words: list[list[bpf.Instruction]] = []
    for index in range(-(-prefix.prefixlen // _WORD_BITS)):
        offset = _NETWORK_HEADER + _SOURCE_OFFSET[prefix.version] + 4 * index
        mask, value = _word(prefix.netmask.packed, index), _word(prefix.network_address.packed, index)
        words.append([(bpf.LOAD_WORD, 0, 0, offset), (bpf.AND, 0, 0, mask), (bpf.EQUAL, 0, 0, value)])
    piece: list[bpf.Instruction] = []
    # From behind: how far a mismatch has to jump is known by what follows.
    for load, mask_word, (code, _, _, value) in reversed(words):
        piece = [load, mask_word, (code, 0, len(piece) + 1, value), *piece]
    return [*piece, bpf.ACCEPT]


def _word(packed: bytes, index: int) -> int:
    return int.from_bytes(packed[4 * index : 4 * index + 4], "big")
