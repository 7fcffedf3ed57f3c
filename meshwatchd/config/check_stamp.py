"""Whether the reflector for other makers' STAMP senders has a port of its own, and serves nobody by accident."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from meshwatchd.config.check_numbers import FOREIGN_PORTS, link_ports
from meshwatchd.config.values import Finding, check_directory, check_number
from meshwatchd.model.port_map import mesh_ports
from meshwatchd.model.settings import Settings
from meshwatchd.model.stamp import StampMode

MAX_PREFIXES = 64
"""Each is up to 13 instructions of a socket filter, which has room for 4 096."""
MAX_PACKETS_PER_SECOND = 10_000
"""About half of one core, which the probes of the mesh need more."""
_LARGEST = {4: 8, 6: 19}
"""Shortest prefix length of each IP version: nobody's own network is larger than 10.0.0.0/8 or a registry's /19."""


def check_stamp(settings: Settings) -> Iterator[Finding]:
    """Everything under [stamp]; a reflector that is switched off is checked as well."""
    stamp = settings.stamp
    yield from check_number("stamp.listen", stamp.listen, least=0, most=65_535, why="0 switches it off")
    yield from check_number("stamp.packets_per_second", stamp.packets_per_second, least=1, most=MAX_PACKETS_PER_SECOND)
    if stamp.key_file:
        yield from check_directory("stamp.key_file", stamp.key_file)
    yield from _check_allowed(stamp.allow)
    if not stamp.listen:
        return
    yield from _check_port(settings)
    if not stamp.allow:
        yield Finding(
            key="stamp.allow",
            problem="is empty, so nobody would be answered",
            remedy='list the prefixes of the senders, as in allow = ["198.51.100.7/32"], or write listen = 0',
        )
    if stamp.mode is StampMode.AUTHENTICATED and not stamp.key_file:
        yield Finding(
            key="stamp.key_file",
            problem='is empty, and mode is "authenticated"',
            remedy='name the file with the key shared with the senders, or write mode = "open"',
        )


def _check_allowed(prefixes: tuple[str, ...]) -> Iterator[Finding]:
    if len(prefixes) > MAX_PREFIXES:
        yield Finding(
            key="stamp.allow",
            problem=f"has {len(prefixes)} prefixes",
            remedy=f"write at most {MAX_PREFIXES}, by larger prefixes where they join",
        )
    for index, text in enumerate(prefixes):
        yield from _check_prefix(f"stamp.allow[{index}]", text)


def _check_prefix(key: str, text: str) -> Iterator[Finding]:
    try:
        loose = ipaddress.ip_network(text, strict=False)
    except ValueError:
        loose = None
    if loose is None or "/" not in text or "%" in text:
        yield Finding(
            key=key,
            problem=f"{text!r} is no prefix",
            remedy="write address/length, as in 198.51.100.7/32 or 2001:db8:7::/64",
        )
    elif loose.prefixlen < _LARGEST[loose.version]:
        yield Finding(
            key=key,
            problem=f"{text} would answer half the world",
            remedy=f"write prefixes of your own, with a length of {_LARGEST[loose.version]} or more",
        )
    elif str(loose) != text:
        yield Finding(key=key, problem=f"{text} is not how a prefix is written", remedy=f"write {loose}")


def _check_port(settings: Settings) -> Iterator[Finding]:
    port = settings.stamp.listen
    owner = FOREIGN_PORTS.get(port)
    if port in mesh_ports(settings.probe.port):
        owner = "probes (probe.port)"
    elif port in link_ports(settings):
        owner = "standby links (standby.port)"
    if owner:
        yield Finding(
            key="stamp.listen", problem=f"{port} is the port of {owner}", remedy="choose another, such as 862"
        )
