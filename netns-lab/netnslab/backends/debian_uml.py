"""Debian's kernel as a program (user-mode-linux), in which computing takes no time.

The clock stands still while anything runs, and jumps when all wait (`time-travel=inf-cpu`). Six nodes on one machine
share its processors, so a gap in their traffic holds what daemons decide and what the machine is slow at; here each
node has a processor of its own that is infinitely fast, and what remains is decisions, timers and packets that are
lost. No other load of this machine is seen either. A minute of a bare mesh takes some seconds of this machine's, and
one with six daemons a minute or two.

Debian's package has neither that, nor WireGuard, nor the families of nftables. So a kernel is compiled of Debian's
source, with FEATURES and nothing else: 400 s of processor time, once.

    ~/.cache/netnslab/timeless-1c0ffee5/6.1.176/linux.uml
                                               /lib/modules/6.1.176/modules.builtin ...

A program that reads a clock again and again until a time has come makes it pass by some nanoseconds with each look.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from netnslab.backends.debian_kernel import cache_directory
from netnslab.backends.model import BackendError

ARGUMENTS: Final = ("time-travel=inf-cpu",)
"""Of the kernel's command line (arch/um/kernel/time.c)."""

GUEST_LIMIT_S: Final = 1_000_000
"""The guest's clock runs ahead of this machine's, whose limit is what ends a run."""

# Programs that the host needs, with the Debian packages that bring them.
TOOLS: Final = MappingProxyType(
    {
        "gcc": "build-essential",
        "make": "build-essential",
        "depmod": "kmod",
        "xz": "xz-utils",
        "busybox": "busybox-static",
        "flex": "flex",
        "bison": "bison",
        "bc": "bc",
    }
)

FEATURES: Final = """
64BIT EXPERT PRINTK BUG FUTEX EPOLL SIGNALFD TIMERFD EVENTFD SHMEM AIO ADVISE_SYSCALLS MEMBARRIER POSIX_TIMERS
HIGH_RES_TIMERS NO_HZ_IDLE MULTIUSER SYSVIPC POSIX_MQUEUE CROSS_MEMORY_ATTACH FHANDLE BINFMT_ELF BINFMT_SCRIPT TTY
UNIX98_PTYS STDERR_CONSOLE SECCOMP KEYS BLOCK INOTIFY_USER FILE_LOCKING BPF_SYSCALL CC_OPTIMIZE_FOR_PERFORMANCE
UML_TIME_TRAVEL_SUPPORT DEBUG_INFO_NONE
PROC_FS PROC_SYSCTL PROC_CHILDREN SYSFS TMPFS TMPFS_XATTR TMPFS_POSIX_ACL DEVTMPFS OVERLAY_FS HOSTFS AUTOFS_FS
NAMESPACES UTS_NS IPC_NS PID_NS USER_NS NET_NS CGROUPS CGROUP_PIDS CGROUP_FREEZER CGROUP_DEVICE CGROUP_CPUACCT
CGROUP_SCHED FAIR_GROUP_SCHED CGROUP_BPF MEMCG
CRYPTO CRYPTO_HMAC CRYPTO_SHA256 CRYPTO_USER_API_HASH
NET PACKET UNIX INET IPV6 NETDEVICES NET_CORE NETLINK_DIAG INET_DIAG INET_UDP_DIAG NET_UDP_TUNNEL LWTUNNEL
IP_ADVANCED_ROUTER IP_MULTIPLE_TABLES IPV6_MULTIPLE_TABLES IP_ROUTE_MULTIPATH NET_L3_MASTER_DEV NET_VRF
VETH VXLAN GENEVE TUN DUMMY BRIDGE BRIDGE_VLAN_FILTERING VLAN_8021Q WIREGUARD NET_IPIP NET_IPGRE_DEMUX NET_IPGRE
NET_SCHED NET_SCH_NETEM NET_SCH_INGRESS NET_SCH_TBF NET_SCH_PRIO NET_CLS_U32 NET_CLS_MATCHALL NET_CLS_ACT NET_ACT_GACT
NET_ACT_MIRRED NET_CLS_FLOWER NET_CLS_BPF
NETFILTER NETFILTER_ADVANCED NETFILTER_INGRESS NF_CONNTRACK NF_CONNTRACK_EVENTS NF_CT_NETLINK NF_NAT
NF_TABLES NF_TABLES_INET NF_TABLES_NETDEV NF_TABLES_IPV4 NF_TABLES_IPV6 NF_TABLES_ARP NFT_CT NFT_NAT NFT_MASQ NFT_REDIR
NFT_REJECT NFT_OBJREF NFT_LOG NFT_LIMIT NFT_NUMGEN NFT_HASH NFT_COMPAT NFT_FIB_INET NFT_FIB_IPV4 NFT_FIB_IPV6
NETFILTER_XTABLES NETFILTER_XT_MATCH_COMMENT NETFILTER_XT_MATCH_CONNTRACK NETFILTER_XT_MATCH_ADDRTYPE NETFILTER_XT_MARK
NETFILTER_XT_SET NETFILTER_XT_TARGET_MASQUERADE IP_NF_IPTABLES IP_NF_FILTER IP_NF_NAT IP_NF_TARGET_MASQUERADE
IP6_NF_IPTABLES IP6_NF_FILTER IP_SET IP_SET_HASH_IP IP_SET_HASH_NET
"""
"""What systemd, the lab, the daemon and Kilo's agent (iptables, ipset) need, and what these need; all is built in.

Whatever is not named is not in it: such as RAID6_PQ_BENCHMARK, which measures by a clock that stands still, for ever.
"""

