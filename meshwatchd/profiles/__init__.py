"""Mesh profiles: pure functions from a kernel snapshot (and what the operator declares) to a topology.

A profile answers two questions: is this my kind of mesh, and if so, what are its locations, relays and gateways? It
reads a frozen snapshot, so that a captured one from any cluster is a test. Discovery and declaration share this one
interface: a declared mesh is only another source of the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from meshwatchd.model.mesh_profile import Profile, Unrecognised
from meshwatchd.profiles.kilo import KILO

PROFILES: Mapping[str, Profile] = MappingProxyType({"kilo": KILO})
"""Every built-in profile by name."""

__all__ = ["KILO", "PROFILES", "Profile", "Unrecognised"]
