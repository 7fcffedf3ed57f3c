"""docs/faults.md: every fault of the catalogue, with symptom, proof, cure, and what the program says of it."""

from __future__ import annotations

from meshwatchd.cli.render_findings import explain_code
from meshwatchd.model.faults import CATALOGUE, Fault, FaultCode

_BISECT = "meshwatchctl bisect NODE"
_WG = "wg show WG latest-handshakes; wg show WG endpoints"
_FDB = "bridge fdb show dev OVERLAY"
_NEIGHBOURS = "ip neigh show dev OVERLAY"
_ROUTES = "ip route get POD; ip route show dev OVERLAY"
_SIZES = "meshwatchctl mtu NODE; ping -M do -s 1372 POD"
_DNS = "dig @SERVER NAME; dig @SERVER kubernetes.default.svc.cluster.local"
_TLS = "openssl s_client -connect ADDRESS:PORT -servername SNI -alpn ALPN"
_LAN = "arping -D -I NIC ADDRESS; ip neigh show ADDRESS"
_LIQO = "ip -d link show type geneve; ip rule; ip route show table T"
_LIQO_PODS = "kubectl get pods -A -l networking.liqo.io/component=gateway -o wide"

PROOFS = {
    FaultCode.NONE: "meshwatchctl status --verbose",
    FaultCode.LOCAL: "meshwatchctl status --verbose; ping NODE on its own addresses; nft list ruleset",
    FaultCode.LEADER_DEAD: "ping LEADER from a node of its LAN",
    FaultCode.WIREGUARD_BLOCKED: f"{_WG}; tcpdump -ni NIC udp port 51820 on both leaders",
    FaultCode.OVERLAY_NEW_FLOWS: f"{_BISECT}; nc -vz POD PORT again and again: some or all new connections hang",
    FaultCode.OVERLAY_BLACK_HOLE: f"{_BISECT}; {_FDB}; nft list ruleset on the leader",
    FaultCode.IPIP_BLACK_HOLE: f"{_BISECT}; tcpdump -ni NIC ip proto 4 on the leader",
    FaultCode.RELAY_NOT_FORWARDING: f"{_BISECT}; sysctl net.ipv4.ip_forward; iptables -S FORWARD on the leader",
    FaultCode.NODE_UNREACHABLE: f"{_BISECT}; meshwatchctl status on that node",
    FaultCode.ADDRESS_FAMILY_BROKEN: "ping -6 NODE; ip -6 route get ADDRESS; ip6tables -S",
    FaultCode.POD_NETWORK_BROKEN: f"{_ROUTES}; ip rule; wg show WG allowed-ips",
    FaultCode.POD_UNREACHABLE: "kubectl get pod -o wide; kubectl get networkpolicy -A",
    FaultCode.KEY_MISMATCH: "sha256sum /etc/meshwatchd/mesh.key on that node and another",
    FaultCode.STANDBY_DOWN: "meshwatchctl status; wg show mw0 on both relays of that path",
    FaultCode.ALL_PATHS_DOWN: "meshwatchctl status --verbose: what the paths share",
    FaultCode.UNDETERMINED: "meshwatchctl explain; meshwatchctl status --verbose",
    FaultCode.ONE_WAY_BREAK: f"tcpdump -ni NIC on both nodes; {_WG}",
    FaultCode.KUBELET_UNREACHABLE: "nc -vz NODE 10250 from here; kubectl logs of a pod there answers 502",
    FaultCode.APISERVER_UNREACHABLE: "nc -vz NODE 6443 from here; kubectl get nodes shows nodes here as NotReady",
    FaultCode.PROBE_PORT_BLOCKED: "nft list ruleset; tcpdump -ni NIC udp portrange 18616-19129",
    FaultCode.PROBES_ONLY: f"{_BISECT}; nc -vz POD PORT hangs at every pod there, and ping NODE does not",
    FaultCode.OVERLAY_DEVICE_MISSING: "ip -d link show type vxlan; ip -d link show type geneve",
    FaultCode.OVERLAY_DEVICE_DOWN: "ip link show OVERLAY",
    FaultCode.OVERLAY_EMPTIED: f"{_FDB}; {_NEIGHBOURS}; ip route show dev OVERLAY",
    FaultCode.OVERLAY_MISMATCH: "ip -d link show OVERLAY here and on another node: dstport, id",
    FaultCode.VTEP_MAC_CHANGED: f"ip link show OVERLAY on the peer; {_NEIGHBOURS}",
    FaultCode.FDB_ENTRY_MISSING: _FDB,
    FaultCode.FDB_ENTRY_WRONG: _FDB,
    FaultCode.NEIGHBOUR_MISSING: _NEIGHBOURS,
    FaultCode.NEIGHBOUR_NOT_PERMANENT: _NEIGHBOURS,
    FaultCode.NEIGHBOUR_WRONG_MAC: f"{_NEIGHBOURS}; ip link show OVERLAY on the peer",
    FaultCode.POD_ROUTE_MISSING: _ROUTES,
    FaultCode.POD_ROUTE_ESCAPED: _ROUTES,
    FaultCode.CLUSTER_ROUTE_MISSING: "ip route show dev flannel-wg; ip route show type blackhole; ip route get POD",
    FaultCode.WIREGUARD_DEVICE_MISSING: "ip -d link show type wireguard; ip -4 addr show dev WG; ip route show dev WG",
    FaultCode.WIREGUARD_PEER_MISSING: "wg show WG peers",
    FaultCode.WIREGUARD_NO_HANDSHAKE: _WG,
    FaultCode.WIREGUARD_NO_DATA: f"wg show WG transfer; {_WG}",
    FaultCode.WIREGUARD_KEY_MISMATCH: "wg show WG public-key on the peer; wg show WG peers here",
    FaultCode.ALLOWED_IPS_STOLEN: "wg show WG allowed-ips",
    FaultCode.ALLOWED_IPS_MISSING: "wg show WG allowed-ips",
    FaultCode.WIREGUARD_ENDPOINT_MOVED: "wg show WG endpoints",
    FaultCode.KEEPALIVE_MISSING: "wg show WG persistent-keepalive",
    FaultCode.WIREGUARD_PEER_DUPLICATE: "wg show cilium_wg0 endpoints | sort -k2",
    FaultCode.NEXT_HOP_DEAD: f"{_WG}; ip route show dev WG proto bird; birdc show protocols",
    FaultCode.BGP_ROUTE_ESCAPED: "ip route get POD; ip route show PREFIX; birdc 'show route for PREFIX all'",
    FaultCode.RP_FILTER_STRICT: "sysctl -a | grep rp_filter; nstat -az TcpExtIPReversePathFilter",
    FaultCode.FORWARDING_OFF: "sysctl -a | grep '[.]forwarding'; sysctl net.ipv4.ip_forward",
    FaultCode.POD_ROUTE_DIVERTED: "ip rule; ip route get POD from LOCALPOD iif DEVICE",
    FaultCode.CONNTRACK_FULL: "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
    FaultCode.CONNTRACK_INVALID: "conntrack -S; nft list ruleset | grep invalid",
    FaultCode.OFFLOAD_FAULT: "ethtool -k OVERLAY; ethtool -K OVERLAY tx-checksum-ip-generic off, and try again",
    FaultCode.DUPLICATE_ADDRESS: _LAN,
    FaultCode.MAC_MOVED: f"{_LAN}; the switch's table of MAC addresses",
    FaultCode.NEIGHBOUR_WRONG: _LAN,
    FaultCode.NODE_ROUTE_BLOCKED: "ip rule; ip route get ADDRESS; ip route show type unreachable",
    FaultCode.UNDERLAY_DEVICE_MISSING: "ip -d link show type tun; ip route get ENDPOINT",
    FaultCode.UNDERLAY_DEVICE_DOWN: "ip link show tailscale0 (wt0, nebula1); ip route get ENDPOINT",
    FaultCode.UNDERLAY_SILENT: "ip -s link show tailscale0 (wt0, nebula1), twice; ping PEER at its address there",
    FaultCode.DUPLICATE_NODE_NAME: "meshwatchctl topology; the addresses that the fault names",
    FaultCode.LIQO_FABRIC_ADDRESS_MISSING: f"ip address show dev liqo.X; {_LIQO}",
    FaultCode.LIQO_ROUTE_MISSING: _LIQO,
    FaultCode.LIQO_GATEWAY_STALE: f"ip -d link show type geneve: remote; {_LIQO_PODS}",
    FaultCode.LIQO_GATEWAY_LEG: "ping the via of table T; ping REMOTE of the device; tcpdump -ni NIC udp port 6091",
    FaultCode.LIQO_TUNNEL_DEAD: f"ping the via of table T, and pods there; liqoctl info peer; {_LIQO_PODS}",
    FaultCode.MTU_BLACK_HOLE: _SIZES,
    FaultCode.MTU_MISCONFIGURED: f"{_SIZES}; ip link show OVERLAY",
    FaultCode.MTU_POISONED: f"{_SIZES}; ip route get POD: cache expires, mtu",
    FaultCode.STANDBY_MTU_SMALLER: "meshwatchctl mtu",
    FaultCode.FRAGMENTS_DROPPED: "ping -M dont -s 4000 NODE; nstat -az IpReasmFails",
    FaultCode.DNS_UNREACHABLE: _DNS,
    FaultCode.DNS_FORWARD_BROKEN: f"{_DNS}; kubectl -n kube-system get configmap coredns -o yaml",
    FaultCode.DOMAIN_NOT_SERVED: f"{_DNS}; kubectl -n kube-system get configmap coredns -o yaml",
    FaultCode.NOT_SYNCED: f"{_DNS}; kubectl -n kube-system logs deployment/coredns",
    FaultCode.NOT_EXPORTED: f"{_DNS}; kubectl get serviceexport,serviceimport -A",
    FaultCode.EXPORTER_UNHEALTHY: f"{_DNS}; kubectl get endpointslice -A",
    FaultCode.POLICY_OR_BACKEND: "nc -vz ADDRESS PORT from here and from a pod; kubectl get networkpolicy -A",
    FaultCode.ENDPOINT_REFUSED: "nc -vz ADDRESS PORT; kubectl get endpointslice -A",
    FaultCode.IDENTITY: _TLS,
    FaultCode.SNI_REJECTED: _TLS,
    FaultCode.GATEWAY_NOT_READY: "curl -i http://ADDRESS:PORT/PATH",
    FaultCode.CLUSTERMESH_DATAPATH_CUT: f"{_BISECT}; ping NODE; tcpdump -ni NIC udp port 8472 or 51871",
    FaultCode.CLUSTER_BACKENDS_UNREACHABLE: "ping NODE of that cluster; cilium-dbg service list: backends there",
    FaultCode.OUTER_WAY_BROKEN: "ping NODE, here and on the neighbour; ip route get NODE ipproto udp dport 8472",
    FaultCode.CLUSTERMESH_CONTROL_CUT: "cilium-dbg status --all-clusters; openssl s_client -connect APISERVER:2379",
}
"""How to see a fault without us; the page says what the words in capitals stand for."""