# What takes most of the time to unpack and is not compiled: Kconfig and Makefiles are all that is read of it.
LEFT_OUT: Final = tuple(f"*/{folder}/*.{end}" for folder in ("drivers/gpu", "sound", "Documentation") for end in "chS")

TIMEOUT_S: Final = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class UserModeKernel:
    """A kernel that is a program; `modules` is of the kind that modprobe(8) finds in lib/modules/RELEASE."""

    release: str
    program: Path

    @property
    def modules(self) -> Path:
        """Where its modules are, indexed by depmod."""
        return self.program.parent / "lib" / "modules" / self.release


def missing() -> list[str]:
    """What keeps it from being made here, one remedy each; empty when nothing does, or when there is one already."""
    if cached() is not None:
        return []
    absent = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    problems = [f"apt-get install {' '.join(absent)}"] if absent else []
    if not all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb")):
        problems.append("use a system with apt: the kernel and its source are Debian's packages")
    return problems


def cached() -> UserModeKernel | None:
    """The kernel that was made last, if any."""
    programs = sorted(_cache().glob("[!.]*/linux.uml"), key=lambda program: program.stat().st_mtime)
    return next((_at(program) for program in reversed(programs)), None)


def obtain() -> UserModeKernel:
    """The newest cached one, else one that is fetched and made.

    Raises:
        BackendError: there is none and none can be had.
    """
    return cached() or make()


def make() -> UserModeKernel:
    """Compile the distribution's current one, into the cache.

    Raises:
        BackendError: a tool or a package is missing, or something does not compile.
    """
    if problems := missing():
        raise BackendError(f"a kernel as a program cannot be made: {'; '.join(problems)}")
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache), tempfile.TemporaryDirectory(dir=cache, prefix=".make-") as scratch:
        if (made := cached()) is not None:
            return made
        return _make(Path(scratch), cache)


def _cache() -> Path:
    """Another one where other options are wanted."""
    return cache_directory().parent / f"timeless-{sha256(options().encode()).hexdigest()[:8]}"


def _at(program: Path) -> UserModeKernel:
    return UserModeKernel(release=program.parent.name, program=program.resolve())


