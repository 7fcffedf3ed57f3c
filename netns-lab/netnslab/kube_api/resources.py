"""Kinds of objects that tests and players of the lab have in common."""

from __future__ import annotations

from netnslab.kube_api.objects import Resource

NODES = Resource(plural="nodes", kind="Node", short_names=("no",), subresources=("status",))
EVENTS = Resource(plural="events", kind="Event", is_namespaced=True, short_names=("ev",))
PODS = Resource(plural="pods", kind="Pod", is_namespaced=True, short_names=("po",), subresources=("status",))
LEASES = Resource(plural="leases", kind="Lease", group="coordination.k8s.io", is_namespaced=True)
ENDPOINT_SLICES = Resource(plural="endpointslices", kind="EndpointSlice", group="discovery.k8s.io", is_namespaced=True)
SERVICE_IMPORTS, SERVICE_EXPORTS = (
    Resource(plural=f"{kind.lower()}s", kind=kind, group="multicluster.x-k8s.io", version="v1beta1", is_namespaced=True)
    for kind in ("ServiceImport", "ServiceExport")
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    group="apiextensions.k8s.io",
    short_names=("crd",),
    subresources=("status",),
)
