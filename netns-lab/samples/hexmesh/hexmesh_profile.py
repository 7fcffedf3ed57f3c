"""Hexmesh: pods are routed straight into hex0, whose address is the first of the node's pods; every node is a peer."""

from meshwatchd.model.discovery import Candidate, DeviceLayer, Finding, LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import MeshKind, reading

NAME = "hexmesh"
DEVICE = "hex0"


def look(snapshot: Snapshot, sources: Sources, declared: MeshSettings, node: NodeName) -> LocalView:
    """What the device and the bridge of the pods say of this node."""
    del sources, declared
    device = snapshot.link(DEVICE)
    source = f"link {DEVICE}"
    if device is None or not reading.is_wireguard(snapshot, device):
        why = (Finding(source=source, text=f"there is no {DEVICE}: hexmesh does not run here"),)
        return LocalView(profiles=(), node=node, why=why)
    address = next(iter(device.addresses), "")
    networks = (network for link in snapshot.links if link.kind == "bridge" for _, network in reading.networks_of(link))
    below = snapshot.underlay(DEVICE)
    over = below.name if below is not None else ""
    return LocalView(
        profiles=(NAME,),
        node=node,
        pod_cidr=next((str(network) for network in networks if reading.is_in(address, str(network))), ""),
        overlay_ip=address,
        wireguard_ip=address,
        overlay_device=DEVICE,
        wireguard_device=DEVICE,
        wireguard_mtu_bytes=device.mtu_bytes,
        layers=(DeviceLayer(kind="wireguard", device=DEVICE, mtu_bytes=device.mtu_bytes, over=over),),
        candidates=tuple(
            Candidate(address=reading.host_of(peer.endpoint))
            for peer in reading.peers_of(snapshot, DEVICE)
            if peer.endpoint
        ),
        why=(Finding(source=source, text=f"{DEVICE} is hexmesh's device"),),
    )


KIND = MeshKind(interface=1, look=look)
