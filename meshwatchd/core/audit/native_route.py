"""The device of flannel's wireguard backend, and the one route by which a node reaches the pods of all others.

    10.42.0.0/16 dev flannel-wg scope link          flannel writes it with its device, and when a node's lease changes

Nobody else looks at it. `ip route del`, a blackhole in its place or before it, the same prefix into another device,
and taking the device down cut a node off from all others at once, while every peer shakes hands as before. The very
same route is put back by the repair ladder, but only on the device that it was seen on: one that was made anew is
flannel's, which fails to start where it meets its own route.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, AuditFinding, Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.mesh_profile import FLANNEL_WIREGUARD, FLANNEL_WORDS
from meshwatchd.model.prefixes import covers
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot

MAX_NAMED = 8
"""Nodes in one sentence."""


def is_native(mesh: MeshSettings) -> bool:
    """Whether pods are routed straight into the WireGuard device, as with flannel's wireguard backend."""
    return mesh.overlay_device == mesh.wireguard_device != ""


def audit_native(view: View) -> Iterator[AuditFinding]:
    """What is wrong with flannel's WireGuard device and its route; nothing in other meshes."""
    link = view.snapshot.link(FLANNEL_WIREGUARD)
    if not is_native(view.mesh) or view.mesh.overlay_device != FLANNEL_WIREGUARD or link is None:
        return
    pods = [each.pod_cidr for each in view.mesh.node if each.name != view.node and each.pod_cidr]
    was = _cluster_routes(_good_routes(view), pods)
    if not link.is_up:
        yield _finding(view, link, FaultCode.OVERLAY_DEVICE_DOWN, f"{link.name} is administratively down", routes=was)
        return
    present = _routes_into(view.snapshot.device_routes)
    for route in was:
        dead_ends = _in_the_way(view.snapshot, route)
        if dead_ends:
            because = f"packets to {route.dst} end at a {dead_ends[0].kind} route, which stands before {link.name}"
        elif route.dst not in {each.dst for each in present}:
            because = f"there is no route to {route.dst} into {link.name}, which was there while all was well"
        else:
            continue
        finding = _finding(view, link, FaultCode.CLUSTER_ROUTE_MISSING, because, routes=(route,))
        found = Entries(routes=(*(each for each in present if each == route), *dead_ends))
        yield msgspec.structs.replace(
            finding, found=found, unwanted=Entries(routes=dead_ends) if finding.wanted else Entries()
        )
        return
    if not was and pods and not _cluster_routes(present, pods):
        because = f"there is no route to any other node's pods into {link.name}"
        yield _finding(view, link, FaultCode.CLUSTER_ROUTE_MISSING, because, routes=())


def _good_routes(view: View) -> tuple[DeviceRoute, ...]:
    good = view.good
    return _routes_into(good.entries.routes) if good is not None and good.device == FLANNEL_WIREGUARD else ()


def _routes_into(routes: Iterable[DeviceRoute]) -> tuple[DeviceRoute, ...]:
    """Those of IPv4 in the main table into flannel's device."""
    return tuple(
        each for each in routes if each.dev == FLANNEL_WIREGUARD and each.table == MAIN_TABLE and ":" not in each.dst
    )


def _cluster_routes(routes: Iterable[DeviceRoute], pods: Iterable[str]) -> tuple[DeviceRoute, ...]:
    """Those that hold the pods of other nodes: what else is routed into the device is somebody else's."""
    prefixes = [each for each in pods if ":" not in each]
    return tuple(route for route in routes if any(covers(route.dst, each) for each in prefixes))


def _in_the_way(snapshot: Snapshot, route: DeviceRoute) -> tuple[DeviceRoute, ...]:
    """Dead ends that have the place of a route, or are taken before it."""
    ends = (each for each in snapshot.dead_ends if each.dst == route.dst and each.table == MAIN_TABLE)
    return tuple(each for each in ends if each.metric <= route.metric)


def _finding(view: View, link: Link, code: FaultCode, because: str, *, routes: tuple[DeviceRoute, ...]) -> AuditFinding:
    others = [each.name for each in view.mesh.node if each.name != view.node]
    named = ", ".join(others[:MAX_NAMED]) + (" and others" if len(others) > MAX_NAMED else "")
    is_same = view.good is not None and view.good.index in (0, link.index)
    anew = (
        () if is_same or not routes else (f"{link.name} was made anew since then, and its routes are left to flannel",)
    )
    return AuditFinding(
        code=code,
        device=link.name,
        subject=link.name,
        culprit=view.node,
        because=(
            because,
            f"it is the only way to the pods of {named}",
            *anew,
            FLANNEL_WORDS.format(view.node),
        ),
        wanted=Entries(routes=routes) if is_same else Entries(),
    )
