"""Which backend a lab gets."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MappingProxyType

from netnslab.backends import host, userspace, vm
from netnslab.backends.guest import in_guest
from netnslab.backends.model import AUTO, Backend, BackendError, BackendName, Needs

OFFERS: MappingProxyType[BackendName, Callable[[Needs], Backend]] = MappingProxyType(
    {BackendName.HOST: host.offer, BackendName.USERSPACE: userspace.offer, BackendName.VM: vm.offer}
)
"""Every backend's own judgement, in the order `auto` asks for it."""

NAMES = (AUTO, *BackendName)


def choose(name: str, topology_needs: Needs) -> Backend:
    """Pick the backend of that name; `auto` picks the first that works and prints which and why.

    `userspace` comes before `vm` because it is twenty times faster where it suffices.

    Raises:
        BackendError: the name is unknown, or that backend (for `auto`: none) can do what is needed.
    """
    if name == AUTO:
        return _first(topology_needs)
    if name not in NAMES:
        raise BackendError(f"there is no backend {name!r}; there are {', '.join(NAMES)}")
    try:
        return OFFERS[BackendName(name)](topology_needs)
    except BackendError as refusal:
        raise BackendError(f"the backend {name} cannot be used: {refusal}") from refusal


def choose_here(name: str, topology_needs: Needs) -> Backend:
    """As `choose`, but the lab must be buildable in this very process.

    Raises:
        BackendError: also when the choice is `vm` and this process is not in its guest; names the way in.
    """
    backend = choose(name, topology_needs)
    if not backend.is_here:
        raise BackendError(
            "the backend vm builds labs inside a guest, and this process is outside of it. For a shell in one "
            "with a lab: `python -m netnslab.backends shell TOPOLOGY`; for a command: `python -m "
            "netnslab.backends run COMMAND...`; from Python: netnslab.backends.run_in_guest([...])"
        )
    return backend


def _first(needs: Needs) -> Backend:
    refusals: list[str] = []
    for name, offer in OFFERS.items():
        if name is BackendName.VM and in_guest():
            continue  # a guest in the guest: four hundred times slower, and nothing the guest lacks
        try:
            backend = offer(needs)
        except BackendError as refusal:
            refusals.append(f"{name}: {refusal}")
            continue
        unsuitable = f" ({'; '.join(refusals)})" if refusals else ""
        print(f"netnslab: backend {backend.name}: {backend.reason}{unsuitable}", file=sys.stderr)
        return backend
    raise BackendError("no backend works here: " + "; ".join(refusals))
