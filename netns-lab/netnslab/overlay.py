"""The seam between Kilo and the pod network under it: what one overlay programs on one node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from netnslab.backends.model import Needs
from netnslab.topology import Node, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlayPlan:
    """Kernel state of the pod network on one node.

    Attributes:
        ip: lines for `ip -batch`, in the node's network namespace.
        bridge: lines for `bridge -batch`, run after them.
        nft: lines for `nft -f`, run after both.
        sysctls: values by path below /proc/sys, written in the node after both.
        pod: lines for `ip -batch` in the pod, whose link the lines of `ip` have made.
        files: what it leaves on the node, by path.
    """

    ip: tuple[str, ...]
    pod: tuple[str, ...]
    bridge: tuple[str, ...] = ()
    nft: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)


class Overlay(Protocol):
    """A pod network that Kilo cooperates with (its `--compatibility`)."""

    @property
    def needs(self) -> Needs:
        """What it asks of the kernel."""
        ...

    @property
    def relay_device(self) -> str:
        """The device by which a node hands packets to its leader, and a leader to its nodes."""
        ...

    @property
    def ipip_device(self) -> str:
        """The IPIP device among them, on a node that is no leader towards its leader; empty where there is none."""
        ...

    def plan(self, topology: Topology, node: Node, *, pod_network: Path, has_ipip_device: bool = False) -> OverlayPlan:
        """Everything it programs on a node and in its pod.

        Args:
            topology: the whole lab.
            node: where.
            pod_network: the file that pins the pod's network namespace.
            has_ipip_device: the node has its IPIP device already.
        """
        ...
