"""Finds devices of the mesh whose MTU somebody has made smaller in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.core.audit.overlay_setup import usual_mtu
from meshwatchd.core.audit.view import View
from meshwatchd.core.pmtu.expected_mtu import VXLAN_BYTES, WIREGUARD_BYTES
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import Hello
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.open_vswitch import outer_bytes
from meshwatchd.model.snapshot import Link


def shrunk_devices(view: View, overlay: Link) -> Iterator[AuditFinding]:
    """An MTU that somebody made smaller in place: flannel, Kilo and wg-quick set it with the device they make.

    Where the device below is as small, it has to be so.
    """
    good, snapshot = view.good, view.snapshot
    lower = next((each for each in snapshot.links if overlay.vxlan and each.index == overlay.vxlan.lower), None)
    outer = outer_bytes(snapshot, overlay.name)
    if outer:
        lower = snapshot.underlay()
    peers, usual = usual_mtu(overlay, view.mesh, view.node, view.hellos)
    is_seen = good is not None and good.device == overlay.name
    if good is not None and is_seen and overlay.index == good.index and overlay.mtu_bytes < good.mtu_bytes:
        # Where its peers have as small a one, all of them were told to.
        is_usual = peers > 0 and usual <= overlay.mtu_bytes
        if not is_usual and not _is_below(lower, good.mtu_bytes + (outer or VXLAN_BYTES)):
            yield from _shrunk(view, overlay, good.mtu_bytes)
    elif lower is not None and not _is_below(lower, usual + (outer or VXLAN_BYTES)):
        yield from _shrunk(view, overlay, usual, witness=f"{peers} of its peers have {usual}")
    if good is None or not is_seen:
        return
    tunnel = snapshot.link(view.mesh.wireguard_device)
    carrier = snapshot.underlay(view.mesh.wireguard_device)
    is_same = tunnel is not None and tunnel.is_up and tunnel.index == good.tunnel_index
    if tunnel is not None and _is_usual(tunnel, view.hellos.values()):
        return
    if tunnel is not None and is_same and not _is_below(carrier, good.tunnel_mtu_bytes + WIREGUARD_BYTES):
        yield from _shrunk(view, tunnel, good.tunnel_mtu_bytes)


def _is_usual(tunnel: Link, hellos: Iterable[Hello]) -> bool:
    """Whether most of those who say so have as small a tunnel: all of them were told to."""
    told = [hello.view.wireguard_mtu_bytes for hello in hellos if hello.view.wireguard_mtu_bytes]
    return 2 * sum(each <= tunnel.mtu_bytes for each in told) > len(told)


def _is_below(lower: Link | None, size: int) -> bool:
    return lower is not None and lower.mtu_bytes < size


def _shrunk(view: View, link: Link, was: int, witness: str = "") -> Iterator[AuditFinding]:
    if link.mtu_bytes >= was:
        return
    yield AuditFinding(
        code=FaultCode.MTU_MISCONFIGURED,
        device=link.name,
        subject=link.name,
        culprit=view.node,
        because=(
            f"{link.name} has MTU {link.mtu_bytes}, {witness or f'while all was well it was {was}'}",
            "peers send packets of that size, and answers of that size do not leave this node",
            f"configure MTU {was} on {link.name}: ip link set dev {link.name} mtu {was}",
        ),
    )
