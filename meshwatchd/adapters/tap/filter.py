"""A program for the kernel that lets through the test packets and the daemon's probes to one peer, however wrapped.

A tap on a busy leader would otherwise copy everything. Packets of ours have no IP options, so each way of wrapping has
the probe's headers at fixed places, but for Geneve, whose options have a length.

    wrapping            offset of the probe's IP header, from the outermost one
    none                0
    IPIP                20
    VXLAN               50
    VXLAN | IPIP        70
    Geneve              50 + options
    Geneve | IPIP       70 + options

A packet passes if one of these is UDP, from or to one of the addresses, from or to a port of probes. On Ethernet, ARP
about the next hop passes as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from meshwatchd.adapters.bpf import AND, AT_LEAST, EQUAL, LOAD_BYTE, LOAD_HALF, LOAD_WORD, RETURN, Instruction
from meshwatchd.adapters.tap.decode import (
    ETH_P_ARP,
    ETH_P_IP,
    ETHERNET_BYTES,
    GENEVE_PORT,
    IPIP,
    TUNNEL_BYTES,
    UDP,
    UDP_BYTES,
)
from meshwatchd.model.port_map import TAPPED_PORTS

_INDEX_BYTE, _INDEX_HALF, _INDEX_WORD = 0x50, 0x48, 0x40
"""BPF_LD with BPF_IND: at X + k."""
_SHIFT_LEFT, _TO_X, _X_BYTES, _ABOVE, _ANY_BIT = 0x64, 0x07, 0x01, 0x25, 0x45
_PLAIN_HEADER: Final = 0x45
"""IPv4, five words: no options."""
_IP_BYTES: Final = 20
_INNER: Final = _IP_BYTES + UDP_BYTES + TUNNEL_BYTES + ETHERNET_BYTES
_FRAGMENT: Final = 0x3FFF
_ARP_TARGET, _ARP_SENDER = 24, 14

SNAP_BYTES: Final = 512
"""Of each packet: all headers and a whole probe, and little of anything else."""


class Wanted(NamedTuple):
    """What passes.

    Attributes:
        addresses: packed IPv4 addresses of the peer, at most eight.
        port: first of the probe ports.
        vxlan_port: of the overlay.
        next_hop: packed IPv4 address whose ARP is of interest; empty for none.
        is_ethernet: packets begin with their Ethernet header, and with their IP header otherwise.
    """

    addresses: tuple[bytes, ...]
    port: int
    vxlan_port: int
    next_hop: bytes = b""
    is_ethernet: bool = True


class _Line(NamedTuple):
    """An instruction whose jumps are names; empty goes on with the next one."""

    code: int
    operand: int
    true: str = ""
    false: str = ""


class _Label(NamedTuple):
    name: str


def tap_program(wanted: Wanted) -> list[Instruction]:
    """The program for one tap."""
    return _assemble(list(_lines(wanted)))


def _lines(wanted: Wanted) -> Iterator[_Line | _Label]:
    start = ETHERNET_BYTES if wanted.is_ethernet else 0
    if wanted.is_ethernet:
        yield _Line(LOAD_HALF, 12)
        yield _Line(EQUAL, ETH_P_IP, true="ip")
        yield _Line(EQUAL, ETH_P_ARP, true="arp", false="refuse")
        yield _Label("arp")
        yield from _arp(wanted)
    yield _Label("ip")
    yield _Line(LOAD_BYTE, start)
    yield _Line(EQUAL, _PLAIN_HEADER, false="refuse")
    yield _Line(LOAD_HALF, start + 6)
    yield _Line(_ANY_BIT, _FRAGMENT, true="refuse")
    yield _Line(LOAD_BYTE, start + 9)
    yield _Line(EQUAL, IPIP, true="ipip")
    yield _Line(EQUAL, UDP, false="refuse")
    yield _Line(LOAD_HALF, start + _IP_BYTES + 2)
    yield _Line(EQUAL, wanted.vxlan_port, true="vxlan")
    yield _Line(EQUAL, GENEVE_PORT, true="geneve")
    yield from _probe(wanted, "plain", start)
    yield from _at(wanted, "ipip", start + _IP_BYTES)
    yield _Label("vxlan")
    yield _Line(LOAD_HALF, start + _INNER - 2)
    yield _Line(EQUAL, ETH_P_IP, false="refuse")
    yield _Line(_X_BYTES, 0)
    yield _Label("inside")
    yield from _inside(wanted, start + _INNER)
    yield _Label("geneve")
    yield _Line(LOAD_BYTE, start + _IP_BYTES + UDP_BYTES)
    yield _Line(AND, 0x3F)
    yield _Line(_SHIFT_LEFT, 2)
    yield _Line(_TO_X, 0)
    yield _Line(_INDEX_HALF, start + _INNER - 2)
    yield _Line(EQUAL, ETH_P_IP, true="options", false="refuse")
    yield _Label("options")
    yield from _inside(wanted, start + _INNER, name="geneve-")
    yield _Label("refuse")
    yield _Line(RETURN, 0)


def _arp(wanted: Wanted) -> Iterator[_Line | _Label]:
    """ARP for the next hop, or from it (RFC 826)."""
    if wanted.next_hop:
        address = int.from_bytes(wanted.next_hop, "big")
        for offset in (_ARP_TARGET, _ARP_SENDER):
            yield _Line(LOAD_WORD, ETHERNET_BYTES + offset)
            yield _Line(EQUAL, address, false=f"arp-{offset}")
            yield _Line(RETURN, SNAP_BYTES)
            yield _Label(f"arp-{offset}")
    yield _Line(RETURN, 0)


def _inside(wanted: Wanted, offset: int, name: str = "") -> Iterator[_Line | _Label]:
    """The probe, or IPIP around it, in a frame whose IP header is at X + offset."""
    yield _Line(_INDEX_BYTE, offset)
    yield _Line(EQUAL, _PLAIN_HEADER, false=f"{name}no")
    yield _Line(_INDEX_BYTE, offset + 9)
    yield _Line(EQUAL, IPIP, true=f"{name}inner-ipip")
    yield _Line(EQUAL, UDP, true=f"{name}inner", false=f"{name}no")
    yield from _probe(wanted, f"{name}inner", offset, is_indexed=True)
    yield from _at(wanted, f"{name}inner-ipip", offset + _IP_BYTES, is_indexed=True)
    yield _Label(f"{name}no")
    yield _Line(RETURN, 0)


def _at(wanted: Wanted, name: str, offset: int, *, is_indexed: bool = False) -> Iterator[_Line | _Label]:
    """A probe's IP header is expected here and has to be checked first."""
    load = _INDEX_BYTE if is_indexed else LOAD_BYTE
    yield _Label(name)
    yield _Line(load, offset)
    yield _Line(EQUAL, _PLAIN_HEADER, false=f"{name}-no")
    yield _Line(load, offset + 9)
    yield _Line(EQUAL, UDP, true=f"{name}-udp", false=f"{name}-no")
    yield _Label(f"{name}-no")
    yield _Line(RETURN, 0)
    yield from _probe(wanted, f"{name}-udp", offset, is_indexed=is_indexed)


