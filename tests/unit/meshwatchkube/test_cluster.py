"""Objects of the API are read as far as they matter, whatever else is in them."""

from __future__ import annotations

import msgspec

from meshwatchkube.cluster import OVERLAY_UNAVAILABLE, TAINT_KEY, Node, render_seconds, render_time

REAL = b"""{"kind": "Node", "apiVersion": "v1",
 "metadata": {"name": "b1", "resourceVersion": "812", "annotations": {"kilo.squat.ai/internal-ip": "10.2.0.11/24",
   "kilo.squat.ai/force-internal-ip": "-", "meshwatchd.io/cordoned": "x"}, "managedFields": [{"manager": "kubelet"}]},
 "spec": {"podCIDR": "10.244.4.0/24", "podCIDRs": ["10.244.4.0/24"], "unschedulable": true,
   "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
              {"key": "meshwatchd.io/overlay-broken", "effect": "NoSchedule", "value": "overlay-black-hole"}]},
 "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
                           {"type": "OverlayUnavailable", "status": "True", "reason": "R", "message": "M"}],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "b1"}],
            "images": [{"names": ["x"], "sizeBytes": 1}]}}"""


def test_a_node_as_an_api_server_sends_it():
    """Its taints keep what they have."""
    node = msgspec.json.decode(REAL, type=Node)
    assert ("b1", "812", "10.244.4.0/24") == (node.name, node.metadata.resource_version, node.spec.pod_cidr)
    assert {"10.2.0.11", "192.0.2.1", "b1"} == node.addresses
    assert node.is_tainted
    assert node.is_cordoned_here
    assert "2026-01-01T00:00:00Z" == node.taints[0].time_added
    assert TAINT_KEY == node.taints[1].key
    assert ("True", "R") == (node.condition(OVERLAY_UNAVAILABLE).status, node.condition(OVERLAY_UNAVAILABLE).reason)
    assert "False" == node.condition("MeshDegraded").status


def test_a_bare_node_has_nothing():
    """Null stands for an empty list in JSON of Go."""
    bare = b'{"metadata": {"name": "x", "annotations": null}, "spec": {"taints": null}, "status": {"conditions": null}}'
    node = msgspec.json.decode(bare, type=Node)
    assert (False, False, frozenset(), {}) == (node.is_tainted, node.is_cordoned_here, node.addresses, node.labels)


def test_instants_on_the_wire():
    """A Lease has microseconds, everything else seconds."""
    assert "2026-11-25T18:00:00.000123Z" == render_time(1795629600_000_123_456)
    assert "2026-11-25T18:00:00Z" == render_seconds(1795629600_999_999_999)
