"""Kilo's metrics: GET http://127.0.0.1:1107/metrics, in Prometheus's text format."""

from __future__ import annotations

from typing import Final

from meshwatchd.adapters.sources import check
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import KiloMetrics

SOURCE: Final = "kilo metrics"
TARGET: Final = "/metrics"

_WANTED: Final = ("kilo_leader", "kilo_nodes", "kilo_reconciles_total")
_MOST: Final = 1 << 53
"""Counters are floats there; beyond, they are no whole numbers."""


@Door(SOURCE)
def parse(data: bytes) -> KiloMetrics:
    """Turn the answer into the few numbers that are used.

    Raises:
        DecodeError: it is not in the format, or one of them is missing or no whole number.
    """
    # Takes a tenth of the agent's start and two MiB, and nodes without Kilo never need it.
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    text = check.text_of(data, SOURCE)
    # The rest is Go's own housekeeping, which need not be understood to be left out.
    lines = [line for line in text.splitlines() if line.startswith(_WANTED)]
    families = list(text_string_to_metric_families("\n".join(lines) + "\n"))
    found = {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}
    leader, nodes, reconciles = (_whole(found, name) for name in _WANTED)
    if leader not in {0, 1}:
        raise DecodeError(SOURCE, f"kilo_leader is {leader}, neither 0 nor 1")
    return KiloMetrics(is_leader=bool(leader), nodes=nodes, reconciles=reconciles)


def _whole(found: dict[str, float], name: str) -> int:
    value = found.get(name)
    if value is None:
        raise DecodeError(SOURCE, f"there is no {name}")
    if not 0 <= value <= _MOST or value != int(value):
        raise DecodeError(SOURCE, f"{name} is {value:g}, no whole number")
    return int(value)
