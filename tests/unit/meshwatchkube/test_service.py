"""What an API has about a service of several clusters, and what it does not tell."""

from __future__ import annotations

import time
from dataclasses import replace

import msgspec
import pytest

from meshwatchd.model.service_check import ApiCondition, ApiEndpoints, ApiFacts, ApiPort
from meshwatchkube.http import connect
from meshwatchkube.service import MAX_ADDRESSES, TIMEOUT_S, Slice, find_kubeconfig, group_endpoints, read_service
from netnslab.kube_api.objects import Object
from netnslab.kube_api.resources import ENDPOINT_SLICES, SERVICE_EXPORTS, SERVICE_IMPORTS
from tests.support.kube import CUT, served

IMPORT: Object = {
    "metadata": {"name": "shop"},
    "spec": {
        "type": "ClusterSetIP",
        "ips": ["10.110.3.4"],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}, {"port": 53, "protocol": "UDP"}],
    },
    "status": {"clusters": [{"cluster": "east"}, {"cluster": "west"}]},
}
CONFLICT: Object = {"type": "Conflict", "status": "True", "reason": "PortConflict", "message": "8080 is UDP in east"}
EXPORT: Object = {"metadata": {"name": "shop"}, "status": {"conditions": [CONFLICT]}}


def _slice(name, labels, *ready):
    return {
        "metadata": {"name": name, "labels": labels},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [f"10.244.3.{number}"], "conditions": {"ready": is_ready}}
            for number, is_ready in enumerate(ready, 7)
        ],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }


EAST = {
    "multicluster.kubernetes.io/service-name": "shop",
    "multicluster.kubernetes.io/source-cluster": "east",
}
OWN = {"kubernetes.io/service-name": "shop"}


def _read(api):
    http = connect(str(api.kubeconfig), TIMEOUT_S)
    try:
        return read_service(http, "shop", "default")
    finally:
        http.close()


@pytest.fixture(params=["v1beta1", "v1alpha1"])
def kinds(request):
    """The kinds in a version that an API may serve."""
    return [replace(each, version=request.param) for each in (SERVICE_IMPORTS, SERVICE_EXPORTS)]


@pytest.fixture
def api(tmp_path, kinds):
    """An API with all of it."""
    imports, exports = kinds
    with served(tmp_path, more=(imports, exports, ENDPOINT_SLICES)) as running:
        running.store.create(imports, IMPORT, "default")
        running.store.create(exports, EXPORT, "default")
        for item in (
            _slice("shop-east-1", EAST, True, False),
            _slice("shop-1", OWN, True),
            _slice("other-1", {"kubernetes.io/service-name": "other"}, True),
        ):
            running.store.create(ENDPOINT_SLICES, item, "default")
        yield running


def test_all_that_there_is_is_read(api):
    """In either version: ports, conditions, endpoints by the cluster they come from."""
    expected = ApiFacts(
        is_imported=True,
        kind="ClusterSetIP",
        ips=("10.110.3.4",),
        ports=(ApiPort(port=8080, name="http"), ApiPort(port=53, protocol="UDP")),
        clusters=("east", "west"),
        is_exported=True,
        conditions=(
            ApiCondition(type="Conflict", status="True", reason="PortConflict", message="8080 is UDP in east"),
        ),
        endpoints=(
            ApiEndpoints(ready=("10.244.3.7",), ports=(8080,), ready_total=1, total=1),
            ApiEndpoints(cluster="east", ready=("10.244.3.7",), ports=(8080,), ready_total=1, total=2),
        ),
    )
    assert expected == _read(api)
    assert {"list"} == {verb for verb, _ in api.asked}


def test_what_is_missing_is_not_what_cannot_be_read(api, kinds):
    """An object that is not there is a fact."""
    for kind in kinds:
        api.store.delete(kind, "shop", "default")
    facts = _read(api)
    assert (False, False, ()) == (facts.is_imported, facts.is_exported, facts.gaps)


@pytest.mark.parametrize(
    ("code", "expected"),
    [(403, "forbidden (403 list serviceexports"), (500, "500 "), (CUT, "the API does not answer (")],
)
def test_a_kind_that_cannot_be_read_hides_no_other(api, code, expected):
    """It is named with the reason."""
    api.failing["*", "serviceexports"] = code
    facts = _read(api)
    (gap,) = facts.gaps
    assert ("ServiceExport", True) == (gap.kind, gap.why.startswith(expected))
    assert (None, True) == (facts.is_exported, facts.is_imported)
    assert facts.endpoints


