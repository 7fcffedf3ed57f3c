"""Settings back to TOML: the effective configuration, and the commented sample that is installed.

The sample's comments are the docstrings of the settings, so a default and its reason are written once. Lines of prose
start with "# "; the example of a mesh starts with "#" and no space, so that removing that "#" makes it real.
"""

from __future__ import annotations

import base64
import re
import sys
import textwrap
from collections.abc import Mapping
from typing import get_args

import msgspec
import tomli_w

from meshwatchd.config.explain import read_docstring
from meshwatchd.config.shape import bare, choices, unshape
from meshwatchd.model.canary import Canary, CanaryKind
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.topology import Location, Node

_WIDTH = 100
_HEADER = """\
Configuration of meshwatchd. Every value below is the default: a file with the mode alone will do, beside the mesh key.
Check it with `meshwatchd --check`; every complaint names the key and what to write instead.
Generated from the program's own settings: `python -m meshwatchd.config.dump`.
"""
_CANARY_HEADER = """\
A canary; up to 16 may be declared. {summary} Remove the # in front of the lines below and replace them by yours.
"""
_EXAMPLE_HEADER = """\
The mesh, the same on every node, where it is not to be found out. Remove the # in front of the lines below
and replace them by yours; a standby's public key is what `wg pubkey` makes of its standby.private_key_file.
"""


def dump_effective(settings: Settings) -> str:
    """Every setting in force, as a file that loads to the same settings."""
    return tomli_w.dumps(_table(settings))


def sample() -> str:
    """The commented sample: all defaults, their reasons, and an example of a mesh."""
    parts = [_comment(_HEADER), *(_section(field) for field in msgspec.structs.fields(Settings)), _example()]
    return "\n\n".join(part.rstrip() for part in (*parts[:-1], _canary(), parts[-1])) + "\n"


def sample_of(kind: type[msgspec.Struct], header: str) -> str:
    """All defaults of settings of a kind, each under its reason."""
    parts = [_comment(header), *(_section(field) for field in msgspec.structs.fields(kind))]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _table(settings: msgspec.Struct) -> dict[str, object]:
    """A struct as TOML has it."""
    table = unshape(settings)
    assert isinstance(table, dict)
    return _prune(table)


def _prune(table: Mapping[str, object]) -> dict[str, object]:
    """Leave out what is None: TOML has no word for it."""
    return {key: _prune_value(value) for key, value in table.items() if value is not None}


def _prune_value(value: object) -> object:
    if isinstance(value, Mapping):
        return _prune(value)
    return [_prune_value(item) for item in value] if isinstance(value, list | tuple) else value


def _section(section: msgspec.structs.FieldInfo) -> str:
    """One section of the sample: what it is for, then each default under its reason."""
    summary, reasons = _read_docstring(section.type)
    defaults = _table(section.default)
    lines = [_comment(summary), f"[{section.name}]"]
    for field in msgspec.structs.fields(section.type):
        if isinstance(field.default, tuple) and _is_list_of_tables(field.type):
            continue
        notes = [reasons[field.name]] if field.name in reasons else []
        notes += _choices(field.type)
        lines += [_comment(" ".join(notes))] if notes else []
        lines.append(tomli_w.dumps({field.name: defaults[field.name]}).rstrip())
    return "\n".join(lines)


def _is_list_of_tables(kind: object) -> bool:
    element = get_args(bare(kind))[0]
    return isinstance(element, type) and issubclass(element, msgspec.Struct)


def _choices(kind: object) -> list[str]:
    words = choices(kind)
    return [f"One of {', '.join(words)}."] if words else []


def _read_docstring(kind: type) -> tuple[str, dict[str, str]]:
    summary, reasons = read_docstring(kind)
    return summary, {name: _sentence(reason) for name, reason in reasons.items()}


def _sentence(text: str) -> str:
    return text if text[:1].isupper() else text[:1].upper() + text[1:]


def _comment(text: str) -> str:
    """Prose as comment lines; a space between digits ("20 000") is no place to break."""
    glued = re.sub(r"(?<=\d) (?=\d)", "\N{NO-BREAK SPACE}", " ".join(text.split()))
    filled = textwrap.fill(glued, _WIDTH, initial_indent="# ", subsequent_indent="# ")
    return filled.replace("\N{NO-BREAK SPACE}", " ")


def _example() -> str:
    mesh = _table(MeshSettings(location=_LOCATIONS, node=_NODES))
    tables = "".join(
        "\n".join([f"[[mesh.{section}]]", tomli_w.dumps(entry), ""])
        for section in ("location", "node")
        for entry in _entries(mesh[section])
    )
    tables = re.sub(r"\[\n    (.*),\n\]", r"[\1]", tables)
    commented = "\n".join(f"#{line}" if line else "" for line in tables.rstrip().splitlines())
    return f"{_comment(_EXAMPLE_HEADER)}\n\n{commented}"


def _canary() -> str:
    """One canary, each key under its reason."""
    summary, reasons = _read_docstring(Canary)
    values = _table(_CANARY)
    lines = [_comment(_CANARY_HEADER.format(summary=" ".join(summary.split()))), "", "#[[probe.canary]]"]
    for field in msgspec.structs.fields(Canary):
        notes = [reasons[field.name], *_choices(field.type)]
        lines += [_comment(" ".join(notes)), f"#{tomli_w.dumps({field.name: values[field.name]}).rstrip()}"]
    return "\n".join(lines)


def _entries(tables: object) -> list[dict[str, object]]:
    assert isinstance(tables, list)
    return tables


def _node(name: str, location: str, node_ip: str, pod_cidr: str, **more: str) -> Node:
    """A node of the example; its key decodes to words, so that nobody can take it for a real one."""
    relays = {"a1", "a2", "b1", "b2"}
    key = base64.b64encode(f"replace by the public key of  {name}".encode()).decode()
    return Node(
        name=NodeName(name),
        location=LocationName(location),
        node_ip=node_ip,
        pod_cidr=pod_cidr,
        overlay_ip=pod_cidr.partition("/")[0],
        standby_public_key=key if name in relays else None,
        **more,
    )


_LOCATIONS = (
    Location(name=LocationName("onprem"), leader=NodeName("a1"), standbys=(NodeName("a2"),)),
    Location(name=LocationName("cloud"), leader=NodeName("b1"), standbys=(NodeName("b2"),)),
)
_NODES = (
    _node("a1", "onprem", "192.168.100.11", "10.244.1.0/24", wireguard_ip="10.4.0.2"),
    _node("a2", "onprem", "192.168.100.12", "10.244.2.0/24"),
    _node("a3", "onprem", "192.168.100.13", "10.244.3.0/24"),
    _node("b1", "cloud", "10.2.0.11", "10.244.4.0/24", wireguard_ip="10.4.0.1", standby_endpoint="198.51.100.21"),
    _node("b2", "cloud", "10.2.0.12", "10.244.5.0/24", standby_endpoint="198.51.100.22"),
    _node("b3", "cloud", "10.2.0.13", "10.244.6.0/24"),
)
_CANARY = Canary(name="web-on-b3", address="10.244.6.10", port=80, node=NodeName("b3"), kind=CanaryKind.TCP)


if __name__ == "__main__":
    sys.stdout.write(sample())
