"""A Debian package: the bundle, scripts for its steps, and what Debian's policy wants beside them."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Final

from scripts.packages.bundle import CHECKOUT, CONFIGURATION, set_modes
from scripts.talos_extension.errors import BuildError

SCRIPTS: Final = ("postinst", "prerm", "postrm")

CONTROL: Final = """\
Package: meshwatchd
Version: {version}
Architecture: {architecture}
Maintainer: The meshwatchd authors <meshwatchd@localhost>
Installed-Size: {size_kib}
Depends: libc6 (>= {libc}), passwd
Suggests: wireguard-tools
Section: net
Priority: optional
Description: finds, names and heals partial failures of site-to-site meshes
 meshwatchd runs on every node of a mesh of WireGuard and VXLAN. It probes each
 layer with flows that are really new, names the lowest one that is broken, and
 moves traffic to a standby path that was proven good beforehand.
 .
 The package brings its own Python interpreter and libraries.
"""
COPYRIGHT: Final = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: meshwatchd

Files: *
Copyright: 2026 The meshwatchd authors
License: Apache-2.0
 On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.
 The licences of the interpreter and the libraries are beside this file, those
 of Python packages in the dist-info folders of /usr/lib/meshwatchd.
"""
CHANGELOG: Final = """\
meshwatchd ({version}) unstable; urgency=medium

  * See CHANGELOG.md beside this file.

 -- The meshwatchd authors <meshwatchd@localhost>  Thu, 01 Jan 1970 00:00:00 +0000
"""


def build(target: Path, tree: Path, *, version: str, architecture: str, libc: str) -> None:
    """Wrap a bundle's tree, which is added to, as a package.

    Raises:
        BuildError: dpkg-deb has failed.
    """
    documents = tree / "usr/share/doc/meshwatchd"
    (documents / "copyright").write_text(COPYRIGHT, encoding="ascii")
    (documents / "LICENSE").unlink()
    changelog = gzip.compress(CHANGELOG.format(version=version).encode(), mtime=0)
    (documents / "changelog.gz").write_bytes(changelog)
    # Where zsh looks on other distributions.
    shutil.rmtree(tree / "usr/share/zsh/site-functions")
    overrides = tree / "usr/share/lintian/overrides/meshwatchd"
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(CHECKOUT / "debian/lintian-overrides", overrides)
    set_modes(tree)
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    control = tree / "DEBIAN"
    control.mkdir()
    size_kib = sum(-(-path.stat().st_size // 1024) for path in files)
    fields = {"version": version, "architecture": architecture, "size_kib": size_kib, "libc": libc}
    (control / "control").write_text(CONTROL.format(**fields), encoding="ascii")
    (control / "conffiles").write_text("".join(f"{each}\n" for each in CONFIGURATION), encoding="ascii")
    sums = (
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {path.relative_to(tree)}"
        for path in files
    )
    (control / "md5sums").write_text("".join(f"{line}\n" for line in sums), encoding="utf-8")
    for name in SCRIPTS:
        shutil.copyfile(CHECKOUT / "debian" / name, control / name)
        (control / name).chmod(0o755)
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(target)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise BuildError(f"dpkg-deb ended with {ran.returncode}: {ran.stderr.strip()}")
