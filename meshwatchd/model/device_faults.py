"""The lines of the catalogue that a look at this node's kernel finds: overlay and WireGuard devices, and the host.

Confirm times are the time that a legitimate change takes. flannel writes the entries of a peer one after the other
within milliseconds, and a device that is recreated is filled within a second if it is filled at all.
"""

from __future__ import annotations

from meshwatchd.model.fault_codes import Fault, FaultCode, Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.liqo_faults import LIQO_FAULTS
from meshwatchd.model.underlay_faults import CARRIER_LOST, UNDERLAY_FAULTS

_MS = 1_000_000
_SECOND = 1_000 * _MS

_DEVICE_GONE = (FaultCode.OVERLAY_DEVICE_MISSING, FaultCode.OVERLAY_DEVICE_DOWN)
_NO_ENTRIES = (*_DEVICE_GONE, FaultCode.OVERLAY_EMPTIED)

_OVERLAY_FAULTS = (
    Fault(
        code=FaultCode.OVERLAY_DEVICE_MISSING,
        layer=Layer.OVERLAY,
        title="the overlay device is gone",
        remedy="restart flannel (K3s: its agent): older versions do not recreate the device after its lower device"
        " went; of Open vSwitch (Antrea, Kube-OVN, OVN-Kubernetes) load its tunnel's kernel module, geneve or vxlan",
        depends_on=(FaultCode.UNDERLAY_DEVICE_MISSING,),
        confirm_ns=1 * _SECOND,
        about="A VXLAN device dies with the device below it (wg-quick down, a restarted tunnel). flannel from 0.27.4 on"
        " makes it again, empty; inside K3s that works from 1.33.13, 1.34.9 and 1.35.6 on. Of Open vSwitch it is the"
        " port in the host (antrea-gw0, ovn0, ovn-k8s-mp0) or the tunnel's device (genev_sys_6081), which is not made"
        " where the kernel has no module for it, and all agents run on.",
    ),
    Fault(
        code=FaultCode.OVERLAY_DEVICE_DOWN,
        layer=Layer.OVERLAY,
        title="the overlay device is down",
        remedy="find out who took it down (NetworkManager: unmanaged-devices), then restart flannel, or Open vSwitch's"
        " agent: going down deletes its routes and neighbours",
        confirm_ns=1 * _SECOND,
        about="Taking flannel.1 down deletes every route and every permanent neighbour on it and keeps the FDB. Taking"
        " it up again brings none of them back.",
    ),
    Fault(
        code=FaultCode.OVERLAY_EMPTIED,
        layer=Layer.OVERLAY,
        title="the overlay device has lost its entries of all peers, or its address",
        remedy="restart flannel, or let meshwatchd put them back ([repair] reseed)",
        depends_on=_DEVICE_GONE,
        confirm_ns=300 * _MS,
        about="The device is there and up, with its address, and nothing on it: it was recreated, or went down and up."
        " flannel writes the entries of a peer when the peer's lease changes, and never looks again. The port of Open"
        " vSwitch in the host has an address and no entries, and has lost that.",
    ),
    Fault(
        code=FaultCode.OVERLAY_MISMATCH,
        layer=Layer.OVERLAY,
        title="the overlay device has another UDP port or another VNI than its peers",
        remedy="give flannel on that node the cluster's net-conf.json (Backend: Port, VNI), delete the device, restart"
        " flannel: neither can be changed in place",
        depends_on=_DEVICE_GONE,
        confirm_ns=1 * _SECOND,
        about="A VXLAN device sends to the port that it listens at, and takes its own VNI only. What reaches a port at"
        " which nobody listens is refused by ICMP, what has another VNI is dropped without a counter; both directions"
        " die while every entry is right. Hellos advertise both numbers, and the majority decides which node is odd.",
    ),
    Fault(
        code=FaultCode.VTEP_MAC_CHANGED,
        layer=Layer.OVERLAY,
        title="the MAC of an overlay device changed on one side",
        remedy="restart flannel on that node; keep systemd and NetworkManager from choosing its MAC"
        " (MACAddressPolicy=none)",
        depends_on=_DEVICE_GONE,
        confirm_ns=300 * _MS,
        about="The peers send to a MAC that is not there any more: the frames arrive, are counted as received and"
        " belong to nobody. The device's own neighbours are flushed by the change, so both directions die.",
    ),
    Fault(
        code=FaultCode.FDB_ENTRY_MISSING,
        layer=Layer.OVERLAY,
        title="the overlay device does not know behind which node a MAC is",
        remedy="bridge fdb replace MAC dev flannel.1 dst NODE self permanent, or [repair] fdb",
        depends_on=(*_NO_ENTRIES,),
        confirm_ns=100 * _MS,
        about="Packets to that peer are dropped by the VXLAN device (tx_dropped) before anything is encapsulated.",
    ),
    Fault(
        code=FaultCode.FDB_ENTRY_WRONG,
        layer=Layer.OVERLAY,
        title="the overlay device sends a peer's frames to another address",
        remedy="bridge fdb replace MAC dev flannel.1 dst NODE self permanent, or [repair] fdb",
        depends_on=(*_NO_ENTRIES,),
        confirm_ns=100 * _MS,
        about="The device counts the frames as sent; they go to a node that drops them without a counter.",
    ),
    Fault(
        code=FaultCode.NEIGHBOUR_MISSING,
        layer=Layer.OVERLAY,
        title="the gateway of a peer's pods has no link-layer address",
        remedy="ip neigh replace GATEWAY lladdr MAC dev flannel.1 nud permanent, or [repair] neighbour",
        depends_on=(*_NO_ENTRIES, FaultCode.VTEP_MAC_CHANGED),
        confirm_ns=100 * _MS,
        about="The kernel asks by ARP, and VXLAN without a default entry drops broadcasts: no answer ever comes.",
    ),
    Fault(
        code=FaultCode.NEIGHBOUR_NOT_PERMANENT,
        layer=Layer.OVERLAY,
        severity=Severity.WARNING,
        title="the gateway of a peer's pods has an entry that ages",
        remedy="ip neigh replace GATEWAY lladdr MAC dev flannel.1 nud permanent, or [repair] neighbour",
        depends_on=(*_NO_ENTRIES, FaultCode.VTEP_MAC_CHANGED),
        confirm_ns=2 * _SECOND,
        about="Somebody replaced or deleted flannel's permanent entry. While the MAC is right, packets pass, STALE or"
        " not: a unicast ARP renews it. So this warns and nothing more.",
    ),
    Fault(
        code=FaultCode.NEIGHBOUR_WRONG_MAC,
        layer=Layer.OVERLAY,
        title="the gateway of a peer's pods has a MAC that is not the peer's",
        remedy="ip neigh replace GATEWAY lladdr MAC dev flannel.1 nud permanent, or [repair] neighbour",
        depends_on=(*_NO_ENTRIES,),
        confirm_ns=100 * _MS,
        about="The frames go to a MAC nobody has: dropped here for want of an FDB entry, or by the peer as not its"
        " own.",
    ),
    Fault(
        code=FaultCode.POD_ROUTE_MISSING,
        layer=Layer.OVERLAY,
        title="there is no route to a peer's pods",
        remedy="ip route replace PODS via GATEWAY dev flannel.1 onlink, or [repair] route",
        depends_on=(*_NO_ENTRIES, FaultCode.POD_ROUTE_ESCAPED),
        confirm_ns=100 * _MS,
        about="Packets to those pods fail at once (ENETUNREACH), or follow the default route out of the cluster. Or"
        " the route leads to another peer's gateway, and they pass if that node forwards them: somebody made it, and"
        " [repair] route does not replace it.",
    ),
    Fault(
        code=FaultCode.POD_ROUTE_ESCAPED,
        layer=Layer.OVERLAY,
        title="the route to a peer's pods leads past the overlay into another device",
        remedy="find out who made that route (wg-quick: AllowedIPs, Table=auto; a network manager; a VPN), delete it"
        " there, and restart flannel; nobody's route is fought over",
        depends_on=(*_DEVICE_GONE,),
        confirm_ns=500 * _MS,
        about="wg-quick makes a route for each of AllowedIPs; with pod prefixes among them it competes with flannel's,"
        " and the peer drops what comes out of WireGuard unasked. Or somebody has put a route by the LAN in its place:"
        " flannel never looks at its routes again.",
    ),
    Fault(
        code=FaultCode.CLUSTER_ROUTE_MISSING,
        layer=Layer.OVERLAY,
        title="the one route to the pods of all other nodes is gone, or ends nowhere",
        remedy="ip route add CLUSTER dev flannel-wg scope link proto boot, or [repair] route; or restart flannel (K3s:"
        " its agent), or ovnkube-node, which make device and route anew",
        depends_on=(*_DEVICE_GONE, FaultCode.WIREGUARD_DEVICE_MISSING),
        confirm_ns=1 * _SECOND,
        about="With flannel's wireguard backend (K3s wireguard-native), and with OVN, one route leads to all pods."
        " flannel writes it with its device and when a node's lease changes. Without it packets to every pod elsewhere"
        " fail at once or follow the default route, and answers to the others are lost, while all peers shake hands.",
    ),
)

