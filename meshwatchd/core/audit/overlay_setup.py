"""Compares how an overlay device is set up with the devices that peers advertise in their hellos.

VXLAN negotiates nothing: a device sends to the UDP port it listens at and takes frames of its own VNI only. A node that
differs reaches nobody, while each of its entries is right. The majority of the mesh decides which node that is:

    1 against 5    the one has a finding; the five say nothing, and take its word in place of their probes' verdict
    1 against 1    both have a finding without a culprit, which states both values

Peers of other versions do not advertise the numbers, and count for nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from meshwatchd.core.audit.expected_entries import home_of, is_reached_by_overlay
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import Hello, LocalView
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link

MAX_LISTED = 8
"""Peers named one by one in a sentence; more would be a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What the nodes of a mesh have for one setting.

    Attributes:
        own: this node's value; 0 where it is not known.
        peers: the others' values by name, those left out that advertise none.
    """

    own: int
    peers: Mapping[str, int]

    @property
    def majority(self) -> int | None:
        """The value that most nodes have; None where no value has more than every other."""
        (value, count), *rest = Counter((self.own, *self.peers.values())).most_common(2)
        return None if rest and rest[0][1] == count else value

    def is_lost(self, reached: Container[str]) -> bool:
        """Whether this node differs from one that it sends to, and the majority is not with it."""
        is_different = any(value != self.own and name in reached for name, value in self.peers.items())
        return bool(self.own) and is_different and self.majority != self.own


def audit_setup(link: Link, mesh: MeshSettings, node: str, hellos: Mapping[str, Hello]) -> Iterator[AuditFinding]:
    """The finding that this node's overlay device has another UDP port or VNI than those it exchanges packets with."""
    if link.vxlan is None:
        return
    own, views = link.vxlan, _views(link.name, mesh, node, hellos)
    ports = {name: view.vtep_port for name, view in views.items() if view.vtep_port}
    vnis = {name: view.vtep_vni for name, view in views.items() if view.vtep_vni}
    settings = [("sends to UDP port {}", "use", Vote(own=own.port, peers=ports))]
    if not own.is_external:
        settings.append(("has the VNI {}", "have", Vote(own=own.vni, peers=vnis)))
    reached = _reached(mesh, node)
    differing = [each for each in settings if each[2].is_lost(reached)]
    if not differing:
        return
    yield AuditFinding(
        code=FaultCode.OVERLAY_MISMATCH,
        device=link.name,
        subject=link.name,
        culprit=node if any(vote.majority is not None for _, _, vote in differing) else "",
        because=tuple(f"{link.name} {claim.format(vote.own)}{_others(verb, vote)}" for claim, verb, vote in differing),
    )


def usual_mtu(link: Link, mesh: MeshSettings, node: str, hellos: Mapping[str, Hello]) -> tuple[int, int]:
    """How many of the peers that a device sends to have one MTU, and that MTU; zeros where none is usual."""
    views = _views(link.name, mesh, node, hellos)
    near = [views[name] for name in _reached(mesh, node) if name in views]
    told = [layer.mtu_bytes for view in near for layer in view.layers if layer.device == view.overlay_device]
    ((value, count),) = Counter(told).most_common(1) or [(0, 0)]
    return (count, value) if 2 * count > len(told) + 1 else (0, 0)


def _reached(mesh: MeshSettings, node: str) -> dict[str, None]:
    home = home_of(node, mesh)
    return {each.name: None for each in mesh.node if is_reached_by_overlay(each, mesh, home)}


def _views(device: str, mesh: MeshSettings, node: str, hellos: Mapping[str, Hello]) -> dict[str, LocalView]:
    """The peers with a device of the same maker: a mesh that moves from flannel to Cilium has both, apart."""
    members = {each.name for each in mesh.node}
    return {
        name: hello.view
        for name, hello in sorted(hellos.items())
        if name != node and name in members and _maker(hello.view.overlay_device) == _maker(device)
    }


def _maker(device: str) -> str:
    """Devices of flannel have their VNI in their name."""
    return device.partition(".")[0]


def _others(verb: str, vote: Vote) -> str:
    if vote.majority is None:
        listed = [f"{name}: {value}" for name, value in vote.peers.items() if value != vote.own]
        return f", which differs from its peers ({', '.join(listed[:MAX_LISTED])})"
    agreeing = sum(1 for value in vote.peers.values() if value == vote.majority)
    share = f"its {agreeing}" if agreeing == len(vote.peers) else f"{agreeing} of its {len(vote.peers)}"
    return f", {share} peers {verb} {vote.majority}"
