"""IPv6 beside IPv4 on real kernels: lost alone, it is named and moves nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netnslab import Lab
from netnslab.daemons import CONFIGURATION, Daemons
from netnslab.topology_file import load
from netnslab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CLOUD = ("b1", "b2", "b3")
TOPOLOGY = load("kilo-flannel")
READY_S = 90
TOLD_S = 60
"""Ten probes of a session that is asked every second or less, and three seconds of patience for a side issue."""


def test_the_loss_of_ip6_alone_is_named(tmp_path):
    """IPv6 on the LAN and inside flannel.1 of the cloud; b1 loses it, IPv4 goes on."""
    with Lab.up("kilo-flannel") as lab:
        for node in CLOUD:
            _give_ip6(lab, node)
        mesh = tuple(_node(node) for node in _declared(lab))
        with Daemons(lab, tmp_path, settings={"mesh": {"node": mesh}}) as daemons:
            daemons.wait_ready(timeout_s=READY_S)

            with _without_ip6(lab, "b1"):
                wait_until(
                    lambda: all(("address-family-broken", "b1") == _named(daemons, node) for node in ("b2", "b3")),
                    timeout_s=TOLD_S,
                    what="the loss of IPv6 to be named",
                    poll_s=0.5,
                )
                # The layer above may be missed before: its probes are others.
                wait_until(
                    lambda: "silent by IPv6 on layer underlay: b1" in daemons.control("b3", "explain").stdout,
                    timeout_s=TOLD_S,
                    what="the lowest layer to be named",
                    poll_s=0.5,
                )
                assert [] == [e for e in daemons.events() if e.name == "failover.applied"]


@contextmanager
def _without_ip6(lab: Lab, name: str) -> Iterator[None]:
    """The node hears no IPv6, neighbour discovery included."""
    place = lab.node(name)
    chain = "add chain ip6 hush c { type filter hook input priority 0; policy drop; }"
    place.run(["nft", f"add table ip6 hush; {chain}"], check=True)
    try:
        yield
    finally:
        place.run(["nft", "delete table ip6 hush"], check=True)


def _named(daemons: Daemons, node: str) -> tuple[str, str]:
    status = daemons.status(node)
    verdict = status["pairs"][0]["verdict"] if status else {}
    return str(verdict.get("fault")), str(verdict.get("culprit"))


def _ip6(prefix: str, name: str) -> str:
    return f"{prefix}::{TOPOLOGY.nodes[name].index:x}"


def _give_ip6(lab: Lab, name: str) -> None:
    """Addresses by hand, without solicitation where flannel has none: the lab is IPv4 otherwise."""
    place = lab.node(name)
    for device in ("eth0", "flannel.1"):
        place.run(["sysctl", "-qw", f"net/ipv6/conf/{device}/disable_ipv6=0"], check=True)
    place.run(["ip", "-6", "address", "add", f"{_ip6('fd00:2', name)}/64", "dev", "eth0", "nodad"], check=True)
    place.run(["ip", "-6", "address", "add", f"{_ip6('fd00:244', name)}/64", "dev", "flannel.1", "nodad"], check=True)
    for other in CLOUD:
        if other != name:
            mac = TOPOLOGY.nodes[other].overlay_mac
            entry = [_ip6("fd00:244", other), "lladdr", mac, "dev", "flannel.1", "nud", "permanent"]
            place.run(["ip", "-6", "neighbour", "replace", *entry], check=True)


def _declared(lab: Lab) -> list[dict[str, object]]:
    text = lab.node("b1").run(["cat", CONFIGURATION], check=True).stdout
    nodes: list[dict[str, object]] = tomllib.loads(text)["mesh"]["node"]
    return nodes


def _node(declared: dict[str, object]) -> dict[str, object]:
    name = str(declared["name"])
    if name not in CLOUD:
        return declared
    return declared | {"node_ip6": _ip6("fd00:2", name), "overlay_ip6": _ip6("fd00:244", name)}