def _probe(wanted: Wanted, name: str, offset: int, *, is_indexed: bool = False) -> Iterator[_Line | _Label]:
    """Accept if addresses and ports are those of probes to the peer; ends in any case."""
    word, half = (_INDEX_WORD, _INDEX_HALF) if is_indexed else (LOAD_WORD, LOAD_HALF)
    yield _Label(name)
    for field in (12, 16):
        yield _Line(word, offset + field)
        for address in wanted.addresses:
            yield _Line(EQUAL, int.from_bytes(address, "big"), true=f"{name}-ports")
    yield _Line(RETURN, 0)
    yield _Label(f"{name}-ports")
    for field in (0, 2):
        yield _Line(half, offset + _IP_BYTES + field)
        yield _Line(AT_LEAST, wanted.port, false=f"{name}-{field}")
        yield _Line(_ABOVE, wanted.port + TAPPED_PORTS - 1, true=f"{name}-{field}")
        yield _Line(RETURN, SNAP_BYTES)
        yield _Label(f"{name}-{field}")
    yield _Line(RETURN, 0)


def _assemble(lines: Sequence[_Line | _Label]) -> list[Instruction]:
    """Turn names into distances; jumps of classic BPF go forward only, by at most 255."""
    places: dict[str, int] = {}
    count = 0
    for line in lines:
        if isinstance(line, _Label):
            places[line.name] = count
        else:
            count += 1
    program: list[Instruction] = []
    for line in lines:
        if isinstance(line, _Line):
            behind = len(program) + 1
            true = places[line.true] - behind if line.true else 0
            false = places[line.false] - behind if line.false else 0
            program.append((line.code, true, false, line.operand))
    return program
