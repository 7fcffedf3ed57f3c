"""Whether a hello makes sense: it is signed, but its sender may be of another version, misconfigured or mad."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterator

import msgspec

from meshwatchd.model.discovery import Hello, LocalView, ToldFault
from meshwatchd.model.faults import Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.node_report import NodeReport

KEY_BYTES = 32
MAX_NAME = 253
MAX_LABEL = 63
"""Letters between two dots of a host name (RFC 1035, section 2.3.4); a resolver asks nobody for more, or for none."""
MAX_PORT = 65_535
MAX_VNI = 2**24 - 1
MAX_MACS = 8
"""More than any version advertises."""
MAX_FAULTS = 16
"""More than any version tells."""
MAX_LISTED = 16
"""Layers, kinds of mesh, their traits, and capabilities: three times what any version tells. All are kept in a file."""
MAX_TEXT = 253
"""Letters; a name of the DNS has no more, and it is what a hello says at most."""
MAX_BYTES = 10_000_000
"""No device carries larger packets."""
MAX_REPORTED = 32
"""Verdicts, and silent peers, in one report; likewise."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
_CODE = re.compile(r"[a-z0-9-]{1,40}")
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_DEVICE = re.compile(r"[^\s/:\0]{1,15}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?")


def complaint(hello: Hello) -> str:
    """The first thing wrong with a hello, with the field's name; empty when it can be used."""
    return next(_complaints(hello), "")


def is_report(report: NodeReport) -> bool:
    """Whether a report can be shown: names are names, codes are codes, and there are not too many."""
    verdicts, silences = report.verdicts, report.silences
    return (
        report.severity in {"", *Severity}
        and max(len(verdicts), len(silences)) <= MAX_REPORTED
        and all(_is_name(each.towards) and _is_name(each.culprit) and _is_name(each.peer) for each in verdicts)
        and all(_CODE.fullmatch(each.fault) for each in verdicts)
        and all(each.peer and _is_name(each.peer) and each.layer in set(Layer) for each in silences)
    )


def _is_name(text: str) -> bool:
    """Whether it is a name, or nothing."""
    return not text or bool(len(text) <= MAX_NAME and _NAME.fullmatch(text))


def _complaints(hello: Hello) -> Iterator[str]:
    yield from _bad_names(hello)
    yield from _bad_addresses(hello.view)
    for field in ("wireguard_device", "overlay_device", "ipip_device"):
        text = getattr(hello.view, field)
        if text and not _DEVICE.fullmatch(text):
            yield f"{field} {text[:40]!r} is no device name"
    macs = hello.view.node_macs
    if len(macs) > MAX_MACS or not all(_MAC.fullmatch(mac) for mac in macs):
        yield f"node_macs are more than {MAX_MACS}, or one is no MAC"
    if hello.view.vtep_mac and not _MAC.fullmatch(hello.view.vtep_mac):
        yield f"vtep_mac {hello.view.vtep_mac[:40]!r} is no MAC"
    yield from _bad_numbers(hello)
    yield from _long_lists(hello)
    if len(hello.faults) > MAX_FAULTS or any(not _is_told(each) for each in hello.faults):
        yield f"faults are more than {MAX_FAULTS}, or one is no code at a node"
    if hello.standby_public_key and not _is_key(hello.standby_public_key):
        yield f"standby_public_key is not base64 of {KEY_BYTES} bytes"
    if hello.standby_endpoint and not _is_host(hello.standby_endpoint):
        yield f"standby_endpoint {hello.standby_endpoint[:40]!r} is no host, whose labels have 1 to {MAX_LABEL} letters"
    # Texts of which nothing else is asked end in logs and on terminals.
    for text in _odd(hello):
        yield f"a text in it is longer than {MAX_TEXT} letters or not printable: {text[:40]!r}"


def _odd(value: object) -> Iterator[str]:
    """Texts anywhere in a hello that are none for people."""
    if isinstance(value, str):
        if len(value) > MAX_TEXT or not value.isprintable():
            yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _odd(each)
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            yield from _odd(getattr(value, field))


def _bad_numbers(hello: Hello) -> Iterator[str]:
    view = hello.view
    limits = {
        "vtep_port": (view.vtep_port, MAX_PORT),
        "vtep_vni": (view.vtep_vni, MAX_VNI),
        "wireguard_mtu_bytes": (view.wireguard_mtu_bytes, MAX_BYTES),
        "tunnel_port": (hello.tunnel_port, MAX_PORT),
        "leads_since_ns": (hello.leads_since_ns, 2**63 - 1),
    }
    for field, (number, limit) in limits.items():
        if not 0 <= number <= limit:
            yield f"{field} is not from 0 to {limit}"


def _long_lists(hello: Hello) -> Iterator[str]:
    view = hello.view
    lists = {
        "profiles": view.profiles,
        "layers": view.layers,
        "traits": view.traits,
        "capabilities": hello.capabilities,
    }
    for field, listed in lists.items():
        if len(listed) > MAX_LISTED:
            yield f"{field} are more than {MAX_LISTED}"


def _bad_names(hello: Hello) -> Iterator[str]:
    for field, text in (("node", hello.view.node), ("home", hello.home), ("location", hello.view.location)):
        is_missing = not text and field != "node"
        if not is_missing and not (len(text) <= MAX_NAME and _NAME.fullmatch(text)):
            yield f"{field} {text[:40]!r} is no name"


def _is_told(told: ToldFault) -> bool:
    return bool(told.culprit and _is_name(told.culprit) and _is_name(told.peer) and _CODE.fullmatch(told.fault))


def _bad_addresses(view: LocalView) -> Iterator[str]:
    for field in ("node_ip", "overlay_ip", "wireguard_ip", "leader"):
        text = getattr(view, field)
        if not _is_address(text):
            yield f"{field} {text[:40]!r} is no address"
    for field in ("node_ip6", "overlay_ip6", "wireguard_ip6"):
        text = getattr(view, field)
        if text and not (":" in text and _is_address(text)):
            yield f"{field} {text[:40]!r} is no IPv6 address"
    if ":" in view.node_ip:
        yield f"node_ip {view.node_ip} is IPv6, and routes of ours are IPv4"
    if view.pod_cidr and not _is_prefix(view.pod_cidr):
        yield f"pod_cidr {view.pod_cidr[:40]!r} is no IPv4 prefix"


def _is_address(text: str) -> bool:
    """An address of a host, or nothing."""
    if not text:
        return True
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    # A zone is an index of the sender's, and an IPv4 address in IPv6's clothes is another node's.
    is_disguised = "%" in text or (address.version == 6 and address.ipv4_mapped is not None)
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or is_disguised)


def _is_host(text: str) -> bool:
    """Whether it is an address, or a name that can be looked up."""
    return bool(_HOST.fullmatch(text)) and all(1 <= len(label) <= MAX_LABEL for label in text.split("."))


def _is_prefix(text: str) -> bool:
    """Whether it is a network, and not all of IPv4, in the form in which kernels write it: with its length."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        return False
    return network.prefixlen > 0 and str(network) == text


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False
