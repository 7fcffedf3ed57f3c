"""Shorthand for canaries of known gateways and DNS servers: `preset`, written out before the file is converted.

    [[probe.canary]]                      becomes two of them
    name = "shop"                         shop          tls    15443, with SNI and ALPN of the service
    preset = "istio-eastwest"             shop-ready    http   15021, GET /healthz/ready
    service = "shop.default"
    address = "192.0.2.7"
    node = "a1"

What is written beside `preset` counts more than what it stands for. The second of a preset comes behind all others, so
that places in complaints are those of the file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from meshwatchd.config.shape import ShapeError, element_key
from meshwatchd.config.values import Finding
from meshwatchd.model import gateways

Table = dict[str, object]

_SERVICE: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_OF_PRESETS: Final = ("preset", "service", "service_port")
_MAX_PORT: Final = 65_535


def _istio(service: str, port: int) -> tuple[Table, ...]:
    ready, path = gateways.ISTIO_READY
    return (
        {
            "kind": "tls",
            "port": gateways.ISTIO_PORT,
            "sni": gateways.istio_sni(service, port),
            "alpn": gateways.ISTIO_ALPN,
        },
        {"kind": "http", "port": ready, "path": path},
    )


def _linkerd(_service: str, _port: int) -> tuple[Table, ...]:
    ready, path = gateways.LINKERD_READY
    return (
        {
            "kind": "tls",
            "port": gateways.LINKERD_PORT,
            "sni": gateways.LINKERD_IDENTITY,
            "alpn": gateways.LINKERD_ALPN,
        },
        {"kind": "http", "port": ready, "path": path},
    )


def _dns(service: str, port: int) -> tuple[Table, ...]:
    lookup = f"{service}.svc.{gateways.SET_DOMAIN}"
    return ({"kind": "dns", "port": gateways.DNS_PORT, "lookup": lookup, "connect": port},)


PRESETS: Final[Mapping[str, Callable[[str, int], tuple[Table, ...]]]] = MappingProxyType(
    {
        "istio-eastwest": _istio,
        "linkerd-gateway": _linkerd,
        "submariner-lighthouse": _dns,
        "coredns-multicluster": _dns,
    }
)
_NEED_NO_SERVICE: Final = ("linkerd-gateway",)


def write_out(document: Mapping[str, object]) -> Mapping[str, object]:
    """The document with each canary that has a preset in full.

    Raises:
        ShapeError: a preset that does not exist, or without the service that it is about.
    """
    probe = document.get("probe")
    canaries = probe.get("canary") if isinstance(probe, dict) else None
    if not isinstance(probe, dict) or not isinstance(canaries, list):
        return document
    first: list[object] = []
    more: list[object] = []
    for index, canary in enumerate(canaries):
        key = element_key("probe.canary", index, canary.get("name") if isinstance(canary, dict) else None)
        own, *rest = _written_out(key, canary) if isinstance(canary, dict) else (canary,)
        first.append(own)
        more += rest
    return {**document, "probe": {**probe, "canary": [*first, *more]}}


def _written_out(key: str, canary: Table) -> tuple[Table, ...]:
    if "preset" not in canary:
        for name in _OF_PRESETS:
            if name in canary:
                raise _error(f"{key}.{name}", "belongs to a preset", "take it out, or name the preset")
        return (canary,)
    preset, service, port = canary["preset"], canary.get("service", ""), canary.get("service_port", 0)
    if not isinstance(preset, str) or preset not in PRESETS:
        near = difflib.get_close_matches(str(preset), PRESETS, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"write one of {', '.join(PRESETS)}"
        raise _error(f"{key}.preset", f"{preset!r} is none of the choices", remedy)
    is_named = isinstance(service, str) and _SERVICE.fullmatch(service)
    if not is_named and (service or preset not in _NEED_NO_SERVICE):
        raise _error(f"{key}.service", f"{service!r} is no service", 'write NAME.NAMESPACE, as in "shop.default"')
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= _MAX_PORT:
        raise _error(f"{key}.service_port", f"{port!r} is no port", f"write 1 to {_MAX_PORT}, or take it out")
    written = {name: value for name, value in canary.items() if name not in _OF_PRESETS}
    own, *rest = PRESETS[preset](str(service), port)
    shared = {name: written[name] for name in ("address", "node", "interval") if name in written}
    return ({**own, **written}, *({**each, **shared, "name": f"{canary.get('name')}-ready"} for each in rest))


def _error(key: str, problem: str, remedy: str) -> ShapeError:
    return ShapeError(Finding(key=key, problem=problem, remedy=remedy))
