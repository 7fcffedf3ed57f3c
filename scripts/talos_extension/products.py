"""What a root is made for: the daemon, or what tells Kubernetes of the mesh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_LOCKED: Final = _CHECKOUT / "requirements"
_COMMON_FILES: Final = {
    "etc/group": "root:x:0:\n",
    "etc/hosts": "",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/passwd": "root:x:0:0:root:/:/\n",
    "etc/resolv.conf": "",
}
_COMMON_LINKS: Final = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "var/run": "../run"}

NOBODY: Final = 65534
"""Of the user that owns nothing, in Debian and in images that have no other one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One program with all that its root holds beside the interpreter.

    Attributes:
        name: of its distribution.
        packages: the distributions out of this checkout, and the package of each, whose modules are all imported once.
        requirements: the lock files.
        commands: the module of each, whose main() it calls.
        folders: where something is mounted.
        files: their text.
        links: where they lead.
    """

    name: str
    packages: Mapping[str, str]
    requirements: tuple[Path, ...]
    commands: Mapping[str, str]
    folders: tuple[str, ...]
    files: Mapping[str, str]
    links: Mapping[str, str]


DAEMON: Final = Product(
    name="meshwatchd",
    packages={"meshwatchd": "meshwatchd"},
    requirements=(_LOCKED / "runtime.txt",),
    commands={"meshwatchd": "meshwatchd.runtime.main", "meshwatchctl": "meshwatchd.cli.main"},
    folders=(
        *("dev", "etc/meshwatchd/given", "proc", "run/cilium", "run/flannel", "run/meshwatchd", "sys", "tmp"),
        "var/lib/meshwatchd",
    ),
    files={**_COMMON_FILES, "etc/meshwatchd/meshwatchd.toml": ""},
    links={
        **_COMMON_LINKS,
        # Process 1 copies the keys (meshwatchd.runtime.container).
        "etc/meshwatchd/mesh.key": "/run/keys/mesh.key",
        "etc/meshwatchd/accepted.key": "/run/keys/accepted.key",
        "etc/meshwatchd/stamp.key": "/run/keys/stamp.key",
    },
)
KUBE: Final = Product(
    name="meshwatchd-kube",
    # It asks the daemon with the daemon's own modules.
    packages={"meshwatchd": "meshwatchd", "meshwatchd-kube": "meshwatchkube"},
    requirements=(_LOCKED / "runtime.txt", _LOCKED / "kube.txt"),
    commands={"meshwatchd-kube": "meshwatchkube.main"},
    folders=("dev", "etc/meshwatchd/kube", "proc", "run/meshwatchd", "sys", "tmp", "var"),
    files={
        **_COMMON_FILES,
        "etc/group": f"root:x:0:\nnogroup:x:{NOBODY}:\n",
        "etc/passwd": f"root:x:0:0:root:/:/\nnobody:x:{NOBODY}:{NOBODY}:nobody:/:/\n",
        "etc/meshwatchd/kube.toml": (_CHECKOUT / "kube" / "kube.toml").read_text(encoding="utf-8"),
    },
    links=_COMMON_LINKS,
)
