"""The lines of the catalogue about what is below the mesh: the LAN, and a mesh of the host."""

from __future__ import annotations

from meshwatchd.model.fault_codes import Fault, FaultCode
from meshwatchd.model.ids import Layer

_SECOND = 1_000_000_000

CARRIER_LOST = (FaultCode.UNDERLAY_DEVICE_MISSING, FaultCode.UNDERLAY_DEVICE_DOWN, FaultCode.UNDERLAY_SILENT)
"""Whatever is over the device of a host mesh loses all its peers with it."""

UNDERLAY_FAULTS = (
    Fault(
        code=FaultCode.DUPLICATE_ADDRESS,
        layer=Layer.UNDERLAY,
        title="a node's address is another machine's as well",
        remedy="take the address from the machine whose MAC the evidence names; arping -D ADDRESS shows whether any is"
        " left",
        confirm_ns=1 * _SECOND,
        about="Each neighbour believes whoever answered ARP last, so the node is dead to some and alive to others, and"
        " for a while at a time. Two MACs answer ARP probes (RFC 5227), one answers and another is in the neighbour"
        " table, or a node that answers has its address on a device of this node too. The culprit is the node that the"
        " mesh knows at that address.",
    ),
    Fault(
        code=FaultCode.MAC_MOVED,
        layer=Layer.UNDERLAY,
        title="the switch delivers frames for a node's MAC to another port",
        remedy="look for the MAC in the switch's table (bridge fdb show, show mac address-table): a loop, a cloned"
        " machine, or a static entry",
        confirm_ns=1 * _SECOND,
        about="The node answers ARP probes that everybody hears, and those to its MAC alone are lost, always or now and"
        " then. From its peers it looks dead.",
    ),
    Fault(
        code=FaultCode.NEIGHBOUR_WRONG,
        layer=Layer.UNDERLAY,
        title="a permanent neighbour entry of the LAN has a MAC that is not the peer's or the gateway's",
        remedy="ip neigh del ADDRESS dev DEVICE: ARP finds the right one; then find out who made it permanent",
        confirm_ns=1 * _SECOND,
        about="The kernel never asks for the MAC of a permanent entry. The peer, or whatever is behind the gateway,"
        " hears nothing of this node, and is well towards everybody else.",
    ),
    Fault(
        code=FaultCode.NODE_ROUTE_BLOCKED,
        layer=Layer.UNDERLAY,
        title="a route or a policy rule of a node drops what it sends to another, or no route leads there",
        remedy="ip route get ADDRESS, and ip rule: delete the route or the rule, and find out who made it: tools that"
        " lock addresses out (fail2ban) write such routes",
        confirm_ns=5 * _SECOND,
        about="The kernel answers (RTM_GETROUTE) that packets to a neighbour, or to the end of WireGuard's tunnel, go"
        " nowhere. No filter shows it, and no counter of a device. From both ends it looks like a tunnel that is"
        " blocked on the way, or like a dead node.",
    ),
    Fault(
        code=FaultCode.UNDERLAY_DEVICE_MISSING,
        layer=Layer.UNDERLAY,
        title="the device of the host's mesh below (Tailscale, NetBird, Nebula) is gone",
        remedy="start its program again with the command in the evidence; then look whether flannel's device is there",
        confirm_ns=1 * _SECOND,
        about="tailscale0, wt0 and nebula1 end with the program that made them. What ran over it, WireGuard or VXLAN,"
        " reaches nobody, since packets to its peers follow another route; a VXLAN device that was bound to it is gone"
        " as well. It is told of a device by which the mesh's packets left while all was well.",
    ),
    Fault(
        code=FaultCode.UNDERLAY_DEVICE_DOWN,
        layer=Layer.UNDERLAY,
        title="the device of the host's mesh below (Tailscale, NetBird, Nebula) is down",
        remedy="ip link set DEVICE up, or start its program again, which brings its routes back as well",
        confirm_ns=1 * _SECOND,
        about="Its program goes on and says that all is well. Routes into the device are gone with it.",
    ),
    Fault(
        code=FaultCode.UNDERLAY_SILENT,
        layer=Layer.UNDERLAY,
        title="the host's mesh below (Tailscale, NetBird, Nebula) delivers nothing",
        remedy="look at its program, its peers and the rules of its own firewall with the commands in the evidence",
        confirm_ns=1 * _SECOND,
        about="The tunnel over it sends and hears nobody, nothing comes out of the device, and the network card below"
        " hears others. Either its program takes nothing from the device, since it hangs, or it takes packets and gives"
        " none back: its own firewall, expired certificates or keys, or its port is filtered. With one peer the far end"
        " may be the reason; then this is told only where the program hangs.",
    ),
)
