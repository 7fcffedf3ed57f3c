"""What `host` and `userspace` share: both build on the running kernel and differ in who plays WireGuard."""

from __future__ import annotations

from dataclasses import replace

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
    needs: Needs,
    *,
    name: BackendName,
    wireguard: WireGuard,
    capability: Capability,
    reason: str,
    plays_ipip: bool = False,
) -> Backend:
    """The running kernel as a backend.

    Args:
        needs: what the topology asks for.
        name: the backend to be.
        wireguard: who implements WireGuard.
        capability: what that takes.
        reason: what to tell when it is chosen.
        plays_ipip: a process stands in for a kernel without IPIP.

    Raises:
        BackendError: something is missing; says what.
    """
    has_ipip = examine(Capability.IPIP).works
    is_played = plays_ipip and needs.ipip and not has_ipip
    needed = replace(needs, ipip=needs.ipip and not is_played)
    missing = first_failure([examine(each) for each in (capability, *needed.capabilities())])
    if missing is not None:
        raise BackendError(f"{missing.title}: {missing.evidence}")
    return Backend(
        name=name,
        wireguard=wireguard,
        has_ipip=has_ipip or is_played,
        has_netem=examine(Capability.NETEM).works,
        is_here=True,
        reason=reason,
        run=run_here,
        plays_ipip=is_played,
    )
