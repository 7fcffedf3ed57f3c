"""Debian's kernel as a program (user-mode-linux), with the modules that the package leaves out built from its source.

The package has neither WireGuard nor the families of nftables, which the lab cannot do without. Both are modules, and
so is all that they need: they are compiled from Debian's source of that version with the package's own configuration
and the few lines of MORE, in 80 s of processor time. The kernel itself is Debian's, as it is.

    ~/.cache/netnslab/uml/6.1.176/linux.uml
                                 /lib/modules/6.1.176/...
"""

from __future__ import annotations

import fcntl
import gzip
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from netnslab.backends.debian_kernel import cache_directory
from netnslab.backends.model import BackendError

PROGRAM_PACKAGE: Final = "user-mode-linux"

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

MORE: Final = """\
CONFIG_NF_TABLES_INET=y
CONFIG_NF_TABLES_NETDEV=y
CONFIG_NF_TABLES_IPV4=y
CONFIG_NF_TABLES_IPV6=y
CONFIG_NF_TABLES_ARP=y
CONFIG_NFT_NAT=m
CONFIG_WIREGUARD=m
CONFIG_DEBUG_INFO_NONE=y
"""
# What MORE adds, and those modules of the package that are others with it.
MODULES: Final = (
    *(f"net/netfilter/{name}.ko" for name in ("nf_tables", "nf_nat", "nf_conntrack", "nft_chain_nat", "nft_nat")),
    *(f"net/netfilter/{name}.ko" for name in ("nft_ct", "nft_masq", "nft_redir", "nft_reject", "nft_reject_inet")),
    *(f"lib/crypto/lib{name}.ko" for name in ("chacha", "poly1305", "chacha20poly1305")),
    *(f"lib/crypto/lib{name}.ko" for name in ("curve25519-generic", "curve25519")),
    "drivers/net/wireguard/wireguard.ko",
)
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
    """Fetch the distribution's current one and build what it lacks, into the cache.

    Raises:
        BackendError: a tool or a package is missing, or something does not compile.
    """
    if problems := missing():
        raise BackendError(f"a kernel as a program cannot be made: {'; '.join(problems)}")
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache), tempfile.TemporaryDirectory(dir=cache, prefix=".make-") as scratch:
        if (made := cached()) is not None:
            return made
        return _make(Path(scratch), cache)


def _cache() -> Path:
    return cache_directory().parent / "uml"


def _at(program: Path) -> UserModeKernel:
    return UserModeKernel(release=program.parent.name, program=program.resolve())


def _make(scratch: Path, cache: Path) -> UserModeKernel:
    package = _download(PROGRAM_PACKAGE, scratch)
    run_tool(["dpkg-deb", "--extract", str(package), str(scratch / "package")])
    modules = next((scratch / "package/usr/lib/uml/modules").iterdir())
    release = modules.name
    source = unpack_source(release, scratch)
    configuration = gzip.decompress((scratch / "package/usr/share/doc/user-mode-linux/config.gz").read_bytes())
    (source / ".config").write_bytes(configuration + MORE.encode())
    root = scratch / "root"
    _build(source, release)
    target = root / "lib/modules" / release
    shutil.copytree(modules, target)
    for module in MODULES:
        (target / "kernel" / module).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / module, target / "kernel" / module)
    run_tool(["depmod", "--basedir", str(root), release])
    shutil.copy(scratch / "package/usr/bin/linux.uml", root / "linux.uml")
    (root / "linux.uml").touch()
    destination = cache / release
    shutil.rmtree(destination, ignore_errors=True)
    root.rename(destination)
    return _at(destination / "linux.uml")


def unpack_source(release: str, scratch: Path) -> Path:
    """The kernel's source in a folder of `scratch`, but for what LEFT_OUT names."""
    name = source_package(release)
    package, source = _download(name, scratch), scratch / "source"
    source.mkdir()
    script = (
        f'dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout ./usr/src/{name}.tar.xz |'
        ' xz --decompress --threads=0 | tar --extract --strip-components=1 --directory="$2" --wildcards $3'
    )
    left_out = " ".join(f"--exclude={pattern}" for pattern in LEFT_OUT)
    run_tool(["sh", "-efc", script, "sh", str(package), str(source), left_out])
    return source


def _build(source: Path, release: str) -> None:
    make_it = make_command(source, release)
    # There is no list of the kernel's own symbols to check against; loading is what does that.
    (source / "Module.symvers").touch()
    make_it.append("KBUILD_MODPOST_WARN=1")
    run_tool([*make_it, "olddefconfig"])
    run_tool([*make_it, "modules_prepare"])
    run_tool([*make_it, *MODULES])


def make_command(source: Path, release: str) -> list[str]:
    """make(1) in a kernel's source, for a kernel that is a program."""
    # Of the same version even where one of the packages is a little older: the first three numbers are the module's ABI
    # as the kernel checks it.
    _, _, sublevel = release.split(".")
    return ["make", "-C", str(source), "ARCH=um", f"SUBLEVEL={sublevel}", f"-j{os.cpu_count() or 1}", "-s"]


def source_package(release: str) -> str:
    """The package with the source of a kernel such as 6.1.176."""
    return "linux-source-" + ".".join(release.split(".")[:2])


def _download(package: str, directory: Path) -> Path:
    # apt would drop its privileges for the download and then be unable to write below /root.
    command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", package]
    try:
        run_tool(command, directory)
    except BackendError:
        run_tool(["apt-get", "update"])  # the lists may be older than the archive, which keeps only the current one
        run_tool(command, directory)
    return next(directory.glob(f"{package}_*.deb"))


@contextmanager
def locked(cache: Path) -> Iterator[None]:
    """One of those who make a kernel in this folder at a time."""
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_tool(command: list[str], directory: Path | None = None) -> None:
    """Run a program of TOOLS, of apt or of dpkg.

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
