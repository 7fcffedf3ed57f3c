"""What client-go and kubectl ask first."""

import json

from netnslab.kube_api.discovery import document
from netnslab.kube_api.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NODES

RESOURCES = (NODES, LEASES, CUSTOM_RESOURCE_DEFINITIONS)


def _document(path):
    """As it arrives at a client."""
    return json.loads(json.dumps(document(path, RESOURCES)))


def test_groups_and_versions_are_listed():
    """The core group by /api, all others by /apis."""
    assert ["v1"] == _document("/api")["versions"]
    assert ["coordination.k8s.io", "apiextensions.k8s.io"] == [group["name"] for group in _document("/apis")["groups"]]
    assert "coordination.k8s.io/v1" == _document("/apis/coordination.k8s.io")["preferredVersion"]["groupVersion"]
    assert "v1.34.0" == _document("/version")["gitVersion"]


def test_a_version_lists_its_resources_and_their_subresources():
    """There kubectl finds `no` and `nodes/status`."""
    nodes, status = _document("/api/v1")["resources"]
    (lease,) = _document("/apis/coordination.k8s.io/v1")["resources"]

    assert ("nodes", ["no"], False) == (nodes["name"], nodes["shortNames"], nodes["namespaced"])
    assert "nodes/status" == status["name"]
    assert ("Lease", True) == (lease["kind"], lease["namespaced"])


def test_anything_else_is_no_discovery():
    """An object's URL, a group or version that there is not."""
    paths = (
        "/api/v1/nodes",
        "/apis/nothing",
        "/apis/v1",
        "/api/coordination.k8s.io/v1",
        "/apis/coordination.k8s.io/v2",
        "/",
    )
    assert [None] * len(paths) == [_document(path) for path in paths]