_WORDS = {"ok": "no fault", "warning": "traffic flows; redundancy or quality is lost", "critical": "traffic is lost"}


def page() -> str:
    """The page."""
    lines = [
        "# Faults",
        "",
        "Every fault that meshwatchd can name, in the order of the catalogue. `meshwatchctl explain CODE` prints the",
        "same on any machine. Under *proof* are commands that show the fault without meshwatchd: OVERLAY is the",
        "overlay's device (`flannel.1`, `cilium_vxlan`), WG the mesh's WireGuard device (`kilo0`, `wg0`), NIC the",
        "network card, POD the address of a pod on the other node.",
        "",
        "| fault | layer | severity | |",
        "|---|---|---|---|",
    ]
    faults = list(CATALOGUE.values())
    lines += [f"| [{one.code}](#{one.code}) | {_layer(one)} | {one.severity} | {one.title} |" for one in faults]
    for one in faults:
        lines += ["", *_section(one)]
    return "\n".join(lines) + "\n"


def _section(one: Fault) -> list[str]:
    hidden = ", ".join(f"[{each}](#{each})" for each in one.depends_on)
    return [
        f"## {one.code}",
        "",
        f"{one.title[0].upper()}{one.title[1:]}. Layer {_layer(one)}; {_WORDS[one.severity]}.",
        "",
        f"**Symptom.** {one.about}",
        "",
        *[f"**Proof.** `{PROOFS[one.code]}`", ""],
        f"**Cure.** {one.remedy[0].upper()}{one.remedy[1:]}.",
        "",
        *([f"Not reported while one of these is: {hidden}.", ""] if hidden else []),
        "```console",
        f"$ meshwatchctl explain {one.code}",
        explain_code(one.code).rstrip(),
        "```",
    ]


def _layer(one: Fault) -> str:
    return one.layer.name.lower().replace("_", "-")
