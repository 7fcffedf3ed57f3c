"""Tests that need a kernel with WireGuard and IPIP of its own: the running one, or that of a guest.

Elsewhere they are not collected: tests/lab/test_stock_kernel.py boots a guest, and they run in there. The machine
with systemd is for that guest alone: where the running kernel has WireGuard, tests/lab/test_systemd_mesh.py is on it.
"""

from __future__ import annotations

import os

from netnslab.backends import BackendError, Needs, host
from tests.support import guest_machines

EVERYTHING = Needs(vxlan_external=True, ipip=True)


def _has_everything() -> bool:
    try:
        host.offer(EVERYTHING)
    except BackendError:
        return False
    return True


# Without root nothing can be tried; then collecting is harmless, as `-m "not lab"` deselects.
collect_ignore_glob = ["test_*.py"] if os.geteuid() == 0 and not _has_everything() else []
collect_ignore: list[str] = [] if guest_machines.are_there() else ["test_systemd_units.py"]
