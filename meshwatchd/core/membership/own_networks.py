"""Which prefixes of other locations the kernel of this node knows to be here: on its LAN, or a bridge of its own.

    a network of this node within the prefix     believed before any node: a table of ours would hide it
    the prefix within a network of this node     the same, unless the mesh's agent routes it away, as it does where the
                                                 LAN's own mask is too wide

What other nodes know nothing of cannot change the mesh that all agree on. So the node that claims such a prefix stays
in the mesh, and only this node makes no route of it.
"""

from __future__ import annotations

from meshwatchd.model.ids import NodeName
from meshwatchd.model.prefixes import Claim, Contradiction, covers, judge, overlap
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot

TUNNEL_KINDS = frozenset(("wireguard", "vxlan", "geneve", "ipip", "tun"))
HOST_LENGTH = 31
"""A network from this length on has no neighbours."""


class OwnNetworks:
    """Compares a mesh with the kernel of one node, and remembers what the mesh's agent has routed away."""

    def __init__(self) -> None:
        self._routed: frozenset[str] = frozenset()
        self._seen: tuple[object, ...] = ()
        self._found: tuple[Contradiction, ...] = ()

    def compare(self, snapshot: Snapshot, mesh: MeshSettings, node: NodeName) -> tuple[Contradiction, ...]:
        """The contradicted prefixes of pods, by the name of the node that claims each.

        Args:
            snapshot: of this node's kernel.
            mesh: in force, or about to be.
            node: this node.
        """
        seen = snapshot.links, snapshot.device_routes, mesh.node
        if seen != self._seen:
            self._seen, self._found = seen, self._compare(snapshot, mesh, node)
        return self._found

    def _compare(self, snapshot: Snapshot, mesh: MeshSettings, node: NodeName) -> tuple[Contradiction, ...]:
        home = next((each.location for each in mesh.node if each.name == node), None)
        remote = [each for each in mesh.node if each.location != home]
        routed = self._routed.union(route.dst for route in snapshot.device_routes)
        self._routed = routed.intersection(each.pod_cidr for each in remote)
        networks = [Claim(f"{link.name} here", text) for link in snapshot.links for text in _networks(link, mesh)]
        # Kilo without encapsulation routes into the LAN itself, and of that only the gateways are told.
        is_blind = snapshot.is_bounded or any(
            f"{each.dev} here" in {net.who for net in networks} for each in snapshot.gateways
        )
        claims = [Claim(each.name, each.pod_cidr) for each in remote if each.pod_cidr]
        suspected = (each.claim for each in judge(networks, claims).contradictions)
        return tuple(
            Contradiction(claim, network)
            for claim in sorted(suspected)
            for network in networks
            if covers(claim.prefix, network.prefix)
            or (overlap(claim.prefix, network.prefix) and not is_blind and claim.prefix not in self._routed)
        )


def _networks(link: Link, mesh: MeshSettings) -> tuple[str, ...]:
    """The IPv4 networks of a device that is not the mesh's."""
    if link.kind in TUNNEL_KINDS or link.name in {mesh.wireguard_device, mesh.overlay_device, mesh.ipip_device}:
        return ()
    held = zip(link.addresses, link.prefix_lengths, strict=False)
    return tuple(f"{address}/{length}" for address, length in held if length < HOST_LENGTH)
