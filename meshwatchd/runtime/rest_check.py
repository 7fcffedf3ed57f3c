"""Limits of what is sent at rest: refused where they leave no detection, and described where they leave some."""

from __future__ import annotations

from meshwatchd.core.probing.rest_limits import describe_rest, least_lan_kbit, least_wan_kbit
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import ProbeSettings
from meshwatchd.model.units import render_duration


def check_rest(path: str, probe: ProbeSettings) -> None:
    """Refuse a limit that nothing keeps within.

    Raises:
        ConfigError: with the least that is possible.
    """
    for key, limit, least in (
        ("probe.wan_kbit", probe.wan_kbit, least_wan_kbit(probe)),
        ("probe.lan_kbit", probe.lan_kbit, least_lan_kbit(probe)),
    ):
        if 0 < limit < least:
            problem = f'{limit} kbit/s is too little to detect anything in time with profile "{probe.profile.value}"'
            remedy = f"write {least} or more, or 0 for no limit"
            if key == "probe.wan_kbit" and probe.profile.value != "wan":
                remedy += ', or take probe.profile = "wan"'
            raise ConfigError(path, key, problem, remedy)


def rest_lines(probe: ProbeSettings) -> list[str]:
    """What the limits of two locations of three nodes leave; nothing where there are none."""
    if not probe.wan_kbit and not probe.lan_kbit:
        return []
    rest = describe_rest(probe)
    lines = []
    if probe.wan_kbit:
        lines.append(
            f"probe.wan_kbit = {probe.wan_kbit}: at rest two locations send each other {rest.wan_kbit:g} kbit/s; their "
            f"scouts probe the path in use every {render_duration(rest.scouts_ns)}, relays a standby every "
            f"{render_duration(rest.standby_ns)}, and a packet of full size goes every "
            f"{render_duration(rest.full_size_ns)}"
        )
    if probe.lan_kbit:
        lines.append(
            f"probe.lan_kbit = {probe.lan_kbit}: at rest a node among three has {rest.lan_kbit:g} kbit/s with its "
            f"neighbours, and probes each of them every {render_duration(rest.neighbour_ns)}"
        )
    return lines
