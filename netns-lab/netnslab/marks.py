"""What the daemons have put into the kernel, read with ip(8) and without asking a daemon.

Rules and routes are theirs by protocol number, devices by name: a device has nowhere to carry a mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from netnslab.inhabitant import Inhabitant
from netnslab.lab import Lab

# The protocol number that every rule and route of the daemon carries (its setting kernel.protocol).
MARK = 117
# Rules for all packets divert traffic, wherever foreign rules have made them stand; but for the one that looks up this
# table (kernel.table_base + 98), which is empty. All others are for probes, or for what comes out of a standby link.
EMPTY_TABLE = "7798"
SELECTING = {"ipproto", "iif"}
# Standby links (its setting kernel.device_prefix, and a number).
DEVICE = re.compile(r"mw\d+")


def marked(place: Inhabitant) -> tuple[str, ...]:
    """Every rule, route of any table, and device that is the daemon's, as one line each, sorted."""
    routes = place.run(["ip", "-4", "route", "show", "table", "all", "proto", str(MARK)], check=True).stdout
    names = [str(link["ifname"]) for link in _decoded(place, "link", "show")]
    lines = [f"rule {_words(rule)}" for rule in _marked_rules(place)]
    lines += [f"route {' '.join(line.split())}" for line in routes.splitlines() if line.strip()]
    lines += [f"device {name}" for name in names if DEVICE.fullmatch(name)]
    return tuple(sorted(lines))


def marked_by_node(lab: Lab, nodes: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """What is marked on each node; nodes without any are left out."""
    found = {node: marked(lab.node(node)) for node in nodes}
    return {node: lines for node, lines in found.items() if lines}


def diverted(lab: Lab, nodes: Iterable[str]) -> tuple[str, ...]:
    """The nodes whose traffic a marked rule sends over another path than the mesh's own."""
    return tuple(node for node in nodes if _has_override(lab.node(node)))


def is_override(rule: Mapping[str, object]) -> bool:
    """Whether a rule, as `ip -json -N rule` shows it, is the daemon's and diverts traffic."""
    is_ours = str(rule.get("protocol")) == str(MARK)
    return is_ours and not SELECTING & rule.keys() and str(rule["table"]) != EMPTY_TABLE


def _has_override(place: Inhabitant) -> bool:
    return any(is_override(rule) for rule in _marked_rules(place))


def _marked_rules(place: Inhabitant) -> list[Mapping[str, object]]:
    """Filtered here: `ip rule list protocol N` of iproute2 6.1 also lists rules that carry no protocol."""
    rules = _decoded(place, "-4", "rule", "list")
    return [rule for rule in rules if str(rule.get("protocol")) == str(MARK)]


def _words(rule: Mapping[str, object]) -> str:
    return " ".join(f"{key} {value}" for key, value in rule.items())


def _decoded(place: Inhabitant, *arguments: str) -> list[Mapping[str, object]]:
    text = place.run(["ip", "-json", "-N", *arguments], check=True).stdout
    objects: list[Mapping[str, object]] = json.loads(text or "[]")
    return objects
