"""Which prefixes of other locations the kernel of this node knows to be here: on its LAN, or a bridge of its own.

    a network of this node within the prefix     believed before any node: a table of ours would hide it
    the prefix within a network of this node     the same, unless the mesh's agent routes it away, as it does where the
                                                 LAN's own mask is too wide
    the prefix routed nowhere                    while the mesh's agent routes others of that location: a table of ours
                                                 would take addresses that are not the mesh's, as of the Internet

What other nodes know nothing of cannot change the mesh that all agree on. So the node that claims such a prefix stays
in the mesh, and only this node makes no route of it.
"""

from __future__ import annotations

from typing import NamedTuple

from meshwatchd.model.audit import MAIN_TABLE
from meshwatchd.model.ids import NodeName
from meshwatchd.model.prefixes import Claim, covers, judge, overlap
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot

TUNNEL_KINDS = frozenset(("wireguard", "vxlan", "geneve", "ipip", "tun"))
HOST_LENGTH = 31
"""A network from this length on has no neighbours."""


class Refusal(NamedTuple):
    """Pods that this node makes no route to.

    Attributes:
        who: the node that claims the prefix.
        reason: what the kernel of this node says against it.
        remedy: what to do.
    """

    who: str
    prefix: str
    reason: str
    remedy: str

    def render(self) -> str:
        """Who claims what, what is against it, and the remedy."""
        return f"{self.who} claims {self.prefix}, {self.reason}; no route of ours leads there: {self.remedy}"


class OwnNetworks:
    """Compares a mesh with the kernel of one node, and remembers what the mesh's agent has routed away."""

    def __init__(self) -> None:
        self._routed: frozenset[str] = frozenset()
        self._seen: tuple[object, ...] = ()
        self._found: tuple[Refusal, ...] = ()

    def compare(self, snapshot: Snapshot, mesh: MeshSettings, node: NodeName) -> tuple[Refusal, ...]:
        """The contradicted prefixes of pods, by the name of the node that claims each."""
        seen = snapshot.links, snapshot.device_routes, mesh.node
        if seen != self._seen:
            self._seen, self._found = seen, self._compare(snapshot, mesh, node)
        return self._found

    def _compare(self, snapshot: Snapshot, mesh: MeshSettings, node: NodeName) -> tuple[Refusal, ...]:
        home = next((each.location for each in mesh.node if each.name == node), None)
        remote = [each for each in mesh.node if each.location != home and each.pod_cidr]
        # Not those of our own tables, which would prove any claim right.
        told = {route.dst for route in snapshot.device_routes if route.table == MAIN_TABLE}
        self._routed = (self._routed | told).intersection(each.pod_cidr for each in remote)
        networks = [Claim(f"{link.name} here", text) for link in snapshot.links for text in _networks(link, mesh)]
        # Kilo without encapsulation routes into the LAN itself, and of that only the gateways are told.
        is_blind = snapshot.is_bounded or any(
            f"{each.dev} here" in {net.who for net in networks} for each in snapshot.gateways
        )
        suspected = (each.claim for each in judge(networks, [Claim(n.name, n.pod_cidr) for n in remote]).contradictions)
        contradicted = [
            Refusal(
                who=claim.who,
                prefix=claim.prefix,
                reason=f"which overlaps {network.prefix} of {network.who}",
                remedy=f"correct {claim.who}'s pod CIDR",
            )
            for claim in sorted(suspected)
            for network in networks
            if covers(claim.prefix, network.prefix)
            or (overlap(claim.prefix, network.prefix) and not is_blind and claim.prefix not in self._routed)
        ]
        served = {each.location for each in remote if each.pod_cidr in self._routed} if not is_blind else set()
        known = {each.prefix for each in contradicted}
        strange = [
            Refusal(
                who=each.name,
                prefix=each.pod_cidr,
                reason=f"which the mesh's agent routes nowhere here, though it routes other pods of {each.location}",
                remedy=f"correct {each.name}'s pod CIDR, or ask why the agent here leaves it out",
            )
            for each in sorted(remote, key=lambda each: each.name)
            if each.location in served and each.pod_cidr not in self._routed and each.pod_cidr not in known
        ]
        return (*contradicted, *strange)


def _networks(link: Link, mesh: MeshSettings) -> tuple[str, ...]:
    """The IPv4 networks of a device that is not the mesh's."""
    if link.kind in TUNNEL_KINDS or link.name in {mesh.wireguard_device, mesh.overlay_device, mesh.ipip_device}:
        return ()
    held = zip(link.addresses, link.prefix_lengths, strict=False)
    return tuple(f"{address}/{length}" for address, length in held if length < HOST_LENGTH)
