"""A system extension of systemd: the bundle below /usr, as squashfs (systemd-sysext(8), os-release(5))."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from scripts.packages.bundle import set_modes
from scripts.talos_extension.errors import BuildError

ARCHITECTURES: Final = {"amd64": "x86-64", "arm64": "arm64"}
"""Debian's names and those of ConditionArchitecture=."""

# Only /usr is merged: a link in /etc that enables the unit would not be there on a node that merely has the image. The
# unit that prepares is upheld, and wants the daemon. A daemon that is upheld itself would be started again at once, and
# again, when its configuration is wrong, and when an operator stops it.
FILES: Final = {
    "usr/lib/systemd/system/multi-user.target.d/10-meshwatchd.conf": "[Unit]\nUpholds=meshwatchd-sysext.service\n",
    "usr/lib/systemd/system/meshwatchd.service.d/10-sysext.conf": (
        "[Unit]\nRequires=meshwatchd-sysext.service\nAfter=meshwatchd-sysext.service\n"
    ),
    "usr/lib/systemd/system/meshwatchd-sysext.service": (
        "# An image is merged after systemd-sysusers and systemd-tmpfiles have run.\n"
        "[Unit]\nDescription=User and folders of meshwatchd\nWants=meshwatchd.service\n\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\n"
        "ExecStart=systemd-sysusers meshwatchd.conf\n"
        "ExecStart=systemd-tmpfiles --create meshwatchd.conf\n"
    ),
}
PROTOCOLS: Final = "iproute2/rt_protos.d/meshwatchd.conf"
"""Below /etc, which is not merged; below /usr/share iproute2 looks from 6.7 on."""


def build(target: Path, tree: Path, *, architecture: str) -> None:
    """Wrap a bundle's tree, of which only /usr is taken, as an image named after the extension.

    Raises:
        BuildError: mksquashfs is missing, or has failed.
    """
    release = f"ID=_any\nARCHITECTURE={ARCHITECTURES[architecture]}\nEXTENSION_RELOAD_MANAGER=1\n"
    files = {**FILES, "usr/lib/extension-release.d/extension-release.meshwatchd": release}
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    if shutil.which("mksquashfs") is None:
        raise BuildError("lacking: mksquashfs; run: apt-get install squashfs-tools")
    protocols = tree / "usr/share" / PROTOCOLS
    protocols.parent.mkdir(parents=True)
    shutil.move(tree / "etc" / PROTOCOLS, protocols)
    shutil.rmtree(tree / "etc")
    set_modes(tree)
    target.unlink(missing_ok=True)
    command = [
        "mksquashfs",
        str(tree),
        str(target),
        "-all-root",
        "-quiet",
        "-no-progress",
        "-all-time",
        "0",
        "-mkfs-time",
        "0",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise BuildError(f"mksquashfs ended with {ran.returncode}: {ran.stderr.strip()}")
