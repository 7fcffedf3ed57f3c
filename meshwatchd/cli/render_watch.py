"""What a status watches and what that costs, and what it does not know."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.model.ids import NO_PATH
from meshwatchd.model.status import RestStatus, Status
from meshwatchd.model.units import render_duration

_SECOND_NS = 1_000_000_000

WAN_BYTES = 286
"""A probe over a path, or its answer, inside WireGuard over UDP and IPv4 (DESIGN: what a probe is made of)."""

_LOSSES = {
    "link-facts-dropped": "events were lost between the engine and the agent, which was behind",
    "agent-exits": "times the agent ended and was started again",
}
"""Counters of the engine that say that what is shown may be incomplete."""


def describe_watch(status: Status) -> Iterator[str]:
    """One line on what is watched and what that costs; none where nothing is.

    Other nodes ask this one besides, and of full-size probes there is one a second for all: neither is in it.
    """
    if not status.rates:
        return
    packets = sum(rate.sessions * _SECOND_NS / rate.interval_ns for rate in status.rates if rate.interval_ns)
    peers = len({session.peer for session in status.sessions} - {status.node})
    words = [f"watches {peers} nodes with {sum(rate.sessions for rate in status.rates)} sessions"]
    words += [f"{packets:.0f} probes a second"]
    busy = status.cpu_percent if status.cpu_percent is not None else status.counters.get("loop-busy-percent")
    words += [f"{busy} % of a core"] if busy is not None else []
    words += [f"{status.resident_bytes / 2**20:.0f} MiB"] if status.resident_bytes else []
    far = sum(rate.sessions * _SECOND_NS / rate.interval_ns for rate in status.rates if rate.path != NO_PATH)
    words += [f"some {far * WAN_BYTES * 8 / 1000:.0f} kbit/s each way to other locations"] if far else []
    yield ", ".join(words)
    if status.rest is not None and status.is_watching:
        yield from _describe_rest(status.rest)


def _describe_rest(rest: RestStatus) -> Iterator[str]:
    """What everybody sends while nothing is wrong, and which detection that is."""
    limit = f" (limit {rest.wan_limit_kbit})" if rest.wan_limit_kbit else ""
    yield (
        f"at rest all nodes of two locations send each other up to {rest.wan_kbit:.0f} kbit/s each way{limit}: scouts "
        f"probe the path in use every {render_duration(rest.scouts_ns)}, relays a standby every "
        f"{render_duration(rest.standby_ns)}, at full size every {render_duration(rest.full_size_ns)}"
    )
    limit = f" (limit {rest.lan_limit_kbit})" if rest.lan_limit_kbit else ""
    yield (
        f"at rest this node has up to {rest.lan_kbit:.0f} kbit/s each way with its neighbours{limit}: each is probed "
        f"every {render_duration(rest.neighbour_ns)}"
    )


def lost_words(status: Status) -> Iterator[str]:
    """What was lost between the processes of this node's own daemon."""
    for name, text in _LOSSES.items():
        if count := status.counters.get(name, 0):
            yield f"{count} {text} (remedy: journalctl -u meshwatchd)"
