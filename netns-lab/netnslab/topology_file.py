"""Topology files: TOML in, checked frozen data out, and errors that name the file, the key and the remedy."""

from __future__ import annotations

import difflib
import ipaddress
import itertools
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NoReturn

import msgspec

from netnslab.errors import TopologyError
from netnslab.topology import Location, Node, Topology, WireGuard

TOPOLOGY_DIRECTORY = Path(__file__).parent / "topologies"

NAME_PATTERN = re.compile(r"[a-z][a-z0-9-]{0,8}")
"""At most 9 characters: `<node>-eth0` and `br-<location>` must fit IFNAMSIZ (15 characters and a NUL)."""


def available() -> tuple[str, ...]:
    """The names of the topologies that come with the lab."""
    return tuple(sorted(path.stem for path in TOPOLOGY_DIRECTORY.glob("*.toml")))


def load(name_or_path: str) -> Topology:
    """Read a topology that comes with the lab by its name, or any other by the path of its file.

    Raises:
        TopologyError: the file is missing or wrong.
    """
    path = Path(name_or_path) if name_or_path.endswith(".toml") else TOPOLOGY_DIRECTORY / f"{name_or_path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        known = ", ".join(available())
        raise TopologyError(str(path), "file", f"{error.strerror}; known topologies: {known}") from error
    return parse(text, path=str(path))


def parse(text: str, *, path: str = "<text>") -> Topology:
    """Turn TOML text into a checked topology.

    Raises:
        TopologyError: a syntax error, an unknown key, a wrong type, an address outside its network, a
            dangling name.
    """
    try:
        raw = msgspec.convert(tomllib.loads(text), _File)
    except tomllib.TOMLDecodeError as error:
        raise TopologyError(path, "syntax", str(error)) from error
    except msgspec.ValidationError as error:
        raise TopologyError(path, *_explain(str(error))) from error
    return _Checker(path).topology(raw)


class _FileNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    location: str
    node_ip: str
    pod_cidr: str
    overlay_ip: str | None = None
    public_ip: str | None = None
    wireguard_ip: str | None = None


class _FileLocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    lan: str
    gateway: str
    leader: str
    wireguard_ip: str
    standbys: tuple[str, ...] = ()
    keepalive_s: int = 0
    nat_ip: str | None = None


class _FileWireGuard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cidr: str
    port: int = 51820
    mtu_bytes: int = 1420


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    overlay: str
    wireguard: _FileWireGuard
    location: tuple[_FileLocation, ...]
    node: tuple[_FileNode, ...]
    fabric: str = "kilo"
    host_mesh: Literal["", "nebula"] = ""
    routed: bool = False


_KNOWN_KEYS = sorted(
    {key for struct in (_File, _FileWireGuard, _FileLocation, _FileNode) for key in struct.__struct_fields__}
)


def _explain(message: str) -> tuple[str, str]:
    """Split msgspec's message into key path and problem; an unknown key gets the nearest known one."""
    problem, _, where = message.partition(" - at ")
    key = where.strip("`").removeprefix("$").removeprefix(".") or "top level"
    unknown = re.search(r"unknown field `(.+)`", problem)
    if unknown is None:
        return key, problem
    near = difflib.get_close_matches(unknown[1], _KNOWN_KEYS, n=1)
    return key, f"unknown key {unknown[1]}" + (f"; did you mean {near[0]}?" if near else "")