_WIREGUARD_FAULTS = (
    Fault(
        code=FaultCode.WIREGUARD_DEVICE_MISSING,
        layer=Layer.WIREGUARD,
        title="the WireGuard device of the mesh is gone or down, or has lost its address",
        remedy="make it again (wg-quick up DEV; Kilo: its agent), then restart flannel where its device ran over it",
        confirm_ns=1 * _SECOND,
        about="wg-quick down, or a service that ended; or a person took it down, or deleted its address, and all routes"
        " into it went with that. Every tunnel of this node is cut. A VXLAN device that is bound to one that is gone"
        " goes with it, so that flannel.1 is gone for the same reason, which is not told twice.",
    ),
    Fault(
        code=FaultCode.WIREGUARD_PEER_MISSING,
        layer=Layer.WIREGUARD,
        title="a WireGuard device has lost a peer that is a node of the mesh",
        remedy="wg syncconf DEV <(wg-quick strip DEV), or wg set DEV peer KEY allowed-ips ... endpoint ...",
        confirm_ns=2 * _SECOND,
        about="Somebody took the peer from the device (wg set DEV peer KEY remove), or all its AllowedIPs from it, and"
        " nobody else has its prefixes. Packets to it fail at once (ENOKEY), and its own are dropped in silence.",
    ),
    Fault(
        code=FaultCode.WIREGUARD_NO_HANDSHAKE,
        layer=Layer.WIREGUARD,
        title="a WireGuard peer does not answer handshakes",
        remedy="look at the peer's endpoint and UDP port, at filters and NAT between, and at both keys",
        depends_on=CARRIER_LOST,
        about="Packets are sent and no handshake has come about for longer than a session may live (180 s), or ever.",
    ),
    Fault(
        code=FaultCode.WIREGUARD_NO_DATA,
        layer=Layer.WIREGUARD,
        title="a WireGuard peer shakes hands and delivers nothing",
        remedy="look at AllowedIPs on both sides, at filters by packet size, and at the peer's forwarding",
        depends_on=CARRIER_LOST,
        confirm_ns=15 * _SECOND,
        about="The handshake is fresh, bytes go out, and none come in: not even the empty packet with which WireGuard"
        " answers data after 10 s. AllowedIPs that miss the inner source, or a path that drops big packets, do this.",
    ),
    Fault(
        code=FaultCode.WIREGUARD_KEY_MISMATCH,
        layer=Layer.WIREGUARD,
        title="a WireGuard key is not the one the other side expects",
        remedy="give the peers the public key in force, or the device its former private key",
        confirm_ns=2 * _SECOND,
        about="A device with another key of its own is known to nobody: its handshakes are dropped without an answer.",
    ),
    Fault(
        code=FaultCode.ALLOWED_IPS_STOLEN,
        layer=Layer.WIREGUARD,
        title="a prefix has moved from one WireGuard peer to another",
        remedy="set AllowedIPs of the peer that should have it once more: the last peer given a prefix takes it",
        confirm_ns=1 * _SECOND,
        about="A WireGuard device gives each prefix to one peer. Given to a second, it leaves the first without a"
        " word.",
    ),
    Fault(
        code=FaultCode.ALLOWED_IPS_MISSING,
        layer=Layer.WIREGUARD,
        title="no WireGuard peer may carry the pods of a node that the mesh routes to it",
        remedy="add the prefix to AllowedIPs of the peer that holds the node's address (wg set DEV peer KEY"
        " allowed-ips +PREFIX), or restart the mesh's agent (Kilo: kg), which writes them anew",
        confirm_ns=5 * _SECOND,
        about="Kilo gives a peer the address and the pod prefix of each node behind it. Without the prefix WireGuard"
        " drops what is sent there (ENOKEY) and what comes from there, while the node's own address answers every"
        " probe. With flannel's wireguard backend a peer has the prefix alone, and the whole node is cut off.",
    ),
    Fault(
        code=FaultCode.WIREGUARD_ENDPOINT_MOVED,
        layer=Layer.WIREGUARD,
        severity=Severity.WARNING,
        title="a WireGuard peer's endpoint moved and nothing has come from there since",
        remedy="set the peer's endpoint again (wg set DEV peer KEY endpoint HOST:PORT)",
        depends_on=(FaultCode.WIREGUARD_KEY_MISMATCH,),
        confirm_ns=15 * _SECOND,
        about="Roaming is WireGuard's strength and no fault while packets come in. A move after which none do is one.",
    ),
    Fault(
        code=FaultCode.KEEPALIVE_MISSING,
        layer=Layer.WIREGUARD,
        severity=Severity.WARNING,
        title="the node is behind NAT and keeps no mapping alive",
        remedy="set PersistentKeepalive = 25 for that peer on this node (Kilo: kilo.squat.ai/persistent-keepalive)",
        confirm_ns=10 * _SECOND,
        about="Nobody knows an endpoint of this node, so all sessions begin here; a NAT forgets a silent flow within"
        " 30 s to minutes, and then the others cannot reach it until it speaks.",
    ),
    Fault(
        code=FaultCode.WIREGUARD_PEER_DUPLICATE,
        layer=Layer.WIREGUARD,
        severity=Severity.WARNING,
        title="two WireGuard peers have one endpoint: one of them is left over",
        remedy="restart the agent that made them, which writes its peers anew (kubectl -n kube-system delete pod -l"
        " k8s-app=cilium --field-selector spec.nodeName=NODE)",
        depends_on=(FaultCode.WIREGUARD_DEVICE_MISSING,),
        confirm_ns=5 * _SECOND,
        about="A node that was given another key, or made anew at the same address, has one peer for each of its lives."
        " AllowedIPs that the dead one has are lost to the living one: packets are encrypted for nobody.",
    ),
    Fault(
        code=FaultCode.BGP_ROUTE_ESCAPED,
        layer=Layer.RELAY,
        title="packets for a prefix that a routing daemon led into the mesh leave it, or go nowhere",
        remedy="birdc 'show route for PREFIX all' or vtysh -c 'show bgp ipv4 unicast PREFIX', and ip route get ADDRESS:"
        " bring the session or its filter back, or delete the route or rule that is taken first",
        depends_on=(*_DEVICE_GONE, FaultCode.WIREGUARD_DEVICE_MISSING, FaultCode.WIREGUARD_PEER_MISSING),
        confirm_ns=5 * _SECOND,
        about="The daemon has withdrawn the route while the node behind it is alive and has the prefix, or another"
        " route or a policy rule is taken before it: packets follow the default route out of the mesh, unencrypted. The"
        " kernel is asked (RTM_GETROUTE). A way by another node of the mesh is the daemon's own choice, and no fault.",
    ),
)

