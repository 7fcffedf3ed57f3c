"""Small checks that several sources share; each complaint names the source, the place and what is there."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Interface, ip_interface
from typing import Final

from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError

MAX_SHOWN: Final = 40
"""Characters of a value that a complaint quotes."""

MAX_PORT: Final = 65_535

_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")
_ENDPOINT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9.-]+)):([0-9]{1,5})")


def text_of(data: bytes, source: str) -> str:
    """Bytes as text.

    Raises:
        DecodeError: they are no UTF-8.
    """
    with Door(source):
        return data.decode()


def shown(value: str) -> str:
    """A value as complaints quote it."""
    return repr(value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}...")


def name(value: str, source: str, place: str) -> str:
    """A node's name; raises DecodeError."""
    if _NAME.fullmatch(value) is None:
        raise DecodeError(source, f"{place}: {shown(value)} is no name")
    return value


def ipv4(value: str, source: str, place: str) -> str:
    """An IPv4 address; raises DecodeError."""
    try:
        return str(IPv4Address(value))
    except ValueError:
        raise DecodeError(source, f"{place}: {shown(value)} is no IPv4 address") from None


def ipv4_prefix(value: str, source: str, place: str) -> str:
    """An IPv4 prefix, always with its length and without host bits; raises DecodeError."""
    try:
        return str(IPv4Network(value, strict=False))
    except ValueError:
        raise DecodeError(source, f"{place}: {shown(value)} is no IPv4 prefix") from None


def interface(value: str, source: str, place: str) -> IPv4Interface | IPv6Interface:
    """An address with or without a prefix length; raises DecodeError."""
    try:
        return ip_interface(value)
    except ValueError:
        raise DecodeError(source, f"{place}: {shown(value)} is no address") from None


def endpoint(value: str, source: str, place: str) -> str:
    """A host and a port; raises DecodeError."""
    match = _ENDPOINT.fullmatch(value)
    if match is None or not 0 < int(match[3]) <= MAX_PORT:
        raise DecodeError(source, f"{place}: {shown(value)} is no host and port")
    return value


def number(value: str, source: str, place: str, *, most: int) -> int:
    """A number from 0 to `most`; raises DecodeError."""
    if not value.isascii() or not value.isdigit() or len(value) > len(str(most)) or int(value) > most:
        raise DecodeError(source, f"{place}: {shown(value)} is no number up to {most}")
    return int(value)
