"""What the daemon knows of the way to a service's addresses, in the words of a judgement about the service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from meshwatchd.adapters.netlink.way import Way
from meshwatchd.cli.command_path import describe
from meshwatchd.cli.legs import active_path
from meshwatchd.model.faults import FaultCode, Verdict
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.service_check import MeshWay
from meshwatchd.model.service_faults import SERVICE_FAULTS
from meshwatchd.model.status import PairStatus, Status

_BROKEN = ("suspect", "down")
_NOT_OF_WAYS = frozenset((FaultCode.NONE, *(fault.code for fault in SERVICE_FAULTS)))
"""What a canary finds wrong with a service at a node is no fault of the way there, which such a canary presupposes."""


def find_ways(addresses: Iterable[str], status: Status, nodes: Sequence[NodeStatus]) -> tuple[MeshWay, ...]:
    """The ways to those addresses that a node of the mesh has; to every other location where no node has any of them.

    A service's virtual address is no node's, so the way to it is that to wherever the service may be.
    """
    known = tuple(way for address in dict.fromkeys(addresses) if (way := _to_address(address, status, nodes)))
    return known or tuple(_to_location(pair) for pair in status.pairs)


def _to_address(address: str, status: Status, nodes: Sequence[NodeStatus]) -> MeshWay | None:
    view = describe(address, Way(address=address), status, tuple(nodes))
    if view.place is None:
        return None
    node = view.place.node
    pair, _ = active_path(status, node.location)
    verdict = pair.verdict if pair is not None else None
    is_faulty = verdict is not None and verdict.fault not in _NOT_OF_WAYS
    way = MeshWay(
        address=address,
        node=node.name,
        kind=view.place.kind,
        location=node.location,
        is_local=node.name == status.node or (bool(node.location) and node.location == status.location),
        path=view.path,
        state="up" if node.name == status.node else view.state,
        # A path in use that is good goes around whatever the verdict is about, but for the node that is named itself.
        is_broken=view.state in _BROKEN or (verdict is not None and is_faulty and verdict.culprit == node.name),
    )
    return _named(way, verdict)


def _to_location(pair: PairStatus) -> MeshWay:
    used = next((path for path in pair.paths if path.is_active), None)
    way = MeshWay(
        location=pair.remote_location,
        path="-".join(used.relays) if used is not None else "",
        state=used.state if used is not None else "",
        is_broken=used is not None and used.state in _BROKEN,
    )
    return _named(way, pair.verdict)


def _named(way: MeshWay, verdict: Verdict | None) -> MeshWay:
    """The way with what the daemon's verdict about it names."""
    if verdict is None or verdict.fault is FaultCode.NONE:
        return way
    return msgspec.structs.replace(
        way,
        fault=verdict.fault.value,
        layer=verdict.layer.name.lower(),
        culprit=verdict.culprit,
        because=verdict.because,
    )
