"""Backend `host`: the running kernel, when it has everything itself.

Inside a guest of the vm backend the running kernel is the guest's, and the same judgement applies to it.
"""

from __future__ import annotations

from netnslab.backends.guest import in_guest
from netnslab.backends.here import running_kernel
from netnslab.backends.model import Backend, BackendName, Needs, WireGuard
from netnslab.backends.probes import Capability


def offer(needs: Needs) -> Backend:
    """The running kernel as a backend.

    Raises:
        BackendError: something is missing; says what.
    """
    return running_kernel(
        needs,
        name=BackendName.VM if in_guest() else BackendName.HOST,
        wireguard=WireGuard.KERNEL,
        capability=Capability.WIREGUARD_KERNEL,
        reason="the running kernel has WireGuard and all the topology needs",
    )
