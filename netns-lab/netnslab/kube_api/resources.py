"""Kinds of objects that tests and players of the lab have in common."""

from __future__ import annotations

from netnslab.kube_api.objects import Resource

NODES = Resource(plural="nodes", kind="Node", short_names=("no",), subresources=("status",))
EVENTS = Resource(plural="events", kind="Event", is_namespaced=True, short_names=("ev",))
LEASES = Resource(plural="leases", kind="Lease", group="coordination.k8s.io", is_namespaced=True)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    group="apiextensions.k8s.io",
    short_names=("crd",),
    subresources=("status",),
)
