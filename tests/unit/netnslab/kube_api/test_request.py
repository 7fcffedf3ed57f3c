"""URLs to requests."""

import json

import pytest

from netnslab.kube_api.objects import ApiError
from netnslab.kube_api.request import decode
from netnslab.kube_api.resources import LEASES, NODES, PODS

RESOURCES = (NODES, LEASES)
GROUP = "/apis/coordination.k8s.io/v1"


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("GET", "/api/v1/nodes", ("list", NODES, "", "", "")),
        ("GET", "/api/v1/nodes?watch=true", ("watch", NODES, "", "", "")),
        ("GET", "/api/v1/nodes/b1", ("get", NODES, "", "b1", "")),
        ("PATCH", "/api/v1/nodes/b1/status", ("patch", NODES, "", "b1", "status")),
        ("POST", f"{GROUP}/namespaces/kube-system/leases", ("create", LEASES, "kube-system", "", "")),
        ("PUT", f"{GROUP}/namespaces/kube-system/leases/x", ("update", LEASES, "kube-system", "x", "")),
        ("DELETE", f"{GROUP}/namespaces/a/leases/x%2Fy", ("delete", LEASES, "a", "x/y", "")),
        ("GET", f"{GROUP}/leases", ("list", LEASES, "", "", "")),
    ],
)
def test_a_url_is_a_verb_and_a_place(method, target, expected):
    """In the words of RBAC, which a gate judges by."""
    found = decode(method, target, RESOURCES)

    assert expected == (found.verb, found.resource, found.namespace, found.name, found.subresource)


@pytest.mark.parametrize(
    ("code", "method", "target"),
    [
        (404, "GET", "/"),
        (404, "GET", "/api/v2/nodes"),
        (404, "GET", "/api/v1/pods"),
        (404, "GET", "/api/v1/nodes/b1/proxy"),
        (404, "GET", "/api/v1/nodes/b1/status/more"),
        (404, "GET", "/openapi/v3"),
        (405, "POST", "/api/v1/nodes/b1"),
        (405, "DELETE", "/api/v1/nodes"),
        (405, "GET", "/api/v1/namespaces/a/nodes"),
    ],
)
def test_what_is_not_there_is_said_by_its_code(code, method, target):
    """404 for a place, 405 for a verb."""
    with pytest.raises(ApiError) as refused:
        decode(method, target, RESOURCES)

    assert code == refused.value.code


def test_a_dry_run_is_of_a_change():
    """What would be done to an object that is there; nobody here asks it of anything else."""
    assert decode("PATCH", "/api/v1/nodes/b1?dryRun=All", RESOURCES).is_dry
    assert not decode("PATCH", "/api/v1/nodes/b1", RESOURCES).is_dry
    with pytest.raises(ApiError, match="dryRun of create is not played"):
        _ = decode("POST", f"{GROUP}/namespaces/a/leases?dryRun=All", RESOURCES).is_dry


@pytest.mark.parametrize(
    ("is_match", "query"),
    [
        (True, ""),
        (True, "?labelSelector=region=cloud,zone!=b"),
        (True, "?labelSelector=region,!gpu"),
        (False, "?labelSelector=gpu"),
        (False, "?labelSelector=region==onprem"),
        (True, "?fieldSelector=metadata.name=b1"),
        (False, "?fieldSelector=metadata.name%3Db2"),
        (False, "?fieldSelector=spec.nodeName=b1"),
    ],
)
def test_selectors_limit_a_collection(is_match, query):
    """By labels, and by name: so client-go watches one object."""
    node = json.loads('{"metadata": {"name": "b1", "labels": {"region": "cloud"}}}')

    assert is_match == decode("GET", f"/api/v1/nodes{query}", RESOURCES).matches()(node)


def test_pods_are_limited_to_those_of_a_node():
    """So `kubectl drain` asks for what it has to move."""
    pod = json.loads('{"metadata": {"name": "shop", "namespace": "a"}, "spec": {"nodeName": "b1"}}')

    for is_match, node in ((True, "b1"), (False, "b2")):
        asked = decode("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={node}", (PODS,))
        assert is_match == asked.matches()(pod)


def test_a_namespace_limits_a_collection():
    """None is all of them."""
    lease = json.loads('{"metadata": {"name": "x", "namespace": "a"}}')

    assert [True, True, False] == [
        decode("GET", f"{GROUP}/{place}leases", RESOURCES).matches()(lease)
        for place in ("", "namespaces/a/", "namespaces/b/")
    ]


def test_what_is_not_known_in_a_query_is_refused():
    """Sooner than answered wrongly."""
    for query in ("labelSelector=a in (b)", "fieldSelector=spec.x=1"):
        with pytest.raises(ApiError):
            decode("GET", f"/api/v1/nodes?{query}", RESOURCES).matches()
    with pytest.raises(ApiError):
        decode("GET", "/api/v1/nodes?resourceVersion=x", RESOURCES).number("resourceVersion", 0)
