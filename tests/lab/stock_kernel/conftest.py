"""Tests that need a kernel with WireGuard and IPIP of its own: the running one, or that of a guest.

Elsewhere they are not collected: tests/lab/test_stock_kernel.py boots a guest, and they run in there.
"""

from __future__ import annotations

import os

from netnslab.backends import BackendError, Needs, host

EVERYTHING = Needs(vxlan_external=True, ipip=True)


def _has_everything() -> bool:
    try:
        host.offer(EVERYTHING)
    except BackendError:
        return False
    return True


# Without root nothing can be tried; then collecting is harmless, as `-m "not lab"` deselects.
collect_ignore_glob = ["test_*.py"] if os.geteuid() == 0 and not _has_everything() else []
