"""Mesh profiles: pure functions from a kernel snapshot (and what the operator declares) to a topology.

A profile answers two questions: is this my kind of mesh, and if so, what are its locations, relays and gateways? It
reads a frozen snapshot, so that a captured one from any cluster is a test. Discovery and declaration share this one
interface: a declared mesh is only another source of the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from meshwatchd.model.mesh_profile import MESH_KINDS, SUBMARINER, Profile, Unrecognised
from meshwatchd.profiles.overlay_mesh import GATEWAY_MESH, OVERLAY_MESH
from meshwatchd.profiles.third_party import INTERFACE, MeshKind

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {**dict.fromkeys(MESH_KINDS, OVERLAY_MESH), SUBMARINER: GATEWAY_MESH}
)
"""Every built-in kind of mesh by name; the engine goes through all of them in the same way, but for which devices there
have to be."""

__all__ = ["GATEWAY_MESH", "INTERFACE", "OVERLAY_MESH", "PROFILES", "MeshKind", "Profile", "Unrecognised"]
