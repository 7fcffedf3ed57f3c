"""Chains of the firewall that drop what no rule takes, and name none of our ports.

A look, not a proof: whether packets really pass is what the daemon's own probes tell (`probe-port-blocked`).

Source: libnftables-json(5).
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.port_map import RESERVED_PORTS
from meshwatchd.model.settings import Settings

NFT = ("nft", "--json", "list", "ruleset")
TIMEOUT_S = 5.0

Entry = Mapping[str, object]


def read_ruleset(command: Sequence[str] = NFT) -> list[Entry] | None:
    """All objects of nftables, which has iptables' rules as well; None where they cannot be read."""
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S)
        document = msgspec.json.decode(done.stdout, type=dict[str, list[dict[str, object]]])
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError, RecursionError):
        return None
    return list(document.get("nftables", []))


def check_firewall(settings: Settings, entries: list[Entry] | None) -> Iterator[Check]:
    """One warning for each input chain that drops by default and has no rule for our ports."""
    first, last = settings.probe.port - 2, settings.probe.port + RESERVED_PORTS - 1
    if entries is None:
        text = f"nftables cannot be read here; UDP ports {first} to {last} have to pass"
        yield Check(area="firewall", state=CheckState.NOTE, text=text, remedy="nft list ruleset")
        return
    rules = [rule for entry in entries if isinstance(rule := entry.get("rule"), dict)]
    closed = [chain for entry in entries if isinstance(chain := entry.get("chain"), dict) and _is_closed(chain)]
    for chain in closed:
        family, table, name = (str(chain.get(key, "")) for key in ("family", "table", "name"))
        if any(_names(rule.get("expr"), settings.probe.port) for rule in rules if rule.get("family") == family):
            continue
        yield Check(
            area="firewall",
            state=CheckState.WARNING,
            text=f"chain {family} {table} {name} drops by default, and no rule names UDP ports {first} to {last}",
            remedy=f"nft add rule {family} {table} {name} udp dport {first}-{last} accept",
        )
    if not closed:
        yield Check(area="firewall", state=CheckState.OK, text="no input chain drops by default")


def _is_closed(chain: Entry) -> bool:
    return chain.get("hook") == "input" and chain.get("policy") == "drop"


def _names(expression: object, port: int) -> bool:
    """Whether a number, range or set somewhere in a rule covers a port."""
    if isinstance(expression, dict):
        match expression.get("range"):
            case [int(first), int(last)]:
                return first <= port <= last
            case _:
                return any(_names(each, port) for each in expression.values())
    if isinstance(expression, list):
        return any(_names(each, port) for each in expression)
    return expression == port and not isinstance(expression, bool)
