"""Hellos of a made-up mesh: what its nodes would tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from meshwatchd.model.discovery import Basis, Hello, LocalView
from meshwatchd.model.ids import LocationName, NodeName

KEYS = {name: f"{index}" * 43 + "=" for index, name in enumerate(("a1", "a2", "a3", "b1", "b2", "b3"), 1)}
LEADERS = {"a": "a1", "b": "b1"}
_NUMBERS = {name: index for index, name in enumerate(("a1", "a2", "a3", "b1", "b2", "b3"), 1)}


def _number(name: str) -> int:
    """Of one of the six, or of another node of a larger mesh: a4 to a99, b4 to b99."""
    return _NUMBERS.get(name, int(name[1:]) + (0 if name[0] == "a" else 100) + 6)


def overlay_ip(name: str) -> str:
    """As flannel gives it: the network address of the node's pods."""
    return f"10.244.{_number(name)}.0"


def view(name: str, *, leaders: Mapping[str, str] = LEADERS, location: str = "", **more: Any) -> LocalView:
    """What a node of the lab's kilo-flannel sees of itself."""
    site, number = name[0], _number(name)
    leader = leaders.get(site, "")
    is_leader = leader == name
    base = LocalView(
        profiles=("kilo", "flannel"),
        node=NodeName(name),
        location=LocationName(location),
        leader=overlay_ip(leader) if leader else "",
        is_leader=is_leader,
        granularity="location",
        node_ip=f"192.168.100.{10 + int(name[1:])}" if site == "a" else f"10.2.0.{10 + int(name[1:])}",
        pod_cidr=f"10.244.{number}.0/24",
        is_pod_cidr_in_kernel=True,
        overlay_ip=overlay_ip(name),
        wireguard_ip=("10.4.0.2" if site == "a" else "10.4.0.1") if is_leader else "",
        wireguard_device="kilo0",
        overlay_device="flannel.1",
        wireguard_mtu_bytes=1420,
    )
    return msgspec.structs.replace(base, **more)


def hello(
    name: str,
    *,
    home: str | None = None,
    basis: Basis = Basis.DERIVED,
    leaders: Mapping[str, str] = LEADERS,
    seen: Mapping[str, Any] | None = None,
    **more: Any,
) -> Hello:
    """What that node tells; `seen` changes its view, `more` the hello."""
    default_home = f"site-{LEADERS[name[0]]}"
    base = Hello(
        view=view(name, leaders=leaders, **(seen or {})),
        standby_public_key=KEYS[name],
        standby_endpoint=f"203.0.113.{_NUMBERS[name]}",
        version="1",
        mode="enforce",
        home=LocationName(default_home if home is None else home),
        basis=basis,
        leads_since_ns=_NUMBERS[name] if leaders.get(name[0]) == name else 0,
    )
    return msgspec.structs.replace(base, **more)


def lone(number: int, home: str) -> Hello:
    """A node z0, z1, ... that leads a location of its own."""
    name, own = NodeName(f"z{number}"), f"10.99.{number}.0"
    seen = view(
        "a1",
        node=name,
        leader=own,
        node_ip=f"10.9.0.{number + 1}",
        pod_cidr=f"{own}/24",
        overlay_ip=own,
        wireguard_ip=f"10.4.9.{number + 1}",
    )
    endpoint = f"198.51.100.{number + 1}"
    return msgspec.structs.replace(hello("a1"), view=seen, home=LocationName(home), standby_endpoint=endpoint)


def whole_mesh(**more: Any) -> dict[NodeName, Hello]:
    """The hellos of all six nodes."""
    return {NodeName(name): hello(name, **more) for name in _NUMBERS}
