"""The kernels a lab can be built on.

    host       the running kernel, when it has WireGuard and all else itself
    userspace  the running kernel, with wireguard-go instead of its WireGuard
    vm         a stock Debian kernel in QEMU (virtme-ng), no hardware virtualisation needed

`choose()` finds out what works by trying it: see `probes`. The first two are here, in this process.
The third is elsewhere: the guest sees the machine's files, copy-on-write, under another kernel, and
whole commands are run in it (`run_in_guest`); inside, the same code finds a kernel that has everything.
"""

from __future__ import annotations

from netnslab.backends.auto import NAMES, choose, choose_here
from netnslab.backends.guest import in_guest
from netnslab.backends.model import Backend, BackendError, BackendName, Needs, WireGuard
from netnslab.backends.qemu import GuestRun
from netnslab.backends.vm import run_in_guest

__all__ = [
    "NAMES",
    "Backend",
    "BackendError",
    "BackendName",
    "GuestRun",
    "Needs",
    "WireGuard",
    "choose",
    "choose_here",
    "in_guest",
    "run_in_guest",
]
