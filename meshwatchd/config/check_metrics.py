"""Whether figures can be served and written where the configuration says."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from meshwatchd.config.values import Finding, check_directory
from meshwatchd.model.settings import MetricsSettings


def check_metrics(metrics: MetricsSettings) -> Iterator[Finding]:
    """Everything under [metrics]."""
    if metrics.listen and not _is_address(metrics.listen):
        yield Finding(
            key="metrics.listen",
            problem=f"{metrics.listen!r} is no address and port",
            remedy='write listen = "127.0.0.1:9469", or "[::1]:9469"',
        )
    if not metrics.textfile:
        return
    if not metrics.textfile.endswith(".prom"):
        yield Finding(
            key="metrics.textfile",
            problem=f"{metrics.textfile!r} does not end in .prom",
            remedy="node_exporter reads no other files: write /var/lib/node_exporter/textfile/meshwatchd.prom",
        )
    yield from check_directory("metrics.textfile", metrics.textfile)


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return port.isdigit() and 0 < int(port) < 65536
