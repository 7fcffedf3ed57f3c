"""What `host` and `userspace` share: both build on the running kernel and differ in who plays WireGuard."""

from __future__ import annotations

from netnslab.backends.model import (
    Backend,
    BackendError,
    BackendName,
    Needs,
    WireGuard,
    first_failure,
    run_here,
)
from netnslab.backends.probes import Capability, examine


def running_kernel(
    needs: Needs, *, name: BackendName, wireguard: WireGuard, capability: Capability, reason: str
) -> Backend:
    """The running kernel as a backend.

    Args:
        needs: what the topology asks for.
        name: the backend to be.
        wireguard: who implements WireGuard.
        capability: what that takes.
        reason: what to tell when it is chosen.

    Raises:
        BackendError: something is missing; says what.
    """
    missing = first_failure([examine(each) for each in (capability, *needs.capabilities())])
    if missing is not None:
        raise BackendError(f"{missing.title}: {missing.evidence}")
    return Backend(
        name=name,
        wireguard=wireguard,
        has_ipip=examine(Capability.IPIP).works,
        has_netem=examine(Capability.NETEM).works,
        is_here=True,
        reason=reason,
        run=run_here,
    )
