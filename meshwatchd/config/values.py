"""What single values must look like, and the words for one that does not."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterator

import msgspec

from meshwatchd.model.units import parse_port_range

KEY_BYTES = 32
"""Length of the mesh secret and of every X25519 key."""

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?")
_MAX_HOST_NAME = 253
_MAX_LABEL = 63
"""Letters between two dots of a host name that is looked up (RFC 1035, section 2.3.4). Nodes may have longer names."""
_MAX_DEVICE_NAME = 15
"""IFNAMSIZ is 16 bytes with the closing NUL (linux/if.h)."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing wrong with a configuration: where, what, and what to write instead."""

    key: str
    problem: str
    remedy: str


def check_name(key: str, text: str) -> Iterator[Finding]:
    """A node's or location's name: dot-separated labels of letters, digits and hyphens, as a host name."""
    if len(text) > _MAX_HOST_NAME or not all(_LABEL.fullmatch(label) for label in text.split(".")):
        yield Finding(
            key=key,
            problem=f"{text!r} is no name",
            remedy="use letters, digits and hyphens, as in a host name",
        )


def check_address(key: str, text: str) -> Iterator[Finding]:
    """An IPv4 address of a host, without prefix length."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        remedy = "write four numbers, as in 10.2.0.11"
        if "/" in text:
            remedy = f"write the address alone: {text.partition('/')[0]}"
        elif ":" in text and key.endswith("_ip"):
            remedy = f"our routes are IPv4; an IPv6 address goes into {key.rpartition('.')[2]}6 beside it"
        yield Finding(key=key, problem=f"{text!r} is no IPv4 address", remedy=remedy)
        return
    if address.is_unspecified or address.is_loopback or address.is_multicast:
        yield Finding(key=key, problem=f"{text} is no address of a host", remedy="write the address others reach")


def check_address6(key: str, text: str) -> Iterator[Finding]:
    """An IPv6 address of a host in its canonical form (RFC 5952), without prefix length or zone."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        remedy = "write it as in fd00:2::11"
        if "/" in text:
            remedy = f"write the address alone: {text.partition('/')[0]}"
        yield Finding(key=key, problem=f"{text!r} is no IPv6 address", remedy=remedy)
        return
    if address.is_link_local:
        yield Finding(key=key, problem=f"{text} means another host on each link", remedy="write a routable address")
    elif address.is_unspecified or address.is_loopback or address.is_multicast or address.ipv4_mapped:
        yield Finding(key=key, problem=f"{text} is no address of a host", remedy="write the address others reach")
    elif str(address) != text:
        yield Finding(key=key, problem=f"{text} has a shorter form", remedy=f"write {address}")


def check_prefix(key: str, text: str) -> Iterator[Finding]:
    """An IPv4 prefix with all host bits zero."""
    try:
        loose = ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        loose = None
    if loose is None or "/" not in text:
        yield Finding(
            key=key, problem=f"{text!r} is no IPv4 prefix", remedy="write address/length, as in 10.244.4.0/24"
        )
    elif loose.prefixlen == 0:
        yield Finding(key=key, problem=f"{text} is everything", remedy="write the prefix of this node's pods")
    elif str(loose) != text:
        yield Finding(key=key, problem=f"{text} has host bits set", remedy=f"write {loose}")


def check_public_key(key: str, text: str) -> Iterator[Finding]:
    """Base64 of 32 bytes. The text is not repeated: somebody may have pasted the private key."""
    if decode_key(text) is None:
        yield Finding(
            key=key,
            problem=f"is not base64 of {KEY_BYTES} bytes",
            remedy="write what `wg pubkey < standby.key` prints on that node (44 characters)",
        )


def decode_key(text: str) -> bytes | None:
    """The 32 bytes of a base64 key, or None when it is not one."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == KEY_BYTES else None


def check_endpoint(key: str, text: str) -> Iterator[Finding]:
    """The host part of an endpoint: an IPv4 address or a host name."""
    host, colon, port = text.partition(":")
    if colon and port.isdigit():
        yield Finding(
            key=key,
            problem=f"{text!r} has a port",
            remedy=f"write {host!r}; the port follows from standby.port",
        )
    elif text[-1:].isdigit():
        yield from check_address(key, text)
    elif any(len(label) > _MAX_LABEL for label in text.split(".")):
        yield Finding(
            key=key,
            problem=f"{text!r} cannot be looked up",
            remedy=f"write 1 to {_MAX_LABEL} letters between two dots, as the DNS takes them",
        )
    else:
        yield from check_name(key, text)


def check_port_range(key: str, text: str) -> Iterator[Finding]:
    """Two UDP ports in rising order, joined by a hyphen."""
    try:
        parse_port_range(text)
    except ValueError as error:
        problem, _, remedy = str(error).partition("; ")
        yield Finding(key=key, problem=problem, remedy=remedy)


def check_number(key: str, value: int, *, least: int, most: int, why: str = "") -> Iterator[Finding]:
    """A whole number between two others, with the reason for the bounds."""
    if not least <= value <= most:
        reason = f" ({why})" if why else ""
        yield Finding(key=key, problem=f"{value} is out of range", remedy=f"write {least} to {most}{reason}")


def check_device(key: str, text: str) -> Iterator[Finding]:
    """A network device's name, as the kernel accepts it (dev_valid_name() in net/core/dev.c)."""
    is_valid = 0 < len(text) <= _MAX_DEVICE_NAME and text not in {".", ".."}
    if not is_valid or re.search(r"[\s/:\0]", text):
        yield Finding(
            key=key,
            problem=f"{text!r} is no device name",
            remedy=f"write 1 to {_MAX_DEVICE_NAME} characters without space, slash or colon",
        )
