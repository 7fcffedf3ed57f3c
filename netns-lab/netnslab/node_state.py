"""The literal network state of a node: captured, to be restored by a fault, and compared, to prove that it was.

What changes by itself is left out: counters, ages, interface indices, endpoints that roam behind a NAT.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from netnslab.inhabitant import Inhabitant

SYSCTLS = (
    *("net/ipv4/ip_forward", "net/ipv4/conf/*/forwarding", "net/ipv4/conf/*/rp_filter"),
    "net/netfilter/nf_conntrack_tcp_loose",
)

DAEMON_PROTOCOL = "117"
"""Routes of meshwatchd's own come and go with it."""

_VOLATILE = re.compile(r"^\d+: |\b(group|qlen|promiscuity|allmulti) \S+|state (UNKNOWN|UP)\b|if\d+|link-netnsid \d+")
_OWN_DEVICE = re.compile(r"\bmw\d+\b")


def dump(node: Inhabitant) -> Mapping[str, str]:
    """Everything a fault of the catalogue may touch, as text by its heading; equal before and after."""
    return {
        "links": _lines(node, "ip", "link"),
        "overlay": _lines(node, "ip", "-d", "link", "show", "type", "vxlan"),
        "addresses": _lines(node, "ip", "-o", "-4", "address", without=("valid_lft",)),
        "routes": _lines(node, "ip", "-d", "-N", "route", "show", "table", "all", without=("broadcast",)),
        "learned": _learned(node),
        "rules": _lines(node, "ip", "-d", "-N", "rule"),
        "neighbours": _lines(node, "ip", "neigh", "show", "nud", "permanent"),
        "fdb": _fdb(node),
        "wireguard": _wireguard(node),
        "filters": _lines(node, "nft", "list", "ruleset"),
        "sysctls": _sysctls(node),
    }


def differences(before: Mapping[str, Mapping[str, str]], after: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One line for each line that only one of two states has, by node: what a fault left, or failed to restore."""
    found = []
    for name, headings in before.items():
        for heading, text in headings.items():
            one, other = text.splitlines(), after[name][heading].splitlines()
            found += [f"{name} {heading} - {line}" for line in one if line not in other]
            found += [f"{name} {heading} + {line}" for line in other if line not in one]
    return found


def entries(node: Inhabitant, device: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines for `ip -batch` and `bridge -batch` that give a device of the same name its entries back.

    FDB entries first (they need no address), then neighbours, then routes: without those two, the kernel would ask
    for the gateway by ARP.
    """
    neighbours = [
        f"neighbour replace {each['dst']} lladdr {each['lladdr']} dev {device} nud permanent"
        for each in _json(node, "neigh", "show", "dev", device, "nud", "permanent")
    ]
    return (*neighbours, *routes_over(node, device)), tuple(fdb_lines(node, device))


def routes_over(node: Inhabitant, device: str) -> list[str]:
    """Lines that restore each route out of a device, in whatever table, with its exact attributes."""
    text = node.run(["ip", "-d", "-N", "-4", "route", "show", "table", "all", "dev", device], check=True).stdout
    lines = []
    for line in text.splitlines():
        words = line.split()
        if words[0] != "1" or _after(words, "proto") in {DAEMON_PROTOCOL, "2"}:
            continue  # not unicast (rtm_type), ours, or made by the kernel for an address
        lines.append(f"route replace {' '.join(words[1:])} dev {device}")
    return lines


def fdb_lines(node: Inhabitant, device: str) -> list[str]:
    """Lines for `bridge -batch` that restore each FDB entry of a VXLAN device."""
    text = node.run(["bridge", "fdb", "show", "dev", device], check=True).stdout
    lines = []
    for line in text.splitlines():
        words = line.split()
        if "dst" in words and "permanent" in words:
            lines.append(f"fdb replace {words[0]} dev {device} dst {_after(words, 'dst')} self permanent")
    return lines


def peers(node: Inhabitant, device: str) -> dict[str, dict[str, str]]:
    """The WireGuard peers of a device by the first of their AllowedIPs: key, endpoint, allowed, keepalive."""
    found = {}
    for line in node.run(["wg", "show", device, "dump"], check=True).stdout.splitlines()[1:]:
        key, _, endpoint, allowed, _, _, _, keepalive = line.split("\t")
        found[allowed.split(",")[0]] = {
            "key": key,
            "endpoint": "" if endpoint == "(none)" else endpoint,
            "allowed": allowed,
            "keepalive": keepalive,
        }
    return found


def _fdb(node: Inhabitant) -> str:
    devices = [each["ifname"] for each in _json(node, "link", "show", "type", "vxlan")]
    return "\n".join(line for device in devices for line in sorted(fdb_lines(node, device)))


def _wireguard(node: Inhabitant) -> str:
    """Devices but our own, with what was configured: endpoints without the ports that a NAT chooses."""
    lines = []
    for line in node.run(["wg", "show", "all", "dump"]).stdout.splitlines():
        fields = line.split("\t")
        if _OWN_DEVICE.fullmatch(fields[0]):
            continue
        if len(fields) == 9:
            lines.append(" ".join((fields[0], fields[1], fields[3].partition(":")[0], fields[4], fields[8])))
        else:
            lines.append(" ".join(fields))
    return "\n".join(sorted(lines))


def _learned(node: Inhabitant) -> str:
    """Addresses towards which the kernel has learned a smaller MTU; what expires is not compared."""
    text = node.run(["ip", "-o", "-4", "route", "show", "cache"]).stdout
    return "\n".join(sorted(line.split()[0] for line in text.splitlines() if " mtu " in line))


def _sysctls(node: Inhabitant) -> str:
    script = "cd /proc/sys && grep -H . " + " ".join(SYSCTLS) + " 2>/dev/null || true"
    text = node.run(["sh", "-c", script]).stdout
    return "\n".join(sorted(line for line in text.splitlines() if not _OWN_DEVICE.search(line)))


def _lines(node: Inhabitant, *argv: str, without: tuple[str, ...] = ()) -> str:
    text = node.run(list(argv)).stdout
    kept = [
        " ".join(_VOLATILE.sub("", line).split())
        for line in text.splitlines()
        if not _OWN_DEVICE.search(line)
        and f"proto {DAEMON_PROTOCOL}" not in line
        and not any(word in line for word in without)
    ]
    return "\n".join(sorted(kept))


def _json(node: Inhabitant, *argv: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", json.loads(node.run(["ip", "-j", *argv], check=True).stdout or "[]"))


def _after(words: list[str], word: str) -> str:
    return words[words.index(word) + 1] if word in words else ""
