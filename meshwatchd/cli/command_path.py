"""`meshwatchctl path`: which way packets to an address go from here."""

from __future__ import annotations

from ipaddress import ip_address

import click
import msgspec

from meshwatchd.adapters.control.explain import explain
from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.adapters.control.operator_requests import FailoverParameters, OperateReply
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.netlink.way import Way, find_way
from meshwatchd.cli.client import ANSWER_TIMEOUT_S, Client
from meshwatchd.cli.legs import Leg, Place, active_path, legs_to, locate
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.render_path import PathView, render_path
from meshwatchd.model.errors import ControlError, MeshwatchError
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.settings import KernelSettings
from meshwatchd.model.status import PairStatus, PathStatus, Status

EXIT_DOUBTFUL, EXIT_BROKEN = 1, 2
_STATES = {"good": 0, "up": 0, "suspect": EXIT_DOUBTFUL, "down": EXIT_BROKEN}


@click.command("path")
@click.argument("address", metavar="ADDRESS|NODE")
@click.pass_obj
def path(terminal: Terminal, *, address: str) -> int:
    """Show which way packets to a pod's or node's ADDRESS go from this node.

    The kernel's policy rule, table, device and gateway; then the nodes that packets cross and the state of each layer
    as this node probes it; then what a failover would change. Without a daemon: the kernel's part.

    Exit status: 0 the way is good, 1 doubtful or unknown, 2 there is none or it is down, 3 the daemon cannot be asked.
    """
    status, nodes, refusal = ask_daemon(terminal)
    place = locate(address, nodes)
    wanted = place.address if place is not None and place.kind == "node" else address
    try:
        wanted = str(ip_address(wanted))
    except ValueError as error:
        if refusal is not None and not place:
            raise refusal from error
        names = ", ".join(node.name for node in nodes)
        raise click.UsageError(f"{address} is no address and no known node; nodes are: {names or 'none'}") from error
    try:
        way = find_way(wanted)
    except (MeshwatchError, OSError) as error:
        way = Way(address=wanted, problem=str(error))
    view = PathView(target=address, way=way, is_ours=_is_ours(way))
    if status is not None:
        view = describe(address, way, status, nodes)
    if view.path and status is not None:
        view = msgspec.structs.replace(view, operations=_rehearse(terminal, view))
    at_ns = status.at_ns if status else 0
    terminal.answer(view, lambda: render_path(view, at_ns=at_ns, paint=terminal.paint))
    if refusal is not None:
        click.echo(f"meshwatchctl: {refusal}", err=True)
        return EXIT_BROKEN if way.problem else EXIT_UNREACHABLE
    return EXIT_BROKEN if way.problem else _STATES.get(view.state, EXIT_DOUBTFUL)


def ask_daemon(
    terminal: Terminal, *, timeout_s: float = ANSWER_TIMEOUT_S
) -> tuple[Status | None, tuple[NodeStatus, ...], ControlError | None]:
    """What the daemon knows, or why it cannot be asked; each of two questions may meet so much silence."""
    client = Client(terminal.socket, timeout_s=timeout_s)
    try:
        return client.ask("Status", StatusReply).status, client.ask("Nodes", NodesReply).nodes, None
    except ControlError as error:
        return None, (), error


def _rehearse(terminal: Terminal, view: PathView) -> tuple[str, ...]:
    """The operations of a failover on this node; none where it would change nothing here, or cannot be."""
    assert view.place is not None, "a path leads to some node's location"
    parameters = FailoverParameters(location=view.place.node.location, dry_run=True)
    try:
        return terminal.client.ask("Failover", OperateReply, parameters).operations
    except ControlError:
        return ()


def describe(target: str, way: Way, status: Status, nodes: tuple[NodeStatus, ...]) -> PathView:
    """Put the kernel's answer and the daemon's picture together."""
    place = locate(target, nodes)
    gateway = locate(way.via, nodes) if way.via else None
    view = PathView(
        target=target,
        way=way,
        node=status.node,
        location=status.location,
        place=place,
        gateway_node=gateway.node.name if gateway is not None else "",
        is_ours=_is_ours(way),
    )
    if place is None or place.node.name == status.node:
        return view
    pair, used = active_path(status, place.node.location)
    if pair is None or used is None:
        legs = legs_to(status, place.node.name)
        return msgspec.structs.replace(view, hops=(status.node, place.node.name), legs=legs, state=_worst(legs))
    return _across(view, place, status, (pair, used))


def _is_ours(way: Way) -> bool:
    return way.rule_protocol == KernelSettings().protocol


def _across(view: PathView, place: Place, status: Status, way: tuple[PairStatus, PathStatus]) -> PathView:
    """The way to another location: to the relay here, through the tunnel, to the node there."""
    pair, used = way
    # Relays stand in the order of their locations' names (model.topology.Path).
    here, there = used.relays if pair.location < pair.remote_location else used.relays[::-1]
    hops = tuple(dict.fromkeys((status.node, here, there, place.node.name)))
    crossed = [name for name in hops[1:] if name != status.node]
    legs = tuple(leg for name in crossed for leg in legs_to(status, name, (used.number,)))
    (explained,) = (each for each in explain(status, ()) if each.remote_location == pair.remote_location)
    return msgspec.structs.replace(
        view,
        hops=hops,
        path="-".join(used.relays),
        rank=used.rank,
        state=used.state,
        legs=legs,
        next=explained.next,
    )


def _worst(legs: tuple[Leg, ...]) -> str:
    order = ("up", "init", "suspect", "down")
    return max((leg.state for leg in legs if leg.state in order), key=order.index, default="")
