"""Looks at the host mesh below the mesh: Tailscale's, NetBird's or Nebula's device, against how it was.

    nebula killed               -> underlay-device-missing     tun devices end with their process
    ip link set nebula1 down    -> underlay-device-down
    nebula1 made smaller        -> mtu-misconfigured           at nebula1: what is over it does not fit any more
    nebula stopped, or a rule   -> underlay-silent             packets go in, and none come out
      of its firewall

What is over such a device loses its way with it, whether it is WireGuard or VXLAN: those are consequences. Silence is
told from counters: of the tunnel's peers, of the device, and of the network card, which hears something all the same.
With one peer either end may be at fault, unless nobody takes what is sent from the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meshwatchd.core.audit.view import View
from meshwatchd.core.pmtu.expected_mtu import VXLAN_BYTES, WIREGUARD_BYTES
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.host import HostState
from meshwatchd.model.host_mesh import carrier_of, endpoints_of, maker_of
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import Link

SILENT_NS = 5 * SECOND
"""A pair that is not known good is asked every three seconds at least, and what all others answer is missing too."""


def audit_host_mesh(view: View) -> Iterator[AuditFinding]:
    """What has become of the device since all was well; nothing where that is not known, or the mesh has left it."""
    good, snapshot = view.good, view.snapshot
    maker = maker_of(good.carrier) if good is not None else None
    if good is None or maker is None or _has_left(view):
        return
    device, was = good.carrier, good.carrier_mtu_bytes
    link = snapshot.link(device)
    if link is None:
        because = f"there is no device {device}, which {_tunnel(view)} ran over while all was well"
        yield _finding(view, FaultCode.UNDERLAY_DEVICE_MISSING, device, because)
    elif not link.is_up:
        yield _finding(view, FaultCode.UNDERLAY_DEVICE_DOWN, device, f"{device} is administratively down")
    elif link.index == good.carrier_index and link.mtu_bytes < min(was, _needed(view)):
        yield AuditFinding(
            code=FaultCode.MTU_MISCONFIGURED,
            device=device,
            subject=device,
            culprit=view.node,
            because=(
                f"{device} of {maker.name} has MTU {link.mtu_bytes}, while all was well it was {was}",
                f"{_tunnel(view)} is over it and needs {_needed(view)}: its packets leave in fragments, or not at all",
                f"configure MTU {was} on {device}: ip link set dev {device} mtu {was}, or {maker.restart}",
            ),
        )


def audit_silence(
    view: View, past: Sequence[HostState], *, silent_ns: int = SILENT_NS, peers: int | None = None
) -> Iterator[AuditFinding]:
    """The finding that nothing comes out of the host mesh's device while what is over it sends.

    Args:
        view: of the moment.
        past: looks at the counters of devices, the oldest first.
        silent_ns: for how long a peer of the tunnel has been silent; 0 for none.
        peers: of the tunnel, those that are sent to; None where VXLAN is over the device, and its packets tell.
    """
    if silent_ns < SILENT_NS:
        return
    carrier = carrier_of(view.snapshot, view.mesh.wireguard_device, view.mesh.overlay_device)
    if carrier is None or not carrier.is_up:
        return
    lower = view.snapshot.underlay(carrier.name)
    came, went, span = _grown(past, carrier)
    heard, _, _ = _grown(past, lower)
    if peers is None:
        _, sent, _ = _grown(past, view.snapshot.link(view.mesh.overlay_device))
        peers = len(view.mesh.node) - 1 if sent else 0
    is_taken = went > 0
    if not span or not peers or came or not heard or (is_taken and peers < 2):
        return
    why = f"{went} packets have gone into it" if is_taken else "nobody takes what is sent: its program hangs"
    because = f"nothing has come out of {carrier.name} for {span // SECOND} s, and {why}"
    below = f"{lower.name} below it has received {heard} packets meanwhile" if lower is not None else ""
    yield _finding(view, FaultCode.UNDERLAY_SILENT, carrier.name, because, below)


def counted(view: View) -> tuple[str, ...]:
    """The devices whose counters tell silence: the host mesh's, the one below it and the overlay's; else none."""
    carrier = carrier_of(view.snapshot, view.mesh.wireguard_device, view.mesh.overlay_device)
    if carrier is None:
        return ()
    lower = view.snapshot.underlay(carrier.name)
    return (carrier.name, *((lower.name,) if lower is not None else ()), view.mesh.overlay_device)


def _grown(past: Sequence[HostState], link: Link | None) -> tuple[int, int, int]:
    """Packets that a device has received and sent in the last SILENT_NS or a little more, and how long that is."""
    name = link.name if link is not None else ""
    states = [state for state in past if name in state.packets]
    long_ago = [state for state in states if states[-1].at_ns - state.at_ns >= SILENT_NS]
    if not long_ago:
        return 0, 0, 0
    (came, went), (rx, tx) = long_ago[-1].packets[name], states[-1].packets[name]
    return max(0, rx - came), max(0, tx - went), states[-1].at_ns - long_ago[-1].at_ns


def _has_left(view: View) -> bool:
    """Whether what ran over the device has other peers, or is bound to another device."""
    good, mesh, snapshot = view.good, view.mesh, view.snapshot
    assert good is not None, "asked of what was good"
    had = [state for state in good.wireguard if state.device == mesh.wireguard_device]
    before = {peer.host for state in had for peer in state.peers if peer.host}
    now = endpoints_of(snapshot, mesh.wireguard_device)
    overlay = snapshot.link(mesh.overlay_device)
    is_bound = overlay is not None and overlay.vxlan is not None and bool(overlay.vxlan.lower)
    below = snapshot.underlay(mesh.overlay_device) if is_bound else None
    is_over_tunnel = below is not None and below.name in (mesh.wireguard_device, good.carrier)
    return (bool(now) and bool(before) and not now & before) or (below is not None and not is_over_tunnel and not had)


def _needed(view: View) -> int:
    """The size of the longest packets that leave by the device."""
    tunnel, overlay = view.snapshot.link(view.mesh.wireguard_device), view.snapshot.link(view.mesh.overlay_device)
    if tunnel is not None:
        return tunnel.mtu_bytes + WIREGUARD_BYTES
    return overlay.mtu_bytes + VXLAN_BYTES if overlay is not None else 0


def _tunnel(view: View) -> str:
    return view.mesh.wireguard_device or view.mesh.overlay_device


def _finding(view: View, code: FaultCode, device: str, *because: str) -> AuditFinding:
    maker = maker_of(device)
    assert maker is not None, "only a host mesh's device is judged"
    words = f"{device} is {maker.name}'s: ask it ({maker.ask}); {maker.restart} makes it anew"
    return AuditFinding(
        code=code, device=device, subject=device, culprit=view.node, because=(*filter(None, because), words)
    )
