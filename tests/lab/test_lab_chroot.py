"""A lab in a chroot, as in a root of debootstrap: nodes see that root, and the machine's mounts stay as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.meta.tree import ROOT

pytestmark = pytest.mark.lab

SPACES = 8
"""With one space alone a kernel that numbers namespaces by CPU refuses none by chance."""

PROGRAM = f"""
import subprocess, sys
from pathlib import Path
from netnslab.namespaces import NODE_KINDS, Space, create, isolate_mounts, make_pin_directory

pins = Path("/run/pins")
make_pin_directory(pins)
for number in range({SPACES}):
    space = Space(name=f"n{{number}}", directory=pins, kinds=NODE_KINDS)
    create(space, lambda: isolate_mounts(pins, [Path("/run/own")]))
    space.call(lambda: Path("/run/own/written").touch())
    listing = subprocess.run(space.command(["ls", "/", "/run/own"]), capture_output=True, text=True, check=True).stdout
    assert "this-root" in listing and "written" in listing, listing
assert not Path("/run/own/written").exists()
"""

ENTER = """
mount --make-rprivate /
for tree in usr proc sys dev run; do mkdir -p "$0/$tree"; done
for link in bin sbin lib lib64; do [ ! -L /$link ] || ln -s "$(readlink /$link)" "$0/$link"; done
mount --rbind /usr "$0/usr"
for tree in proc sys dev; do mount --rbind /$tree "$0/$tree"; done
for tree in "$1" "$2" "$3"; do mkdir -p "$0$tree"; mount --rbind "$tree" "$0$tree"; done
mount -t tmpfs run "$0/run"
mkdir "$0/run/own"
touch "$0/this-root"
PYTHONPATH=$2/netns-lab exec chroot "$0" "$1/bin/python" -c "$4"
"""


def test_nodes_see_the_root_of_the_chroot(tmp_path):
    """A chroot's root is no mount point, and entering a mount namespace leads out of it: both are seen to."""
    root = tmp_path / "root"
    root.mkdir()
    base = Path(sys.base_prefix).resolve()
    command = ["unshare", "--mount", "sh", "-euc", ENTER, str(root), sys.prefix, str(ROOT), str(base), PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert 0 == done.returncode, done.stderr
    assert str(root) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")
