"""What is said of outer packets that do not reach one node of another cluster, and a neighbour's do.

Nothing where no neighbour reaches it either: then the node, or the way to its cluster, is what is broken, and a verdict
of the probes says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from meshwatchd.core.routes.outer_reroute import OuterReroute, outer_rules, route_of
from meshwatchd.core.routes.outer_way import OuterWay, WayState
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.outer_reroute import REROUTED_SLOT
from meshwatchd.model.plan import TABLES
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import KernelSettings
from meshwatchd.model.status import Status


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a person needs to do the same by hand.

    Attributes:
        window: where rules of ours stand.
        ports: UDP ports that outer packets go to.
        is_allowed: `[cilium] outer_reroute` is on, and the mode is enforce.
    """

    window: RuleWindow
    kernel: KernelSettings
    ports: tuple[int, ...]
    is_allowed: bool


def audit_outer_ways(reroute: OuterReroute, terms: Terms) -> Iterator[AuditFinding]:
    """One finding for each node that a neighbour reaches in this one's place."""
    for way in reroute.ways:
        if way.state is WayState.SUSPECTED or not (way.is_tried or way.advised):
            continue
        yield AuditFinding(
            code=FaultCode.OUTER_WAY_BROKEN,
            device="",
            subject=way.far.name,
            peer=way.far.name,
            because=tuple(_sentences(way, terms)),
        )


def with_known_cause(status: Status) -> frozenset[str]:
    """Nodes that are missed for what somebody has found: a way around would carry it along.

    Such as AllowedIPs: this node has found what is wrong with its peer, or the other one has told of itself.
    """
    found = (each.peer for each in status.findings if each.severity is Severity.CRITICAL)
    told = (pair.verdict.culprit for pair in status.pairs if pair.verdict.told_by)
    return frozenset((*found, *told))


def _sentences(way: OuterWay, terms: Terms) -> Iterator[str]:
    far, relay = way.far, way.relay
    if way.is_verified and relay is not None:
        yield f"outer packets to {far.name} ({far.address}) go through {relay.name} ({relay.address})"
        yield f"table {terms.kernel.table_base + REROUTED_SLOT} has the route; it goes when their own way is well"
        return
    if way.is_direct_answered:
        yield (
            f"{far.name} answers at {far.address}, and not in the overlay: outer packets alone are lost, or what wraps"
            " them is wrong at either end, as a WireGuard peer"
        )
    else:
        yield f"{far.name} answers neither at {far.address} nor in the overlay"
    if way.is_tried and relay is not None:
        yield f"packets through {relay.name} ({relay.address}) are being tried"
    if way.reason:
        yield f"{way.reason}: {_REMEDY.format(far.name)}"
    if way.is_tried:
        return
    voucher = next(iter(way.advised), None)
    if voucher is None:
        return
    yield f"{voucher.name} ({voucher.address}), on this node's own network, reaches it and forwards packets"
    if terms.is_allowed:
        return
    commands = "; ".join(commands_of(way, terms))
    if commands:
        yield f"to send outer packets through it, as root: {commands}"
        yield "you alone take these away again: ip rule del and ip route del with the same words, when the way is well"
    yield (
        "[cilium] outer_reroute = true in mode enforce leads them there once packets there are answered, and undoes"
        f" it by itself; where packets from {far.name} are lost as well it has to be done there too"
    )


_KERNELS_TABLES = (0, 253, 254, 255)
"""Unspecified, default, main and local: linux/rtnetlink.h."""
_REMEDY = (
    "where packets from {0} are lost as well, {0} must have outer_reroute = true too; a relay must forward (net.ipv4."
    "ip_forward, its filter's forward chain) without hiding the source, and a cloud must allow it (source/destination"
    " check)"
)


def commands_of(way: OuterWay, terms: Terms) -> Iterable[str]:
    """The route and the rules as commands of iproute2, for the preferred neighbour.

    Without our mark, in a table and at a priority just before ours: what a person puts is no daemon's to remove. None
    where only priority 0 is left, the kernel's own; where a table of its own is just before ours, the next one behind.
    """
    table, priority = terms.kernel.table_base - 1, terms.window.first - 1
    if priority < 1:
        return
    if table in _KERNELS_TABLES:
        table = terms.kernel.table_base + TABLES
    route = route_of(way, table, next(iter(way.advised), None))
    if route is not None:
        yield f"ip route add {route.render()}"
    for rule in outer_rules(priority, table, terms.ports):
        yield f"ip rule add {rule.render()}"
