"""A package for Fedora and its kin: the bundle, a spec of which rpmbuild makes it, and scripts for its steps."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.packages.bundle import CHECKOUT, CONFIGURATION, set_modes
from scripts.talos_extension.errors import BuildError

ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""Debian's names and rpm's."""
RELEASE: Final = "1"
SCRIPTS: Final = ("post", "preun", "postun", "posttrans")
WHOLE: Final = ("/usr/lib/meshwatchd", "/usr/share/doc/meshwatchd")
"""Folders that are the package's with all that is in them."""

OTHERS: Final = frozenset(
    {
        *("/etc", "/usr", "/usr/bin", "/usr/lib", "/usr/share", "/usr/share/doc"),
        *("/usr/share/man", "/usr/share/man/man1", "/usr/share/man/man8"),
        *("/usr/lib/systemd", "/usr/lib/systemd/network", "/usr/lib/systemd/system", "/usr/lib/sysusers.d"),
        *("/usr/lib/tmpfiles.d", "/usr/lib/udev", "/usr/lib/udev/rules.d"),
    }
)
"""Folders of the packages filesystem and systemd; an empty one of any other goes with the last package that has it."""

# No dependencies are looked for: the bundle's libraries are nobody else's, and nobody else's are the bundle's. rpmbuild
# strips, compiles and compresses nothing: the bundle is as its other packages have it.
SPEC: Final = """\
%define debug_package %{{nil}}
%define __os_install_post %{{nil}}
%define _build_id_links none
%define _binary_payload w9.zstdio
Name: meshwatchd
Version: {version}
Release: {release}
Summary: Finds, names and heals partial failures of site-to-site meshes
License: Apache-2.0
Packager: The meshwatchd authors <meshwatchd@localhost>
URL: https://localhost/meshwatchd
AutoReqProv: no
Requires: glibc >= {libc}
Requires: systemd
Requires: (shadow-utils or shadow)
Requires(post): systemd
Requires(postun): (shadow-utils or shadow)

%description
meshwatchd runs on every node of a mesh of WireGuard and VXLAN. It probes each
layer with flows that are really new, names the lowest one that is broken, and
moves traffic to a standby path that was proven good beforehand.

The package brings its own Python interpreter and libraries.

%install
cp -a '{tree}/.' %{{buildroot}}

{scripts}
%files
%defattr(-, root, root, -)
{files}

%changelog
* Thu Jan 01 2026 The meshwatchd authors <meshwatchd@localhost> - {version}-{release}
- See CHANGELOG.md in /usr/share/doc/meshwatchd.
"""


def file_name(version: str, architecture: str) -> str:
    """As rpm names its files; the architecture is Debian's word."""
    return f"meshwatchd-{version}-{RELEASE}.{ARCHITECTURES[architecture]}.rpm"


def build(target: Path, tree: Path, *, version: str, architecture: str, libc: str) -> None:
    """Wrap a bundle's tree as a package.

    Raises:
        BuildError: rpmbuild is missing, or has failed.
    """
    if shutil.which("rpmbuild") is None:
        raise BuildError("lacking: rpmbuild; run: apt-get install rpm")
    # Where Debian's zsh looks.
    shutil.rmtree(tree / "usr/share/zsh/vendor-completions", ignore_errors=True)
    set_modes(tree)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        scratch = Path(name)
        spec = scratch / "meshwatchd.spec"
        fields = {"version": version, "release": RELEASE, "libc": libc, "tree": tree, "scripts": _scripts()}
        spec.write_text(SPEC.format(**fields, files="\n".join(_files(tree))), encoding="utf-8")
        defines = {"_topdir": scratch, "_rpmdir": scratch, "_dbpath": scratch / "database", "_rpmfilename": "made.rpm"}
        defined = [word for key, value in defines.items() for word in ("--define", f"{key} {value}")]
        command = ["rpmbuild", *defined, "--target", f"{ARCHITECTURES[architecture]}-linux", "-bb", str(spec)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise BuildError(f"rpmbuild ended with {ran.returncode}: {ran.stderr.strip()}")
        (scratch / "made.rpm").replace(target)


def _scripts() -> str:
    return "\n".join(f"%{name}\n{(CHECKOUT / 'rpm' / name).read_text(encoding='utf-8')}" for name in SCRIPTS)


def _files(tree: Path) -> Iterator[str]:
    """Lines of %files: what is whole, and what lies in folders of others one by one."""
    yield from WHOLE
    for path in sorted(tree.rglob("*")):
        place = f"/{path.relative_to(tree)}"
        if place.startswith(tuple(f"{folder}/" for folder in WHOLE)) or place in (*WHOLE, *OTHERS):
            continue
        is_folder = path.is_dir() and not path.is_symlink()
        yield f"{'%dir ' if is_folder else '%config(noreplace) ' if place in CONFIGURATION else ''}{place}"
