"""What this kernel can do, found out by doing it.

A kernel configuration file, a list of modules or a version number all promise more than they keep: a
module may be missing from a trimmed image, blocked by a policy, or be older than the attribute that
is asked of it. So every capability is a short shell script that creates the real thing in namespaces
of its own (network, mount and process), and the answer is whether that worked. The namespaces and
all that is in them vanish with the script, whatever happens to it.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType

# A probe takes 10 ms natively and 0.3 s in an emulated guest; a tool that hangs must not hang the lab.
PROBE_TIMEOUT_S = 20

# `--kill-child` with a process namespace: when the script ends, so does every daemon it has started.
# The one probe that mounts anything sets the propagation itself: unshare(1) cannot in a chroot whose root is no mount.
THROW_AWAY = ("unshare", "--net", "--mount", "--propagation", "unchanged", "--pid", "--fork", "--kill-child")


class Capability(StrEnum):
    """One thing the lab may need from the kernel."""

    NAMESPACES = "namespaces"
    VXLAN = "vxlan"
    VXLAN_EXTERNAL = "vxlan-external"
    WIREGUARD_KERNEL = "wireguard-kernel"
    WIREGUARD_USERSPACE = "wireguard-userspace"
    IPIP = "ipip"
    NETEM = "netem"
    NFT_INGRESS = "nft-ingress"
    NFT_NAT = "nft-nat"
    POLICY_ROUTING = "policy-routing"
    ENCAP_IP = "encap-ip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """How one capability is tried.

    Attributes:
        title: what it is, in the words of the tools' manuals.
        script: for `sh -eu`, run as root in throw-away namespaces; its last line decides.
        tools: programs the script calls, with the Debian packages that bring them.
        remedy: what to do when the kernel says no.
    """

    title: str
    script: str
    tools: tuple[str, ...] = ("ip",)
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of one probe: `evidence` is the deciding command, or the error it met."""

    title: str
    works: bool
    evidence: str
    remedy: str = ""


PACKAGES = MappingProxyType(
    {
        "ip": "iproute2",
        "tc": "iproute2",
        "nft": "nftables",
        "wg": "wireguard-tools",
        "wireguard-go": "wireguard-go",
        "unshare": "util-linux",
        "mount": "util-linux",
    }
)

_OTHER_KERNEL = "this kernel was built without it; the vm backend brings a kernel that has it"

PROBES = MappingProxyType(
    {
        Capability.NAMESPACES: Probe(
            title="network namespaces, veth, bridge",
            script="ip link add switch type bridge\nip link add left type veth peer name right",
            remedy="a kernel with CONFIG_NET_NS, CONFIG_VETH and CONFIG_BRIDGE, and root",
        ),
        Capability.VXLAN: Probe(
            title="VXLAN (flannel.1)",
            script="ip link add flannel.1 type vxlan id 1 dstport 8472 nolearning",
            remedy=_OTHER_KERNEL,
        ),
        Capability.VXLAN_EXTERNAL: Probe(
            title="VXLAN with collect-metadata (cilium_vxlan)",
            script="ip link add cilium_vxlan type vxlan external dstport 8472 nolearning",
            remedy=_OTHER_KERNEL,
        ),
        Capability.WIREGUARD_KERNEL: Probe(
            title="WireGuard in the kernel",
            script="ip link add kilo0 type wireguard",
            remedy="a kernel with CONFIG_WIREGUARD, or the userspace or vm backend",
        ),
        # The control socket is named after the device and lives below /run: a private /run, as each
        # node of the lab has one, keeps the probe from meeting a kilo0 of the machine itself.
        Capability.WIREGUARD_USERSPACE: Probe(
            title="WireGuard in user space (wireguard-go, /dev/net/tun)",
            script=(
                "mount --make-rprivate / 2>/dev/null || mount --make-private /run\n"
                "mount -t tmpfs tmpfs /run\nmkdir /run/wireguard\n"
                "LOG_LEVEL=silent wireguard-go kilo0 >/dev/null\nwg show kilo0 fwmark"
            ),
            tools=("mount", "wireguard-go", "wg"),
            remedy="load the tun module (modprobe tun); in a container, allow /dev/net/tun",
        ),
        Capability.IPIP: Probe(
            title="IPIP (tunl0)",
            script="ip link add lab0 type ipip local 192.0.2.1 remote 192.0.2.2",
            remedy=_OTHER_KERNEL,
        ),
        Capability.NETEM: Probe(
            title="netem (delay, loss)",
            script="tc qdisc add dev lo root netem delay 1ms",
            tools=("tc",),
            remedy=_OTHER_KERNEL,
        ),
        Capability.NFT_INGRESS: Probe(
            title="nftables: netdev ingress, set that remembers ports",
            script=(
                "nft 'add table netdev lab; "
                "add set netdev lab known "
                "{ type inet_service; flags dynamic,timeout; timeout 1m; size 64; }; "
                "add chain netdev lab in { type filter hook ingress device lo priority 0; }; "
                "add rule netdev lab in udp dport 8472 update @known { udp sport }'"
            ),
            tools=("nft",),
            remedy="a kernel with CONFIG_NF_TABLES_NETDEV",
        ),
        Capability.NFT_NAT: Probe(
            title="nftables: static NAT",
            script=(
                "nft 'add table ip lab; "
                "add chain ip lab pre { type nat hook prerouting priority dstnat; }; "
                "add rule ip lab pre ip daddr 203.0.113.11 dnat to 192.0.2.1'"
            ),
            tools=("nft",),
            remedy="a kernel with CONFIG_NFT_NAT",
        ),
        Capability.POLICY_ROUTING: Probe(
            title="policy routing: ipproto, sport, dport, protocol",
            script=(
                "ip rule add priority 5411 protocol 117 ipproto 17 dport 18621 lookup 7701\n"
                "ip rule add priority 5411 protocol 117 ipproto 17 sport 18621 lookup 7701\n"
                "ip rule list protocol 117 | grep -q 'sport 18621'"
            ),
            remedy="a kernel of version 4.17 or later with CONFIG_IP_MULTIPLE_TABLES",
        ),
        Capability.ENCAP_IP: Probe(
            title="lightweight tunnel: route with encap ip",
            script=(
                "ip link add cilium_vxlan type vxlan external dstport 8472\nip link set cilium_vxlan up\n"
                "ip route add 192.0.2.0/24 encap ip id 6 dst 198.51.100.1 dev cilium_vxlan"
            ),
            remedy="a kernel with CONFIG_LWTUNNEL",
        ),
    }
)


@cache
def examine(capability: Capability) -> Finding:
    """Try one capability for real; the answer is remembered for the life of this process."""
    probe = PROBES[capability]
    missing = [tool for tool in ("unshare", *probe.tools) if shutil.which(tool) is None]
    if missing:
        packages = " ".join(sorted({PACKAGES[tool] for tool in missing}))
        return Finding(
            title=probe.title,
            works=False,
            evidence=f"not installed: {' '.join(missing)}",
            remedy=f"apt-get install {packages}",
        )
    works, evidence = _run(probe.script)
    return Finding(title=probe.title, works=works, evidence=evidence, remedy="" if works else probe.remedy)


def _run(script: str) -> tuple[bool, str]:
    try:
        done = subprocess.run(
            [*THROW_AWAY, "sh", "-euc", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False, f"no answer within {PROBE_TIMEOUT_S} s"
    if done.returncode == 0:
        return True, script.splitlines()[-1]
    complaints = done.stderr.strip().splitlines()
    return False, complaints[-1] if complaints else f"exit status {done.returncode}"
