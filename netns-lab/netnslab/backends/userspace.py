"""Backend `userspace`: the running kernel with wireguard-go in place of the kernel's WireGuard.

A topology that needs tunl0 gets it from the kernel, or from a process of ours where the kernel has no IPIP.
"""

from __future__ import annotations

from netnslab.backends.here import running_kernel
from netnslab.backends.model import Backend, BackendName, Needs, WireGuard
from netnslab.backends.probes import Capability


def offer(needs: Needs) -> Backend:
    """The running kernel and wireguard-go as a backend.

    Raises:
        BackendError: something is missing; says what.
    """
    return running_kernel(
        needs,
        name=BackendName.USERSPACE,
        wireguard=WireGuard.USERSPACE,
        capability=Capability.WIREGUARD_USERSPACE,
        reason="wireguard-go and /dev/net/tun work, the kernel does the rest",
        plays_ipip=True,
    )