def options() -> str:
    """Lines of the kernel's configuration; all others are no."""
    return "".join(f"CONFIG_{name}=y\n" for name in FEATURES.split())


def absent_from(configuration: str) -> list[str]:
    """FEATURES that a kernel's configuration (`.config`) has not: misspelt, gone, or without what they depend on."""
    taken = set(configuration.splitlines())
    return [name for name in FEATURES.split() if f"CONFIG_{name}=y" not in taken]


def _make(scratch: Path, cache: Path) -> UserModeKernel:
    source, wanted, root = _unpack_source(scratch), scratch / "options", scratch / "root"
    wanted.write_text(options(), encoding="ascii")
    make_it = ["make", "-C", str(source), "ARCH=um", f"-j{os.cpu_count() or 1}", "-s"]
    release = _run_tool([*make_it, "kernelversion"]).strip()
    _run_tool([*make_it, f"KCONFIG_ALLCONFIG={wanted}", "allnoconfig"])
    if left_out := absent_from((source / ".config").read_text(encoding="utf-8")):
        raise BackendError(f"{source.name} {release} takes no such option: {' '.join(left_out)}; correct FEATURES")
    _run_tool([*make_it, "vmlinux"])
    modules = root / "lib" / "modules" / release
    modules.mkdir(parents=True)
    # modprobe(8) finds in these that what it is asked for is there.
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copyfile(source / name, modules / name)
    (modules / "modules.order").touch()
    _run_tool(["depmod", "--basedir", str(root), release])
    _run_tool(["strip", "-o", str(root / "linux.uml"), str(source / "vmlinux")])
    destination = cache / release
    shutil.rmtree(destination, ignore_errors=True)
    root.rename(destination)
    return _at(destination / "linux.uml")


def _unpack_source(scratch: Path) -> Path:
    """The source of the distribution's current kernel in a folder of `scratch`, but for what LEFT_OUT names."""
    package, source = _download(_source_package(), scratch), scratch / "source"
    source.mkdir()
    script = (
        'dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout --wildcards "./usr/src/linux-source-*.tar.xz" |'
        ' xz --decompress --threads=0 | tar --extract --strip-components=1 --directory="$2" --wildcards $3'
    )
    left_out = " ".join(f"--exclude={pattern}" for pattern in LEFT_OUT)
    _run_tool(["sh", "-efc", script, "sh", str(package), str(source), left_out])
    return source


def _source_package() -> str:
    """The package with the source of the current kernel, such as linux-source-6.1: what linux-source depends on."""
    ask = ["apt-cache", "depends", "linux-source"]
    try:
        told = _run_tool(ask)
    except BackendError:
        _run_tool(["apt-get", "update"])
        told = _run_tool(ask)
    return source_named(told)


def source_named(told: str) -> str:
    """The dependency that `apt-cache depends linux-source` tells.

    Raises:
        BackendError: there is none.
    """
    names = (word for word in told.split() if word.startswith("linux-source-"))
    if (name := next(names, None)) is None:
        raise BackendError(f"apt-cache depends linux-source: no package with a kernel's source in {told.strip()!r}")
    return name


def _download(package: str, directory: Path) -> Path:
    # apt would drop its privileges for the download and then be unable to write below /root.
    command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", package]
    try:
        _run_tool(command, directory)
    except BackendError:
        _run_tool(["apt-get", "update"])  # the lists may be older than the archive, which keeps only the current one
        _run_tool(command, directory)
    return next(directory.glob(f"{package}_*.deb"))


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One of those who make a kernel in this folder at a time."""
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run_tool(command: list[str], directory: Path | None = None) -> str:
    """What a program of TOOLS, of apt or of dpkg prints.

    Raises:
        BackendError: it failed, or took longer than TIMEOUT_S.
    """
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"{' '.join(command)}: no end within {TIMEOUT_S} s") from error
    if done.returncode != 0:
        raise BackendError(f"{' '.join(command)}: {done.stderr.strip()[-600:] or done.returncode}")
    return done.stdout