def test_slices_that_are_forbidden_are_one_gap(api):
    """Two questions, one reason."""
    api.failing["*", "endpointslices"] = 403
    facts = _read(api)
    assert (None, ["EndpointSlice"]) == (facts.endpoints, [gap.kind for gap in facts.gaps])


def test_kinds_that_are_not_served_are_named(tmp_path):
    """A cluster without the Multi-Cluster Services API."""
    with served(tmp_path, more=(ENDPOINT_SLICES,)) as bare:
        facts = _read(bare)
    assert [("ServiceImport", "not served by this API"), ("ServiceExport", "not served by this API")] == [
        (gap.kind, gap.why) for gap in facts.gaps
    ]
    assert () == facts.endpoints


def test_an_api_that_is_silent_is_given_up_in_time(api):
    """All kinds at once."""
    api.delay_s = 2 * TIMEOUT_S
    began = time.monotonic()
    facts = _read(api)
    assert time.monotonic() - began < 2 * TIMEOUT_S
    assert {"the API does not answer"} == {gap.why.partition(" (")[0] for gap in facts.gaps}


def test_an_answer_that_makes_no_sense_is_a_gap(api, kinds):
    """As of a proxy in between."""
    api.store.edit(kinds[0], "shop", "default", lambda before: {**before, "spec": {"ports": "many"}})
    (gap,) = _read(api).gaps
    assert ("ServiceImport", True) == (gap.kind, "api answer: not understood" in gap.why)


def test_endpoints_are_ready_unless_they_say_otherwise():
    """And a few of them are enough (discovery/v1: a condition that is nil counts as true)."""
    many = msgspec.convert(
        {"metadata": {"labels": None}, "endpoints": [{"addresses": [f"10.0.0.{n}"]} for n in range(20)]}, Slice
    )
    empty = msgspec.convert({"endpoints": None, "ports": None}, Slice)
    (group,) = group_endpoints([many, empty])
    assert (20, 20, MAX_ADDRESSES, ()) == (group.ready_total, group.total, len(group.ready), group.ports)
    assert () == group_endpoints([])


def test_a_persons_kubeconfig_goes_before(tmp_path):
    """$KUBECONFIG, then ~/.kube/config, then the file's; else the pod's account."""
    named = {"KUBECONFIG": "/a/config:/b/config"}
    assert "/a/config" == find_kubeconfig("/etc/kube", named, tmp_path)
    assert "/etc/kube" == find_kubeconfig("/etc/kube", {}, tmp_path)
    assert "" == find_kubeconfig("", {}, tmp_path)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").touch()
    assert str(tmp_path / ".kube/config") == find_kubeconfig("/etc/kube", {}, tmp_path)
    assert "/a/config" == find_kubeconfig("/etc/kube", named, tmp_path)


def test_what_is_no_address_or_port_is_not_connected_to():
    """A slice of the type FQDN has names; a port out of range is none."""
    odd = {"endpoints": [{"addresses": [each]} for each in ("shop.example", "fe80::1%eth0", "10.0.0.1")]}
    ports = [{"port": number} for number in (70_000, -1, 0, 8080)]
    (group,) = group_endpoints([msgspec.convert({**odd, "ports": ports}, Slice)])
    assert (("10.0.0.1",), (8080,), 3) == (group.ready, group.ports, group.ready_total)


def test_text_of_the_api_is_fit_for_a_terminal(api, kinds):
    """Whoever may write an object chooses it; an import's odd port is left out."""
    odd: Object = {"type": "Head\x1b[2J", "ips": ["10.1.1.1\x07"], "ports": [{"port": 70_000}, {"port": 80}]}
    api.store.edit(kinds[0], "shop", "default", lambda before: {**before, "spec": odd})
    told: Object = {"conditions": [{**CONFLICT, "reason": "a\nb", "message": "\x1b]0;x"}]}
    api.store.edit(kinds[1], "shop", "default", lambda before: {**before, "status": told})
    facts = _read(api)
    assert ("Head\ufffd[2J", ("10.1.1.1\ufffd",), (ApiPort(port=80),)) == (facts.kind, facts.ips, facts.ports)
    assert ("a\ufffdb", "\ufffd]0;x") == (facts.conditions[0].reason, facts.conditions[0].message)
