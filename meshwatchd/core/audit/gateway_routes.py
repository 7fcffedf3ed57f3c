"""Where a mesh of gateways (Submariner) routes packets for other clusters: what to ask the kernel, and what is wrong.

    worker    from its pods, to the address of each remote node among that one's pods    out of vx-submariner, for
              what stays on the leg while the node's traffic goes around it
    gateway   the same, and from each worker's pods that come in by vx-submariner         out of the cable

The route agent writes routes, rule 150 and table 150 when a gateway or a cluster changes, and never looks at them
again: what is lost stays lost until then, or until its pod is restarted (submariner#2914). No packet of the mesh shows
it to the agent, whose health check asks one address from gateway to gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import cycle, islice

from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.mesh_profile import SUBMARINER, SUBMARINER_CLEAR_TEXT, SUBMARINER_RESTART
from meshwatchd.model.prefixes import holds
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion
from meshwatchd.model.topology import Node

TABLE = 150

MAX_ASKED = 32
"""Remote nodes of one location; its nodes share few prefixes, and each that was lost is met by some."""


def is_gateway_mesh(view: View) -> bool:
    """Whether routes of this mesh are those of gateways and their workers."""
    return view.mesh.profile == SUBMARINER


def gateway_questions(view: View, *, is_forwarding: bool) -> Iterator[tuple[Node, RouteQuestion, str]]:
    """A remote node, the question about packets to it, and the device that they have to leave by."""
    local = next((each for each in view.mesh.node if each.name == view.node), None)
    device = _way_out(view)
    if local is None or not device:
        return
    workers = [each for each in view.mesh.node if each.location == local.location and each.name != local.name]
    senders: Iterable[Node | None] = (
        cycle(workers) if workers and device != view.mesh.overlay_device else cycle((None,))
    )
    sport, dport = _ports_past_detours(view)
    for peer, sender in zip(_asked(view, local), senders, strict=False):
        sent = RouteQuestion(source=local.node_ip, destination=peer.node_ip, sport=sport, dport=dport)
        yield peer, sent, device
        if sender is not None and is_forwarding:
            source, iif = sender.node_ip, view.mesh.overlay_device
            yield peer, RouteQuestion(source=source, destination=peer.node_ip, iif=iif), device


def _asked(view: View, local: Node) -> Iterator[Node]:
    for location in view.mesh.location:
        members = (each for each in view.mesh.node if each.location == location.name != local.location)
        yield from islice(members, MAX_ASKED)


def _ports_past_detours(view: View) -> tuple[int, int]:
    """Of a probe that stays on the leg while traffic goes around it (`core.routes.detours`), by our own rules: a route
    is lost or is not, whatever has been done about it. (0, 0) where there are no such rules.
    """
    for rule in view.snapshot.rules:
        if rule.goto and rule.sport and rule.dport and rule.dport[0] == rule.dport[1]:
            return rule.sport[0], rule.dport[0]
    return 0, 0


def _way_out(view: View) -> str:
    """The cable on the gateway, vx-submariner on a worker; empty where the cable has no device of its own (IPsec)."""
    if not any(location.leader == view.node for location in view.mesh.location):
        return view.mesh.overlay_device
    tunnels = (view.snapshot.link(name) for name in (view.mesh.wireguard_device, SUBMARINER_CLEAR_TEXT) if name)
    return next((link.name for link in tunnels if link is not None and link.is_up), "")


def gateway_finding(
    view: View, lost: Iterable[tuple[Node, RouteQuestion, RouteAnswer]], device: str, nowhere: str
) -> AuditFinding:
    """One finding for all that leaves by another device: the loss of a rule or a table is one loss."""
    peers = list(lost)
    peer, question, answer = peers[0]
    entry = f" that come in by {question.iif}" if question.iif else ""
    end = f"leave by {answer.device}" if not answer.errno else f"go nowhere: {nowhere}"
    return AuditFinding(
        code=FaultCode.POD_ROUTE_DIVERTED,
        device=device,
        subject=device,
        culprit=view.node,
        because=(
            f"packets from {question.source} to {question.destination} of {peer.name}{entry} {end}, not by {device}",
            *((f"ip rule {answer.rule} decides",) if answer.rule else ()),
            f"nodes that are not reached: {', '.join(dict.fromkeys(each.name for each, _, _ in peers))}",
            "Submariner's route agent writes its routes and rules once and does not look again (submariner#2914)",
            _remedy(view, peer, device),
        ),
    )


def _remedy(view: View, peer: Node, device: str) -> str:
    """The command that puts the very same back, where it is known, and the one that has the agent do it."""
    agent = SUBMARINER_RESTART.format(view.node)
    table = MAIN_TABLE if device == view.mesh.overlay_device else TABLE
    there = [route for route in view.snapshot.device_routes if route.dev == device and route.table == table]
    if any(holds(route.dst, peer.node_ip) for route in there):
        rule = f"ip rule add pref {TABLE} lookup {TABLE}, or " if table == TABLE else ""
        return f"the route of table {table} is there: {rule}{agent}"
    known = view.good.entries.routes if view.good is not None and view.good.device == device else ()
    was = next((route for route in known if holds(route.dst, peer.node_ip)), None)
    if was is not None and was.via:
        return f"ip route add {was.dst} via {was.via} dev {device} proto static, or {agent}"
    return agent
