"""Flannel's files: subnet.env for its CNI plugin, and net-conf.json where K3s wrote it.

    FLANNEL_NETWORK=10.42.0.0/16
    FLANNEL_SUBNET=10.42.0.1/24
    FLANNEL_MTU=1450
    FLANNEL_IPMASQ=true

Source: WriteSubnetFile() in pkg/subnet of flannel 0.27; setupFlannel in K3s's pkg/agent/flannel.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from meshwatchd.adapters.sources import check
from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import FlannelBackend, FlannelSubnet

SUBNET_FILES: Final = (Path("/run/flannel/subnet.env"),)
"""K3s writes it to the same place."""

CONFIGURATION_FILES: Final = (
    Path("/var/lib/rancher/k3s/agent/etc/flannel/net-conf.json"),
    Path("/etc/kube-flannel/net-conf.json"),
)

MAX_MTU: Final = 65_535

_LINE: Final = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)")
_BACKEND: Final = re.compile(r"[a-z0-9-]{1,32}")


class _Backend(msgspec.Struct, frozen=True, rename="pascal"):
    type: str


class _Configuration(msgspec.Struct, frozen=True, rename="pascal"):
    backend: _Backend
    network: str = ""


def parse_subnet(data: bytes, path: Path) -> FlannelSubnet:
    """Turn subnet.env into a FlannelSubnet.

    Raises:
        DecodeError: a line is no assignment, or a value is missing or not what its name says.
    """
    source = str(path)
    found: dict[str, str] = {}
    for number, line in enumerate(check.text_of(data, source).splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            match = _LINE.fullmatch(stripped)
            if match is None:
                raise DecodeError(source, f"line {number} is no assignment: {check.shown(stripped)}")
            found[match[1]] = match[2]
    network, subnet, mtu = (_value(found, name, source) for name in ("NETWORK", "SUBNET", "MTU"))
    pod_cidr = check.ipv4_prefix(subnet, source, "FLANNEL_SUBNET")
    return FlannelSubnet(
        path=source,
        # Of several networks, separated by commas, the first holds the subnet.
        network=check.ipv4_prefix(network.partition(",")[0], source, "FLANNEL_NETWORK"),
        pod_cidr=pod_cidr,
        mtu_bytes=check.number(mtu, source, "FLANNEL_MTU", most=MAX_MTU),
    )


def _value(found: dict[str, str], name: str, source: str) -> str:
    key = f"FLANNEL_{name}"
    if key not in found:
        raise DecodeError(source, f"there is no {key}")
    return found[key]


def parse_configuration(data: bytes, path: Path) -> FlannelBackend:
    """Turn net-conf.json into a FlannelBackend.

    Raises:
        DecodeError: it is no JSON of that shape.
    """
    source = str(path)
    told = decode_json(data, _Configuration, Door(source))
    if _BACKEND.fullmatch(told.backend.type) is None:
        raise DecodeError(source, f"Backend.Type: {check.shown(told.backend.type)} is no backend")
    network = check.ipv4_prefix(told.network, source, "Network") if told.network else ""
    return FlannelBackend(path=source, network=network, backend=told.backend.type)
