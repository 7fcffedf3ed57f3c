"""A stock distribution kernel for the vm backend, unpacked from its package and never installed.

Installing a kernel package runs hooks that touch the boot loader and the initramfs of the machine. The
package is only downloaded (apt verifies it), and what the lab needs of it is unpacked into a cache:

    ~/.cache/netnslab/kernel/6.1.0-56-amd64/boot/vmlinuz-6.1.0-56-amd64
                                           /lib/modules/6.1.0-56-amd64/...

`python -m netnslab.backends kernel` fills the cache and prints the image.
"""

from __future__ import annotations

import copy
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from netnslab.backends.model import BackendError

# The metapackages that depend on the current kernel: Debian's, then Ubuntu's. {arch} is dpkg's word.
METAPACKAGES = ("linux-image-{arch}", "linux-image-generic")

# linux-image-6.1.0-56-amd64; Ubuntu keeps the modules in linux-modules-* and linux-modules-extra-*.
_KERNEL_PACKAGE = re.compile(r"linux-(?:image|modules|modules-extra)-\d[^\s,|()]*")

# Of 400 MB of modules a network lab can use 60: no sound, no graphics, no physical network cards.
_MODULES_KEPT = re.compile(
    r"modules\.[a-z.]+"
    r"|kernel/(?:arch|crypto|lib|net)/.*"
    r"|kernel/fs/(?:9p|fscache|fuse|netfs|overlayfs)/.*"
    r"|kernel/drivers/(?:virtio|net/wireguard|net/vxlan)/.*"
    r"|kernel/drivers/(?:net|char|block)/[^/]*"
)

APT_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelImage:
    """A bootable kernel: `image` in ROOT/boot, its modules in ROOT/lib/modules/RELEASE."""

    release: str
    image: Path

    @property
    def modules(self) -> Path:
        """Where its modules are, indexed by depmod."""
        return self.image.parent.parent / "lib" / "modules" / self.release


def obtain() -> KernelImage:
    """The kernel to boot: $NETNSLAB_KERNEL, else the newest cached one, else a fresh download.

    Raises:
        BackendError: there is none and none can be had.
    """
    chosen = os.environ.get("NETNSLAB_KERNEL")
    if chosen:
        return _chosen(Path(chosen))
    return cached() or fetch()


def cached() -> KernelImage | None:
    """The kernel fetched last, if any."""
    images = sorted(cache_directory().glob("[!.]*/boot/vmlinuz-*"), key=lambda image: image.stat().st_mtime)
    kernels = map(_at, reversed(images))
    return next((kernel for kernel in kernels if _is_complete(kernel)), None)


def cache_directory() -> Path:
    """Where kernels are kept: below $XDG_CACHE_HOME, or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netnslab" / "kernel"


def can_fetch() -> bool:
    """True where packages of Debian's kind can be downloaded and unpacked."""
    return all(shutil.which(tool) for tool in ("apt-get", "apt-cache", "dpkg", "dpkg-deb", "depmod"))


def fetch() -> KernelImage:
    """Download the distribution's current kernel into the cache.

    Raises:
        BackendError: no such package, no network, or no apt.
    """
    if not can_fetch():
        raise BackendError(
            "a kernel for the guest is fetched with apt-get, dpkg-deb and depmod (Debian packages apt, dpkg, "
            "kmod), and some are missing; set NETNSLAB_KERNEL to a .../boot/vmlinuz-RELEASE with its modules "
            "in .../lib/modules/RELEASE"
        )
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache), tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as scratch:
        packages = _resolve() or (_update() and _resolve())
        if not packages:
            raise BackendError(f"apt knows none of {', '.join(_metapackages())}")
        print(f"netnslab: fetching {' '.join(packages)} (once, about 70 MB)", file=sys.stderr)
        archives = _download(packages, Path(scratch))
        return _unpack(archives, Path(scratch) / "root", cache)


def _at(image: Path) -> KernelImage:
    return KernelImage(release=image.name.removeprefix("vmlinuz-"), image=image.resolve())


def _is_complete(kernel: KernelImage) -> bool:
    return kernel.image.is_file() and (kernel.modules / "modules.dep").is_file()


def _chosen(image: Path) -> KernelImage:
    kernel = _at(image)
    if not _is_complete(kernel):
        raise BackendError(
            f"NETNSLAB_KERNEL={image} is no kernel image with its modules, indexed by depmod, in {kernel.modules}"
        )
    return kernel


def _metapackages() -> tuple[str, ...]:
    architecture = _run(["dpkg", "--print-architecture"]).strip()
    return tuple(name.format(arch=architecture) for name in METAPACKAGES)


def _resolve() -> list[str]:
    for metapackage in _metapackages():
        named = _dependencies(metapackage)
        for package in list(named):
            named += [further for further in _dependencies(package) if further not in named]
        if named:
            return named
    return []


def _dependencies(package: str) -> list[str]:
    shown = subprocess.run(
        ["apt-cache", "show", "--no-all-versions", package], capture_output=True, text=True, check=False
    )
    depends = [line for line in shown.stdout.splitlines() if line.startswith("Depends:")]
    return list(dict.fromkeys(_KERNEL_PACKAGE.findall(" ".join(depends))))


def _update() -> bool:
    _run(["apt-get", "update"])
    return True


def _download(packages: list[str], directory: Path) -> list[Path]:
    # apt would drop its privileges for the download and then be unable to write below /root.
    command = ["apt-get", "-o", "APT::Sandbox::User=root", "download", *packages]
    try:
        _run(command, directory)
    except BackendError:
        _update()  # the lists may be older than the archive, which keeps only the current kernel
        _run(command, directory)
    return sorted(directory.glob("*.deb"))


def _unpack(archives: list[Path], root: Path, cache: Path) -> KernelImage:
    root.mkdir()
    for archive in archives:
        with (
            subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as unpacker,
            tarfile.open(fileobj=cast("IO[bytes]", unpacker.stdout), mode="r|") as contents,
        ):
            # Debian 12's Python, 3.11.2, knows no filters.
            contents.extraction_filter = getattr(tarfile, "data_filter", None)
            contents.extractall(root, members=_wanted(contents))  # noqa: S202 - signed by Debian
    image = next((root / "boot").glob("vmlinuz-*"), None)
    if image is None:
        raise BackendError(f"no kernel image in {', '.join(archive.name for archive in archives)}")
    release = image.name.removeprefix("vmlinuz-")
    _run(["depmod", "--basedir", str(root), release])
    image.touch()  # "newest" means fetched last, whatever date the archive carries
    destination = cache / release
    if destination.exists():
        shutil.rmtree(destination)
    root.rename(destination)
    return _at(destination / "boot" / image.name)


def _wanted(contents: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in contents:
        # Since trixie everything is below usr/; kmod and virtme look in lib/modules.
        path = PurePosixPath(member.name.removeprefix("./").removeprefix("usr/"))
        is_image = path.parts[:1] == ("boot",) and path.name.startswith("vmlinuz-")
        is_module = path.parts[:2] == ("lib", "modules") and _MODULES_KEPT.fullmatch("/".join(path.parts[3:]))
        if member.isfile() and (is_image or is_module):
            # TarInfo.replace came with Python 3.11.4, and Debian 12 has 3.11.2.
            unpacked = copy.copy(member)
            unpacked.name = str(path)
            yield unpacked


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], directory: Path | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            timeout=APT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"{' '.join(command)}: no end within {APT_TIMEOUT_S} s") from error
    if done.returncode != 0:
        complaint = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise BackendError(f"{' '.join(command)}: {' '.join(complaint) or done.returncode}")
    return done.stdout
