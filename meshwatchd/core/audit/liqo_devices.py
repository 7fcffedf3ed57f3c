"""What this node's kernel has lost of Liqo's, against how it was while the gateway pod answered.

    the device has no address         -> liqo-fabric-address-missing    its routes went along (liqo#3300)
    a rule leads to T, T has no route -> liqo-route-missing
    T has the routes, a rule is gone  -> liqo-route-missing
    no device, or one that is down    -> liqo-route-missing             the routes went along

Put back is what was seen while the gateway pod answered, with its exact attributes: address first, then the route to
the gateway, then those by way of it. So Liqo's fabric, which writes the very same, finds nothing to correct. Rules and
devices are Liqo's alone. Where no rule leads to the table any more the other cluster was left, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from meshwatchd.model.audit import AuditFinding, DeviceAddress, Entries
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.liqo import RESTART_FABRIC, LiqoLink, liqo_links, rules_to
from meshwatchd.model.snapshot import DeviceRoute, Snapshot

HEALTHY = (
    "Liqo goes on saying Healthy: it checks from gateway pod to gateway pod, and watches neither addresses nor rules"
)


class LiqoGood(msgspec.Struct, frozen=True, kw_only=True):
    """One device of Liqo's as it was while the gateway pod answered.

    Attributes:
        answered: addresses that answered a ping: the gateway pod's, its own among pods, those behind it.
    """

    link: LiqoLink
    answered: tuple[str, ...] = ()


def audit_devices(snapshot: Snapshot, known: Mapping[str, LiqoGood], node: str) -> Iterator[AuditFinding]:
    """What has been lost on a node, one finding for each device; what is known to be good is given by device."""
    present = {link.device: link for link in liqo_links(snapshot)}
    for was in (good.link for good in known.values()):
        if rules_to(snapshot, {was.table}):
            yield from _compare(snapshot, was, present.get(was.device), node)


def _compare(snapshot: Snapshot, was: LiqoLink, link: LiqoLink | None, node: str) -> Iterator[AuditFinding]:
    held = {each.dst for each in snapshot.device_routes if each.table == was.table}
    led = {rule.to for rule in rules_to(snapshot, {was.table})}
    lost = tuple(route for route in was.routes if route.dst in led and route.dst not in held)
    leaderless = tuple(rule for rule in was.rules if rule.to in held and rule.to not in led)
    if link is not None and link.is_up and was.address and not link.address:
        yield _address_missing(was, link, lost, node)
    elif lost:
        yield _route_missing(was, link, lost, node)
    elif leaderless:
        prefixes = _join(rule.to for rule in leaderless)
        because = (
            f"packets to {prefixes} do not look table {was.table} up any more, which routes them into {was.device}",
            *(f"ip rule add to {rule.to} lookup {rule.table} puts it back" for rule in leaderless),
        )
        yield _finding(FaultCode.LIQO_ROUTE_MISSING, was, f"table {was.table}", because, node=node)


def _address_missing(was: LiqoLink, link: LiqoLink, lost: tuple[DeviceRoute, ...], node: str) -> AuditFinding:
    because = [
        f"{was.device} is up and has no address; while the gateway pod answered it was {was.address}/32",
        f"the kernel has dropped its routes of table {was.table} with the address: {_join(each.dst for each in lost)}"
        if lost
        else f"its routes of table {was.table} are there, and packets leave without an address of this node",
    ]
    is_same = link.vni == was.vni
    if not is_same:
        because.append(f"its Geneve number was {was.vni} and is {link.vni}: it is another one, and is left to Liqo")
    wanted = Entries(addresses=(DeviceAddress(dev=was.device, address=was.address),), routes=lost)
    finding = _finding(FaultCode.LIQO_FABRIC_ADDRESS_MISSING, was, was.address, because, node=node)
    return msgspec.structs.replace(finding, wanted=wanted if is_same else Entries())


def _route_missing(was: LiqoLink, link: LiqoLink | None, lost: tuple[DeviceRoute, ...], node: str) -> AuditFinding:
    prefixes = _join(each.dst for each in lost)
    because = [
        f"packets to {prefixes} look table {was.table} up, which has no route for them; it led into {was.device}"
    ]
    if link is None:
        because.append(f"there is no device {was.device} any more: only Liqo makes it")
    elif not link.is_up:
        because.append(f"{was.device} is administratively down: ip link set dev {was.device} up, and its routes again")
    elif link.vni != was.vni:
        because.append(f"its Geneve number was {was.vni} and is {link.vni}: it is another one, and is left to Liqo")
    is_same = link is not None and link.is_up and link.vni == was.vni
    finding = _finding(FaultCode.LIQO_ROUTE_MISSING, was, f"table {was.table}", because, node=node)
    return msgspec.structs.replace(finding, wanted=Entries(routes=lost) if is_same else Entries())


def _finding(code: FaultCode, was: LiqoLink, subject: str, because: Iterable[str], *, node: str) -> AuditFinding:
    return AuditFinding(
        code=code,
        device=was.device,
        subject=subject,
        culprit=node,
        because=(*because, HEALTHY, f"{RESTART_FABRIC.format(node)} has Liqo make all of it anew"),
    )


def _join(prefixes: Iterable[str]) -> str:
    return ", ".join(prefixes)
