"""A node of the mesh as another one knows it: where it is, what runs there, and when it was last heard."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import LocationName, NodeName


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One node; what is not known of it is empty.

    Attributes:
        role: "leader", "standby" or "member".
        version: of meshwatchd there.
        mode: `settings.Mode` there.
        heard_ago_ns: age of its last hello, 0 for the node that answers; None where none was ever received.
    """

    name: NodeName
    location: LocationName = LocationName("")
    role: str = ""
    version: str = ""
    mode: str = ""
    node_ip: str = ""
    pod_cidr: str = ""
    overlay_ip: str = ""
    wireguard_ip: str = ""
    heard_ago_ns: int | None = None
