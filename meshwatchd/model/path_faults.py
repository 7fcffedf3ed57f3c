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
    ),
    Fault(
        code=FaultCode.LOCAL,
        layer=Layer.SELF,
        severity=Severity.CRITICAL,
        title="this node does not hear itself or reaches nobody: the fault is here",
        remedy="look at this node's NIC, firewall, loopback and load; no route is moved on its word",
    ),
    Fault(
        code=FaultCode.LEADER_DEAD,
        layer=Layer.UNDERLAY,
        severity=Severity.CRITICAL,
        title="the leader answers on no layer",
        remedy="bring the leader back or remove its Kilo leader annotation",
    ),
    Fault(
        code=FaultCode.WIREGUARD_BLOCKED,
        layer=Layer.WIREGUARD,
        severity=Severity.CRITICAL,
        title="the leaders' WireGuard tunnel passes nothing while both leaders are alive",
        remedy="look at UDP 51820 between the leaders' endpoints: security groups, NAT, keepalive",
    ),
    Fault(
        code=FaultCode.OVERLAY_NEW_FLOWS,
        layer=Layer.OVERLAY,
        severity=Severity.CRITICAL,
        title="new overlay flows die at the leader while remembered flows live",
        remedy="drain the leader; the fault lies between its overlay device and its NIC, or in the hypervisor",
    ),
    Fault(
        code=FaultCode.OVERLAY_BLACK_HOLE,
        layer=Layer.OVERLAY,
        severity=Severity.CRITICAL,
        title="no overlay packet passes the leader while its underlay answers",
        remedy="look at the overlay device, its FDB and neighbours, and filters for its UDP port on the leader",
    ),
    Fault(
        code=FaultCode.IPIP_BLACK_HOLE,
        layer=Layer.IPIP,
        severity=Severity.CRITICAL,
        title="no IPIP packet passes the leader while its overlay answers",
        remedy="look at the IPIP device, its rp_filter, and filters for IP protocol 4 on the leader",
    ),
    Fault(
        code=FaultCode.RELAY_NOT_FORWARDING,
        layer=Layer.RELAY,
        severity=Severity.CRITICAL,
        title="the leader answers on every layer and forwards nothing",
        remedy="look at net.ipv4.ip_forward, FORWARD policy and rp_filter on the leader",
    ),
    Fault(
        code=FaultCode.NODE_UNREACHABLE,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="one remote node is silent while its neighbours answer over the same path",
        remedy="look at that node; no path is to blame",
    ),
    Fault(
        code=FaultCode.ADDRESS_FAMILY_BROKEN,
        layer=Layer.UNDERLAY,
        severity=Severity.WARNING,
        title="only IPv6 is lost: IPv4 between the same nodes answers",
        remedy="look at IPv6 addresses, neighbours, routes and ip6tables; nothing is moved, standby routes are IPv4",
    ),
    Fault(
        code=FaultCode.POD_NETWORK_BROKEN,
        layer=Layer.POD_NETWORK,
        severity=Severity.WARNING,
        title="the addresses of a node's pods are cut off while the node itself answers",
        remedy="look at policy rules, AllowedIPs and filters that tell packets to those pods from packets to the node",
    ),
    Fault(
        code=FaultCode.POD_UNREACHABLE,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a canary is silent while every layer of the mesh below it answers",
        remedy="look at the pod, its CNI link and network policies; no path is to blame",
    ),
    Fault(
        code=FaultCode.KEY_MISMATCH,
        layer=Layer.SELF,
        severity=Severity.WARNING,
        title="a node and the others sign with different keys, and it answers nothing",
        remedy="compare the mesh keys ([auth]) of that node and of the others, then `systemctl reload meshwatchd`;"
        " where they are equal, look for identity.changed in the log",
    ),
    Fault(
        code=FaultCode.STANDBY_DOWN,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="a standby path does not answer: redundancy is reduced",
        remedy="look at the standby link's handshake and at its UDP port between the two relays",
    ),
    Fault(
        code=FaultCode.ALL_PATHS_DOWN,
        layer=Layer.RELAY,
        severity=Severity.CRITICAL,
        title="the path in use is broken and no standby is good",
        remedy="repair any of the paths; routes stay as they are",
    ),
    Fault(
        code=FaultCode.UNDETERMINED,
        layer=Layer.RELAY,
        severity=Severity.CRITICAL,
        title="the path in use is broken and the layer is not yet known",
        remedy="wait for the segment probes, or look at `meshwatchctl explain`",
    ),
    Fault(
        code=FaultCode.ONE_WAY_BREAK,
        layer=Layer.WIREGUARD,
        severity=Severity.CRITICAL,
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
        remedy="look at TCP 10250 towards that node: filters, and the certificate's address; logs and exec fail"
        " until then",
        about="The node's own heartbeat goes out, so it stays Ready, while the control plane cannot come in: kubectl"
        " logs,"
        " exec and metrics fail with 502. A canary of kind tcp on port 10250 watches it.",
    ),
    Fault(
        code=FaultCode.PROBE_PORT_BLOCKED,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="probes die while real traffic passes: this is no outage",
        remedy="let UDP probe.port and the ports above it pass between nodes; nothing is moved meanwhile",
        about="Every probe of the path is lost and every canary behind it answers. A filter that was closed for"
        " ports it"
        " does not know looks like this. Moving traffic would harm what works.",
    ),
    Fault(
        code=FaultCode.PROBES_ONLY,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="probes pass while no canary of the location answers: something lets only probes through",
        remedy="look for a filter or a middlebox between the locations that knows the probes' ports",
        about="All layers answer for the probes, and all canaries on two nodes or more of the other location are"
        " silent at"
        " once. That is what RFC 5880 section 9 warns of: a device that serves the watcher and not the watched.",
    ),
)
"""What sessions, groups and canaries prove; the order is that of the codes."""
