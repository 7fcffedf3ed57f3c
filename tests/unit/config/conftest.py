"""A mesh of two locations as an operator would write it, and a way to spoil one place of it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from meshwatchd.config.load import load
from meshwatchd.model.errors import ConfigError


def public_key(name: str) -> str:
    """A well-formed key for a node; different for each name."""
    return base64.b64encode(name.encode().ljust(32, b"-")).decode()


def _node(name: str, location: str, subnet: str, pod: int, *more: str) -> str:
    host = {"1": "11", "2": "12", "3": "13"}[name[1]]
    lines = (
        "[[mesh.node]]",
        f'name = "{name}"',
        f'location = "{location}"',
        f'node_ip = "{subnet}.{host}"',
        f'pod_cidr = "10.244.{pod}.0/24"',
        f'overlay_ip = "10.244.{pod}.0"',
    )
    return "\n".join([*lines, *more])


def _relay(name: str, location: str, subnet: str, pod: int, *more: str) -> str:
    return _node(name, location, subnet, pod, f'standby_public_key = "{public_key(name)}"', *more)


LAN_A, LAN_B = "192.168.100", "10.2.0"

MESH = "\n\n".join(
    [
        '[daemon]\nnode = "b3"\nmode = "enforce"',
        "[probe]\nport = 18618",
        "[kernel]\nprotocol = 117",
        "[standby]\nport = 51830",
        '[policy]\nhold_down = "30s"',
        '[mesh]\nprofile = "kilo"',
        '[[mesh.location]]\nname = "onprem"\nleader = "a1"\nstandbys = ["a2"]',
        '[[mesh.location]]\nname = "cloud"\nleader = "b1"\nstandbys = ["b2"]',
        _relay("a1", "onprem", LAN_A, 1, 'standby_endpoint = "203.0.113.11"', 'wireguard_ip = "10.4.0.2"'),
        _relay("a2", "onprem", LAN_A, 2, 'standby_endpoint = "203.0.113.12"'),
        _node("a3", "onprem", LAN_A, 3),
        _relay("b1", "cloud", LAN_B, 4, 'standby_endpoint = "198.51.100.21"', 'wireguard_ip = "10.4.0.1"'),
        _relay("b2", "cloud", LAN_B, 5, 'standby_endpoint = "198.51.100.22"'),
        _node("b3", "cloud", LAN_B, 6),
    ]
)


@pytest.fixture
def mesh_toml() -> str:
    """A configuration that loads."""
    return MESH


@pytest.fixture
def spoil(tmp_path: Path, mesh_toml: str) -> Callable[[str, str], str]:
    """Replace one piece of the good configuration and return the line an operator then reads."""

    def _spoil(good: str, bad: str) -> str:
        assert 1 == mesh_toml.count(good), f"{good!r} must occur once"
        path = tmp_path / "meshwatchd.toml"
        path.write_text(mesh_toml.replace(good, bad))
        with pytest.raises(ConfigError) as caught:
            load(path)
        text = str(caught.value)
        assert text.startswith(f"{path}: ")
        assert "\n" not in text
        return text.removeprefix(f"{path}: ")

    return _spoil