class _Checker:
    """Builds the frozen topology and names the file and key of whatever is wrong."""

    def __init__(self, path: str) -> None:
        self._path = path

    def topology(self, raw: _File) -> Topology:
        self._unique("location", (each.name for each in raw.location))
        self._unique("node", (each.name for each in raw.node))
        self._network("wireguard.cidr", raw.wireguard.cidr)
        locations = {each.name: self._location(i, each, raw) for i, each in enumerate(raw.location)}
        nodes = {each.name: self._node(i, each, locations) for i, each in enumerate(raw.node)}
        self._disjoint((f"node {each.name} pod_cidr", each.pod_cidr) for each in nodes.values())
        self._disjoint((f"location {each.name} lan", each.lan) for each in locations.values())
        return Topology(
            name=raw.name,
            overlay=raw.overlay,
            wireguard=WireGuard(cidr=raw.wireguard.cidr, port=raw.wireguard.port, mtu_bytes=raw.wireguard.mtu_bytes),
            locations=MappingProxyType(locations),
            nodes=MappingProxyType(nodes),
            fabric=raw.fabric,
            host_mesh=raw.host_mesh,
            is_routed=raw.routed,
        )

    def _location(self, index: int, raw: _FileLocation, file: _File) -> Location:
        key = f"location[{index}]"
        self._name(f"{key}.name", raw.name)
        lan = self._network(f"{key}.lan", raw.lan)
        self._member(f"{key}.gateway", raw.gateway, lan)
        self._member(f"{key}.wireguard_ip", raw.wireguard_ip, ipaddress.IPv4Network(file.wireguard.cidr))
        members = [node.name for node in file.node if node.location == raw.name]
        for relay in (raw.leader, *raw.standbys):
            if relay not in members:
                self._fail(f"{key}.leader/standbys", f"{relay} is not a node of {raw.name} ({', '.join(members)})")
        self._unique(f"{key}.leader/standbys", (raw.leader, *raw.standbys))
        if raw.nat_ip is not None:
            self._address(f"{key}.nat_ip", raw.nat_ip)
        return Location(
            name=raw.name,
            lan=raw.lan,
            gateway=raw.gateway,
            leader=raw.leader,
            standbys=raw.standbys,
            wireguard_ip=raw.wireguard_ip,
            keepalive_s=raw.keepalive_s,
            nat_ip=raw.nat_ip,
        )

    def _node(self, index: int, raw: _FileNode, locations: Mapping[str, Location]) -> Node:
        key = f"node[{index}]"
        self._name(f"{key}.name", raw.name)
        if raw.location not in locations:
            self._fail(f"{key}.location", f"{raw.location} is not declared; known: {', '.join(locations)}")
        self._member(f"{key}.node_ip", raw.node_ip, ipaddress.IPv4Network(locations[raw.location].lan))
        pods = self._network(f"{key}.pod_cidr", raw.pod_cidr)
        if pods.prefixlen > 28:
            self._fail(f"{key}.pod_cidr", f"{raw.pod_cidr} is too small; use /28 or larger")
        addresses = {"overlay_ip": raw.overlay_ip, "public_ip": raw.public_ip, "wireguard_ip": raw.wireguard_ip}
        for name, address in addresses.items():
            if address is not None:
                self._address(f"{key}.{name}", address)
        return Node(
            name=raw.name,
            index=index + 1,
            location=raw.location,
            node_ip=raw.node_ip,
            pod_cidr=raw.pod_cidr,
            overlay_ip=raw.overlay_ip or str(pods[0]),
            pod_gateway_ip=str(pods[1]),
            pod_ip=str(pods[2]),
            public_ip=raw.public_ip,
            wireguard_ip=raw.wireguard_ip,
        )

    def _name(self, key: str, name: str) -> None:
        if not NAME_PATTERN.fullmatch(name):
            self._fail(key, f"{name!r} does not match {NAME_PATTERN.pattern}, which keeps device names short enough")

    def _unique(self, key: str, names: Iterable[str]) -> None:
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            self._fail(key, f"{', '.join(repeated)} is there more than once")

    def _disjoint(self, prefixes: Iterable[tuple[str, str]]) -> None:
        parsed = [(key, ipaddress.IPv4Network(text)) for key, text in prefixes]
        for (key, one), (other_key, other) in itertools.combinations(parsed, 2):
            if one.overlaps(other):
                self._fail(key, f"{one} overlaps {other} of {other_key}")

    def _network(self, key: str, text: str) -> ipaddress.IPv4Network:
        try:
            return ipaddress.IPv4Network(text)
        except ValueError as error:
            self._fail(key, f"{error}; expected a prefix such as 10.2.0.0/24")

    def _address(self, key: str, text: str) -> ipaddress.IPv4Address:
        try:
            return ipaddress.IPv4Address(text)
        except ValueError as error:
            self._fail(key, f"{error}; expected an address such as 10.2.0.13")

    def _member(self, key: str, text: str, network: ipaddress.IPv4Network) -> None:
        if self._address(key, text) not in network:
            self._fail(key, f"{text} is not in {network}")

    def _fail(self, key: str, problem: str) -> NoReturn:
        raise TopologyError(self._path, key, problem)