_HOST_FAULTS = (
    Fault(
        code=FaultCode.RP_FILTER_STRICT,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="strict rp_filter on a device of the mesh drops what comes by another path",
        remedy="sysctl net.ipv4.conf.all.rp_filter=2 (loose), and the same for the device",
        confirm_ns=2 * _SECOND,
        about="The larger of conf.all and conf.DEV counts. With 1 a packet is dropped, uncounted but for TcpExt"
        " IPReversePathFilter, unless its source is routed out of the device it came in by.",
    ),
    Fault(
        code=FaultCode.FORWARDING_OFF,
        layer=Layer.RELAY,
        title="the node does not forward packets",
        remedy="sysctl net.ipv4.ip_forward=1, or net.ipv4.conf.DEVICE.forwarding=1 where that alone is 0; then find"
        " out who set it",
        confirm_ns=1 * _SECOND,
        about="Every node of a Kubernetes network forwards between pods and the overlay; a leader for its whole"
        " location.",
    ),
    Fault(
        code=FaultCode.POD_ROUTE_DIVERTED,
        layer=Layer.RELAY,
        title="a policy rule or a route leads packets to a node or to its pods out of the mesh, or nowhere",
        remedy="ip route get PODS from POD iif DEV, and ip rule: delete the rule or the route that takes these packets",
        depends_on=(
            *(*_NO_ENTRIES, FaultCode.POD_ROUTE_MISSING, FaultCode.POD_ROUTE_ESCAPED),
            FaultCode.CLUSTER_ROUTE_MISSING,
        ),
        confirm_ns=5 * _SECOND,
        about="The kernel is asked with the selectors of real packets (RTM_GETROUTE), since routes of the main table"
        " do not show what a policy rule above them does. Mostly addresses of nodes are routed as before, and answer."
        " So do most pods of a node where somebody's blackhole or unreachable route has a part of their prefix: that is"
        " a warning, for a pod may be shut out on purpose. Under Kilo a route of a leader that leads back to a member"
        " is a loop: packets go round until their TTL ends.",
    ),
    Fault(
        code=FaultCode.CONNTRACK_FULL,
        layer=Layer.SELF,
        title="the connection tracking table is full: the node drops new flows",
        remedy="sysctl net.netfilter.nf_conntrack_max, or find who opens so many connections",
        confirm_ns=1 * _SECOND,
        about="Established flows pass and new ones die, and not on the way: it looks like a fault of new flows.",
    ),
    Fault(
        code=FaultCode.CONNTRACK_INVALID,
        layer=Layer.SELF,
        severity=Severity.WARNING,
        title="connection tracking calls many packets INVALID, and rules may drop those",
        remedy="look for asymmetric paths and for rules with ctstate INVALID; try nf_conntrack_tcp_be_liberal=1",
        confirm_ns=10 * _SECOND,
        about="A node that sees one direction of a connection calls its packets INVALID; kube-proxy drops such.",
    ),
    Fault(
        code=FaultCode.OFFLOAD_FAULT,
        layer=Layer.OVERLAY,
        severity=Severity.WARNING,
        title="TCP in bulk dies, or datagrams arrive with wrong checksums: an offload is broken",
        remedy="ethtool -K flannel.1 tx-checksum-ip-generic off on that node; on ESXi switch off the NIC's tunnel"
        " offloads",
        confirm_ns=10 * _SECOND,
        about="Small probes pass, since their checksums are computed in software, while TCP in bulk dies: a canary of"
        " kind bulk connects and gets nothing through. Where the outer datagram is hit the receiver counts"
        " (UdpInCsumErrors); captures on the sender show checksums that are not yet computed and prove nothing.",
    ),
)

_MESH_FAULTS = (
    Fault(
        code=FaultCode.DUPLICATE_NODE_NAME,
        layer=Layer.SELF,
        severity=Severity.WARNING,
        title="two nodes go by one name",
        remedy="give the node at the second address a name of its own (daemon.node, or its host name), restart"
        " meshwatchd there",
        confirm_ns=1 * _SECOND,
        about="Names tell nodes apart. The second of two, a cloned machine or one whose image has a host name in it,"
        " is no part of the mesh: what it says is refused, and traffic of its pods is neither watched nor moved. A"
        " node that was given another address and started again looks the same for a minute and a half.",
    ),
)

DEVICE_FAULTS = (*_OVERLAY_FAULTS, *_WIREGUARD_FAULTS, *_HOST_FAULTS, *UNDERLAY_FAULTS, *_MESH_FAULTS, *LIQO_FAULTS)
"""What the audit finds; the order is that of the codes."""
