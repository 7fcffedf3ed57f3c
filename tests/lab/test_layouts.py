"""By path alone: what packages install lies where the distributions that they are for look for it.

    Debian, Ubuntu   merged /usr; zsh looks in vendor-completions
    Fedora           merged /usr, and /usr/sbin is /usr/bin; zsh looks in site-functions
    any, merged      an extension of systemd has /usr alone; iproute2 from 6.7 on reads /usr/share/iproute2 as well

SELinux is not looked at: rpm labels what it installs by the policy of the machine; an image of squashfs has no labels.
"""

from __future__ import annotations

import subprocess

import pytest

from scripts.packages.__main__ import BUILD, version
from scripts.talos_extension import elf

HOME, DOCUMENTS, SETTINGS = "/usr/lib/meshwatchd", "/usr/share/doc/meshwatchd", "/etc/meshwatchd/meshwatchd.toml"
"""What is the daemon's own with all that is in it, and its configuration."""
EVERYWHERE = {
    "/usr/bin/meshwatchctl",
    "/usr/bin/meshwatchd",
    "/usr/lib/systemd/network/10-meshwatchd.network",
    "/usr/lib/systemd/system/meshwatchd.service",
    "/usr/lib/sysusers.d/meshwatchd.conf",
    "/usr/lib/tmpfiles.d/meshwatchd.conf",
    "/usr/lib/udev/rules.d/70-meshwatchd.rules",
    "/usr/share/bash-completion/completions/meshwatchctl",
    "/usr/share/fish/vendor_completions.d/meshwatchctl.fish",
    "/usr/share/man/man1/meshwatchctl.1.gz",
    "/usr/share/man/man8/meshwatchd.8.gz",
}
ZSH_OF_DEBIAN = "/usr/share/zsh/vendor-completions/_meshwatchctl"
ZSH = "/usr/share/zsh/site-functions/_meshwatchctl"
PROTOCOLS = "iproute2/rt_protos.d/meshwatchd.conf"
LAYOUTS = {
    "deb": {SETTINGS, f"/etc/{PROTOCOLS}", ZSH_OF_DEBIAN, "/usr/share/lintian/overrides/meshwatchd"},
    "rpm": {SETTINGS, f"/etc/{PROTOCOLS}", ZSH},
    "sysext": {
        *(ZSH, ZSH_OF_DEBIAN, f"/usr/share/{PROTOCOLS}"),
        "/usr/lib/extension-release.d/extension-release.meshwatchd",
        "/usr/lib/systemd/system/meshwatchd-sysext.service",
        "/usr/lib/systemd/system/meshwatchd.service.d/10-sysext.conf",
        "/usr/lib/systemd/system/multi-user.target.d/10-meshwatchd.conf",
    },
}
LISTING = {
    "deb": "dpkg-deb --fsys-tarfile {} | tar --list | sed 's/^\\.//'",
    "rpm": "rpm --dbpath $(dirname {0})/database --query --package --list {0}",
    "sysext": "unsquashfs -l {} | sed -n 's/^squashfs-root//p'",
}
LOADERS = {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}
"""Where every distribution with a C library of GNU has its loader."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_file_lies_where_its_reader_looks(host_packages, kind):
    """None is elsewhere, and the daemon's own are in folders of their own."""
    command = LISTING[kind].format(host_packages[kind])
    said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    paths = {line.rstrip("/") for line in said.splitlines()}
    folders = {path.rpartition("/")[0] for path in paths}
    others = {path for path in paths - folders if not path.startswith((f"{HOME}/", f"{DOCUMENTS}/"))}

    assert EVERYWHERE | LAYOUTS[kind] == others
    assert f"{HOME}/versions/{version()}/bin/meshwatchd" in paths
    assert f"{DOCUMENTS}/README.md" in paths


@pytest.mark.timeout(900)
def test_the_interpreter_is_loaded_by_every_distribution(host_packages):
    """By a loader that the standard of each architecture puts in one place; /lib and /lib64 lead below /usr."""
    assert host_packages
    needs = elf.read_needs(BUILD / f"bundle{HOME}/versions/{version()}/python/usr/bin/python3")

    assert needs is not None
    assert needs.interpreter in LOADERS
