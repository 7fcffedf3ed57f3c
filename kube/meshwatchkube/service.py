"""What the API of this cluster has about one service that several clusters share, for `meshwatchctl service`.

Four kinds are listed at once, each of them by name or label, so one that is forbidden or not served hides no other. A
list says more than a get: of a kind that is not served it is 404, of an object that is missing it is empty.

    ServiceImport, ServiceExport   multicluster.x-k8s.io, v1beta1 or else v1alpha1
    EndpointSlice                  by multicluster.kubernetes.io/service-name: mirrored from other clusters
                                   by kubernetes.io/service-name: this cluster's own

Source: kubernetes-sigs/mcs-api, pkg/apis/v1beta1; k8s.io/api discovery/v1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from itertools import groupby
from pathlib import Path
from typing import Final, TypeGuard, TypeVar

import msgspec

from meshwatchd.model.decoding import decode_json
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.service_check import ApiCondition, ApiEndpoints, ApiFacts, ApiGap, ApiPort
from meshwatchkube.cluster import Metadata
from meshwatchkube.http import FORBIDDEN, NOT_FOUND, UNREACHED, ApiError, Http
from meshwatchkube.requests import ANSWER, Request

TIMEOUT_S: Final = 1.0
"""Of one answer: whoever asks for the service waits for 3 s in all."""

VERSIONS: Final = ("v1beta1", "v1alpha1")
SLICES: Final = "apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
IMPORTED, OWN = "multicluster.kubernetes.io/service-name", "kubernetes.io/service-name"
SOURCE: Final = "multicluster.kubernetes.io/source-cluster"

MAX_ADDRESSES: Final = 8
"""Of ready endpoints of one cluster: examples to connect to."""
PAGE: Final = 100
"""Slices of one service; each has up to a hundred endpoints."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is missing in an object has the default; null too where the type says so."""


class _Port(_Part, frozen=True, kw_only=True):
    port: int | None = None
    name: str | None = None
    protocol: str | None = None


class _ImportSpec(_Part, frozen=True, kw_only=True):
    type: str = ""
    ips: tuple[str, ...] | None = None
    ports: tuple[_Port, ...] | None = None


class _Source(_Part, frozen=True, kw_only=True):
    cluster: str = ""


class _ImportStatus(_Part, frozen=True, kw_only=True):
    clusters: tuple[_Source, ...] | None = None


class Import(_Part, frozen=True, kw_only=True):
    """ServiceImport."""

    spec: _ImportSpec = _ImportSpec()
    status: _ImportStatus = _ImportStatus()


class _ExportStatus(_Part, frozen=True, kw_only=True):
    conditions: tuple[ApiCondition, ...] | None = None


class Export(_Part, frozen=True, kw_only=True):
    """ServiceExport."""

    status: _ExportStatus = _ExportStatus()


class _Ready(_Part, frozen=True, kw_only=True):
    ready: bool | None = None


class _Endpoint(_Part, frozen=True, kw_only=True):
    addresses: tuple[str, ...] = ()
    conditions: _Ready = _Ready()


class Slice(_Part, frozen=True, kw_only=True):
    """EndpointSlice."""

    metadata: Metadata = Metadata()
    endpoints: tuple[_Endpoint, ...] | None = None
    ports: tuple[_Port, ...] | None = None


Item = TypeVar("Item", Import, Export, Slice)


class _List(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] | None = None


