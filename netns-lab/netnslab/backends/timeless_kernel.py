"""A kernel in which computing takes no time: the clock stands still while anything runs, and jumps when all wait.

Six nodes on one machine share its processors, so a gap in their traffic holds what daemons decide and what the machine
is slow at. user-mode-linux can leave the second out (`time-travel=inf-cpu`): each node has a processor of its own that
is infinitely fast, and what remains is decisions, timers and packets that are lost. A minute of a bare mesh takes some
seconds, and one with six daemons a minute or two.

Debian's package is built without that, so a kernel of the same source is compiled here with FEATURES, all of them built
in: some ten minutes on two cores, once. Nothing that CI runs needs it.

    python -m netnslab.backends run --timeless --timeout 3000 python -m netnslab.bench_leaders --agent PATH

    ~/.cache/netnslab/timeless/6.1.176/linux.uml
                                      /lib/modules/6.1.176/modules.builtin ...

A program that reads a clock again and again until a time has come makes it pass by some nanoseconds with each look.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from netnslab.backends import debian_uml
from netnslab.backends.debian_kernel import cache_directory
from netnslab.backends.debian_uml import UserModeKernel

ARGUMENTS: Final = ("time-travel=inf-cpu",)
"""Of the kernel's command line (arch/um/kernel/time.c)."""

GUEST_LIMIT_S: Final = 1_000_000
"""The guest's clock runs ahead of this machine's, whose limit is what ends a run."""

FEATURES: Final = """
UML_TIME_TRAVEL_SUPPORT NAMESPACES NET_NS CGROUPS MULTIUSER SYSVIPC POSIX_MQUEUE OVERLAY_FS TMPFS_XATTR DEVTMPFS
IP_ADVANCED_ROUTER IP_MULTIPLE_TABLES IPV6_MULTIPLE_TABLES IP_ROUTE_MULTIPATH NETLINK_DIAG INET_DIAG INET_UDP_DIAG
VETH VXLAN GENEVE TUN DUMMY BRIDGE BRIDGE_VLAN_FILTERING VLAN_8021Q NET_VRF WIREGUARD NET_IPIP NET_IPGRE_DEMUX NET_IPGRE
NET_SCH_NETEM NET_SCH_INGRESS NET_SCH_TBF NET_SCH_PRIO NET_CLS_U32 NET_CLS_MATCHALL NET_CLS_ACT NET_ACT_GACT
NET_ACT_MIRRED NET_CLS_FLOWER NET_CLS_BPF
NETFILTER_ADVANCED NETFILTER_INGRESS NF_CONNTRACK NF_CONNTRACK_EVENTS NF_CT_NETLINK NF_NAT NF_TABLES NF_TABLES_INET
NF_TABLES_NETDEV NF_TABLES_IPV4 NF_TABLES_IPV6 NF_TABLES_ARP NFT_CT NFT_NAT NFT_MASQ NFT_REDIR NFT_REJECT NFT_LOG
NFT_LIMIT NFT_NUMGEN NFT_HASH NFT_COMPAT NFT_FIB_INET NFT_FIB_IPV4 NFT_FIB_IPV6
NETFILTER_XTABLES NETFILTER_XT_MATCH_COMMENT NETFILTER_XT_MATCH_CONNTRACK NETFILTER_XT_MATCH_ADDRTYPE NETFILTER_XT_MARK
NETFILTER_XT_SET NETFILTER_XT_TARGET_MASQUERADE IP_NF_IPTABLES IP_NF_FILTER IP_NF_NAT IP_NF_TARGET_MASQUERADE
IP6_NF_IPTABLES IP6_NF_FILTER IP_SET IP_SET_HASH_IP IP_SET_HASH_NET
BPF_SYSCALL CRYPTO_USER_API_HASH
"""
"""What the lab, the daemon and Kilo's agent (iptables, ipset) need beside the defaults of such a kernel."""

WITHOUT: Final = ("MODULES", "UML_NET", "SOUND", "RAID6_PQ_BENCHMARK")
"""The last measures by a clock that stands still, and never ends."""


def options() -> str:
    """Lines of the kernel's configuration."""
    on = "".join(f"CONFIG_{name}=y\n" for name in FEATURES.split())
    return on + "".join(f"# CONFIG_{name} is not set\n" for name in WITHOUT) + "CONFIG_DEBUG_INFO_NONE=y\n"


def obtain() -> UserModeKernel:
    """The cached kernel, else one that is made of the source of the one that `debian_uml` has.

    Raises:
        BackendError: a tool or a package is missing, or something does not compile.
    """
    release = debian_uml.obtain().release
    cache = cache_directory().parent / "timeless"
    cache.mkdir(parents=True, exist_ok=True)
    with debian_uml.locked(cache):
        if not (cache / release / "linux.uml").exists():
            with tempfile.TemporaryDirectory(dir=cache, prefix=".make-") as scratch:
                _build(release, Path(scratch)).rename(cache / release)
    return UserModeKernel(release=release, program=cache / release / "linux.uml")


def _build(release: str, scratch: Path) -> Path:
    source, root = debian_uml.unpack_source(release, scratch), scratch / "root"
    make_it = debian_uml.make_command(source, release)
    debian_uml.run_tool([*make_it, "defconfig"])
    with (source / ".config").open("a", encoding="utf-8") as configuration:
        configuration.write(options())
    debian_uml.run_tool([*make_it, "olddefconfig"])
    debian_uml.run_tool([*make_it, "vmlinux"])
    modules = root / "lib" / "modules" / release
    modules.mkdir(parents=True)
    # modprobe(8) finds in these that what it is asked for is there.
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copyfile(source / name, modules / name)
    (modules / "modules.order").touch()
    debian_uml.run_tool(["depmod", "--basedir", str(root), release])
    shutil.copy(source / "vmlinux", root / "linux.uml")
    return root
