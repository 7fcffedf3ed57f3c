"""The lines of the catalogue that probes find."""

from __future__ import annotations

from meshwatchd.model.fault_codes import Fault, FaultCode, Severity
from meshwatchd.model.ids import Layer

PATH_FAULTS = (
    Fault(
        code=FaultCode.NONE,
        layer=Layer.SELF,
        severity=Severity.OK,
        title="every layer answers",
        remedy="nothing to do",
        about="Every layer to every watched location answers in time. Standbys are good as well, or `standby-down`"
        " would be reported.",
    ),
    Fault(
        code=FaultCode.LOCAL,
        layer=Layer.SELF,
        title="the node does not hear itself or reaches no other: the fault is there",
        remedy="look at this node's NIC, firewall, loopback and load; no route is moved on its word",
        about="This node loses probes to itself, or to everybody at once. Its word about others is worth nothing then,"
        " so it names no peer and moves no route. Pods of this node suffer; those of others need not.",
    ),
    Fault(
        code=FaultCode.LEADER_DEAD,
        layer=Layer.UNDERLAY,
        title="the leader answers on no layer",
        remedy="bring the leader back or remove its Kilo leader annotation",
        about="The leader answers neither on its own LAN nor beyond. All traffic between the sites ends there."
        " Kubernetes notes a dead node after 40 s and a leader that Kilo replaces after a minute; a standby takes over"
        " at once.",
    ),
    Fault(
        code=FaultCode.WIREGUARD_BLOCKED,
        layer=Layer.WIREGUARD,
        title="the leaders' WireGuard tunnel passes nothing while both leaders are alive",
        remedy="compare keys and endpoints in `wg show` on both; then look at UDP 51820 between them: security groups,"
        " NAT, keepalive",
        about="Both leaders answer in their own sites and their tunnel passes nothing: a filter, a NAT that forgot the"
        " session, a changed endpoint. Handshakes stop as well, some minutes later.",
    ),
    Fault(
        code=FaultCode.OVERLAY_NEW_FLOWS,
        layer=Layer.OVERLAY,
        title="new overlay flows die while established flows pass",
        remedy="drain the leader; the fault lies between its overlay device and its NIC, or in the hypervisor",
        about="Connections that exist go on, new ones hang until they time out. ping works and the node is Ready,"
        " because both use one established flow. A flow table below the overlay does not learn new flows.",
    ),
    Fault(
        code=FaultCode.OVERLAY_BLACK_HOLE,
        layer=Layer.OVERLAY,
        title="no overlay packet passes the leader while its underlay answers",
        remedy="look at the overlay device, its FDB and neighbours, and filters for its UDP port on the leader",
        about="The leader answers on its own address, and nothing that is inside the overlay reaches it, old flows or"
        " new. Pods on other nodes of the site cannot reach the other site; pods on the leader can. Where the node"
        " that is named does not lead, its own pods alone are cut off.",
    ),
    Fault(
        code=FaultCode.IPIP_BLACK_HOLE,
        layer=Layer.IPIP,
        title="no IPIP packet passes the leader while its overlay answers",
        remedy="look at the IPIP device, its rp_filter, and filters for IP protocol 4 on the leader",
        about="Kilo over Cilium sends packets to the leader in IPIP. The leader answers over the overlay, and what is"
        " inside IPIP is lost: a filter of IP protocol 4, or rp_filter on the IPIP device.",
    ),
    Fault(
        code=FaultCode.RELAY_NOT_FORWARDING,
        layer=Layer.RELAY,
        title="the leader answers on every layer and forwards nothing",
        remedy="look at net.ipv4.ip_forward, FORWARD policy and rp_filter on the leader",
        about="The leader answers whatever is addressed to itself and drops what it should pass on. ping to the leader"
        " proves nothing here; only packets through it do.",
    ),
    Fault(
        code=FaultCode.NODE_UNREACHABLE,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="one node is cut off or loses packets while its neighbours are reached over the same path",
        remedy="look at that node, or at what its leader does to its packets; no path is to blame",
        about="One node answers nothing, or too little, while its neighbours answer over the same path. The path is"
        " good: nothing is moved. A node that names itself does not reach its own leader, or loses packets on the way,"
        " while its neighbours report that they reach the same leader; there it is critical as long as its traffic"
        " takes that path. A filter on its leader that takes this node's packets alone looks the same.",
    ),
    Fault(
        code=FaultCode.ADDRESS_FAMILY_BROKEN,
        layer=Layer.UNDERLAY,
        severity=Severity.WARNING,
        title="only IPv6 is lost: IPv4 between the same nodes answers",
        remedy="look at IPv6 addresses, neighbours, routes and ip6tables; nothing is moved, standby routes are IPv4",
        about="IPv4 between two nodes works and IPv6 does not. Programs that prefer IPv6 are slow or hang, all others"
        " notice nothing.",
    ),
    Fault(
        code=FaultCode.POD_NETWORK_BROKEN,
        layer=Layer.POD_NETWORK,
        severity=Severity.WARNING,
        title="the addresses of a node's pods are cut off while the node itself answers",
        remedy="look at policy rules, AllowedIPs and filters that tell packets to those pods from packets to the node",
        about="The node answers on its own addresses and the network of its pods does not. Every pod there is cut off"
        " from other nodes, while the node looks well.",
    ),
    Fault(
        code=FaultCode.POD_UNREACHABLE,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a canary is silent while every layer of the mesh below it answers",
        remedy="look at the pod, its CNI link and network policies; no path is to blame",
        about="A canary that was declared is silent while all of the mesh below it works. The fault is between that"
        " node and its pod, or it is the pod's own.",
    ),
    Fault(
        code=FaultCode.KEY_MISMATCH,
        layer=Layer.SELF,
        severity=Severity.WARNING,
        title="a node and the others sign with different keys, and it answers nothing",
        remedy="compare the mesh keys ([auth]) of that node and of the others, then `systemctl reload meshwatchd`;"
        " where they are equal, look for identity.changed in the log",
        about="A node signs with a key that the others do not accept, mostly because one step of a key rotation was"
        " missed there. It is alive, and its probes are refused.",
    ),
    Fault(
        code=FaultCode.STANDBY_DOWN,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="a standby path does not answer: redundancy is reduced",
        remedy="look at the standby link's handshake and at its UDP port between the two relays",
        about="Traffic flows. A path that would take over does not answer, so the next fault of the path in use may"
        " have no cure.",
    ),
    Fault(
        code=FaultCode.ALL_PATHS_DOWN,
        layer=Layer.RELAY,
        title="the path in use is broken and no standby is good",
        remedy="repair any of the paths; routes stay as they are",
        about="The path in use is broken and no other is good. Nothing is moved: every place to go is worse or"
        " unknown. Mostly the cause is one thing that all paths share.",
    ),
    Fault(
        code=FaultCode.UNDETERMINED,
        layer=Layer.RELAY,
        title="the path in use is broken and the layer is not yet known",
        remedy="wait for the segment probes, or look at `meshwatchctl explain`",
        about="Traffic is lost and the evidence does not name a layer yet. That takes half a second after most faults;"
        " if it stays, the signs contradict each other, or traffic is kept on a standby that is dead: the reason says"
        " so.",
    ),
    Fault(
        code=FaultCode.ONE_WAY_BREAK,
        layer=Layer.WIREGUARD,
        title="the tunnel passes packets in one direction only",
        remedy="look at the NAT mapping and PersistentKeepalive of the side that is not heard, and at stateful filters",
        about="Probes of the other leader still arrive while nothing that is sent to it is answered. A NAT that has"
        " forgotten its mapping does this: the side behind it speaks and cannot be spoken to, and its node stays"
        " Ready.",
    ),
    Fault(
        code=FaultCode.KUBELET_UNREACHABLE,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a node answers on every layer while its kubelet cannot be reached",
        remedy="look at TCP 10250 towards that node: filters, whether the kubelet runs, and the certificate's address;"
        " logs and exec fail until then",
        about="The node's own heartbeat goes out, so it stays Ready, while the control plane cannot come in: kubectl"
        " logs, exec and metrics fail with 502. A canary of kind tcp on port 10250, or with role kubelet, watches it."
        ' With expect = "service" a refused connection counts as well: the kubelet has stopped.',
    ),
    Fault(
        code=FaultCode.APISERVER_UNREACHABLE,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a node answers on every layer while its API server cannot be reached",
        remedy="look at TCP 6443 towards that node: filters, and whether the API server runs",
        about="A kubelet that has to reach this API server from here cannot report its node, which becomes NotReady"
        " although the mesh is well. A canary of kind tcp on port 6443, or with role apiserver, watches it. With"
        ' expect = "service" a refused connection counts as well: the API server has stopped.',
    ),
    Fault(
        code=FaultCode.PROBE_PORT_BLOCKED,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="probes die while real traffic passes: this is no outage",
        remedy="let UDP probe.port and the ports above it pass between nodes; nothing is moved meanwhile",
        about="Every probe of the path is lost and every canary behind it answers. A filter that was closed for ports"
        " it does not know looks like this. Moving traffic would harm what works.",
    ),
    Fault(
        code=FaultCode.PROBES_ONLY,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="probes pass and traffic of pods does not: something lets only probes through",
        remedy="look for a filter or a middlebox between the locations that knows the probes' ports",
        about="All layers answer for the probes. Between the same addresses among pods neither TCP nor UDP at a port"
        " that is not the daemon's passes, or all canaries on two nodes or more of the other location are silent at"
        " once. That is what RFC 5880 section 9 warns of: a device that serves the watcher and not the watched.",
    ),
    Fault(
        code=FaultCode.NEXT_HOP_DEAD,
        layer=Layer.WIREGUARD,
        title="nothing passes to a node, and a routing daemon still routes to it",
        remedy="look at the tunnel (wg show WG, UDP port, filters); until it is mended end the session, so that both"
        " ends choose another way: birdc disable NAME, or neighbor ADDRESS shutdown in vtysh; BFD does that by itself",
        about="Routes of FRR and BIRD (proto bgp, zebra, bird) stand for as long as the daemon's session does: after"
        " its last word for the hold time, which is 90 s to 240 s by default, and for ever where the session goes by"
        " another way than packets do. Probes of the next hop know within a second. The routes are their owner's and"
        " are never changed.",
    ),
)
"""What sessions, groups and canaries prove; the order is that of the codes."""