def read_service(http: Http, name: str, namespace: str) -> ApiFacts:
    """All that can be read; a kind that cannot is named in `gaps`. Text is fit for a terminal."""
    gaps: list[ApiGap] = []
    named = {"fieldSelector": f"metadata.name={name}"}
    with ThreadPoolExecutor(4) as pool:
        group = [f"apis/multicluster.x-k8s.io/{version}/namespaces/{namespace}" for version in VERSIONS]
        slices = (SLICES.format(namespace=namespace),)
        imports = pool.submit(_fetch, http, [f"{each}/serviceimports" for each in group], named)
        exports = pool.submit(_fetch, http, [f"{each}/serviceexports" for each in group], named)
        mirrored = pool.submit(_fetch, http, slices, {"labelSelector": f"{IMPORTED}={name}"})
        own = pool.submit(_fetch, http, slices, {"labelSelector": f"{OWN}={name}"})
    found_imports = _take("ServiceImport", imports.result(), Import, gaps)
    found_exports = _take("ServiceExport", exports.result(), Export, gaps)
    found_slices = [_take("EndpointSlice", each.result(), Slice, gaps) for each in (mirrored, own)]
    first = found_imports[0] if found_imports else Import()
    facts = ApiFacts(
        is_imported=None if found_imports is None else bool(found_imports),
        kind=first.spec.type,
        ips=first.spec.ips or (),
        ports=tuple(
            ApiPort(port=each.port, name=each.name or "", protocol=each.protocol or "TCP")
            for each in first.spec.ports or ()
            if _is_port(each.port)
        ),
        clusters=tuple(each.cluster for each in first.status.clusters or ()),
        is_exported=None if found_exports is None else bool(found_exports),
        conditions=(found_exports[0].status.conditions or ()) if found_exports else (),
        endpoints=None
        if None in found_slices
        else group_endpoints(each for some in found_slices for each in some or ()),
        gaps=tuple(dict.fromkeys(gaps)),
    )
    return msgspec.convert(_printable(msgspec.to_builtins(facts)), ApiFacts)


def _printable(value: object) -> object:
    """Whoever may write an object chooses its text, and it goes to terminals."""
    match value:
        case str():
            return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in value)
        case dict():
            return {key: _printable(each) for key, each in value.items()}
        case list() | tuple():
            return [_printable(each) for each in value]
        case _:
            return value


def group_endpoints(slices: Iterable[Slice]) -> tuple[ApiEndpoints, ...]:
    """Endpoints by the cluster they come from, this one first; one that says nothing of readiness is ready."""
    ordered = sorted(slices, key=_source)
    return tuple(_together(cluster, [*members]) for cluster, members in groupby(ordered, key=_source))


def _source(each: Slice) -> str:
    return (each.metadata.labels or {}).get(SOURCE, "")


def _together(cluster: str, slices: list[Slice]) -> ApiEndpoints:
    endpoints = [endpoint for each in slices for endpoint in each.endpoints or ()]
    ready = [each for each in endpoints if each.conditions.ready is not False]
    ports = [port.port for each in slices for port in each.ports or () if port.protocol in (None, "TCP")]
    addresses = [address for each in ready for address in each.addresses[:1] if _is_address(address)]
    return ApiEndpoints(
        cluster=cluster,
        ready=tuple(addresses[:MAX_ADDRESSES]),
        ports=tuple(port for port in dict.fromkeys(ports) if _is_port(port)),
        ready_total=len(ready),
        total=len(endpoints),
    )


def _is_port(number: int | None) -> TypeGuard[int]:
    return number is not None and 0 < number < 65_536


def _is_address(text: str) -> bool:
    """A slice of the type FQDN has names, which nobody should be made to resolve."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def find_kubeconfig(configured: str, environment: Mapping[str, str], home: Path) -> str:
    """The kubeconfig that a person means: $KUBECONFIG, then ~/.kube/config, then the configured one; else empty."""
    given = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    own = home / ".kube" / "config"
    return given or (str(own) if own.is_file() else configured)


def _fetch(http: Http, paths: Iterable[str], parameters: Mapping[str, str]) -> bytes | str:
    """A list at the first path that is served, or why there is none to be had.

    Decoded elsewhere: threads that meet in msgspec while it learns a type have crashed it (0.22).
    """
    for path in paths:
        try:
            return http.send(Request(method="GET", path=path, parameters={**parameters, "limit": str(PAGE)}))
        except ApiError as error:
            if error.status != NOT_FOUND:
                words = {FORBIDDEN: "forbidden", UNREACHED: "the API does not answer"}.get(error.status, "")
                return f"{words} ({error})" if words else str(error)
    return "not served by this API"


def _take(name: str, answer: bytes | str, kind: type[Item], gaps: list[ApiGap]) -> tuple[Item, ...] | None:
    """The objects of a list; None with a gap where there are none to be had."""
    why = answer if isinstance(answer, str) else ""
    try:
        if isinstance(answer, bytes):
            return tuple(decode_json(each, kind, ANSWER) for each in decode_json(answer, _List, ANSWER).items or ())
    except DecodeError as error:
        why = str(error)
    gaps.append(ApiGap(kind=name, why=why))
    return None
