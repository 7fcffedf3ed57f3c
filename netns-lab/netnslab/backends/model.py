"""What a backend is: a kernel the lab can be built on, and how to run a command under that kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from netnslab.backends.probes import Capability, Finding
from netnslab.errors import LabError


class BackendError(LabError):
    """A backend cannot do what is asked of it; the message says why and what would help."""


class BackendName(StrEnum):
    """The three kernels a lab may stand on, in the order `auto` tries them."""

    HOST = "host"
    USERSPACE = "userspace"
    VM = "vm"


AUTO = "auto"


class WireGuard(StrEnum):
    """Who implements the WireGuard devices of the lab."""

    KERNEL = "kernel"
    USERSPACE = "userspace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a topology asks of the kernel, beyond what every topology needs.

    Attributes:
        vxlan_external: collect-metadata VXLAN and lightweight tunnel routes on it.
        ipip: tunl0.
        netem: delay and loss on the wide area.
    """

    vxlan_external: bool = False
    ipip: bool = False
    netem: bool = False

    def capabilities(self) -> tuple[Capability, ...]:
        """All the kernel must be able to do, WireGuard aside: that is the backends' difference."""
        needed = [
            Capability.NAMESPACES,
            Capability.VXLAN,
            Capability.NFT_INGRESS,
            Capability.NFT_NAT,
            Capability.POLICY_ROUTING,
        ]
        if self.vxlan_external:
            needed += [Capability.VXLAN_EXTERNAL, Capability.ENCAP_IP]
        if self.ipip:
            needed.append(Capability.IPIP)
        if self.netem:
            needed.append(Capability.NETEM)
        return tuple(needed)


class Runner(Protocol):
    """Runs a command under the backend's kernel, its output passed through."""

    def __call__(self, argv: Sequence[str], *, timeout_s: float) -> int:
        """Run `argv` to its end and return its exit status.

        Raises:
            BackendError: it could not be started, or took longer than `timeout_s` seconds.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A kernel the lab can be built on.

    Attributes:
        wireguard: which implementation makes kilo0 and the standby links.
        has_ipip: tunl0 can be had.
        plays_ipip: by a process, since the kernel has none.
        has_netem: delay and loss can be had.
        is_here: this process runs under that kernel, so a lab can be built in it; otherwise only `run` helps.
        reason: why this one, for people.
        run: runs a command under that kernel.
    """

    name: BackendName
    wireguard: WireGuard
    has_ipip: bool
    has_netem: bool
    is_here: bool
    reason: str
    run: Runner
    plays_ipip: bool = False


def run_here(argv: Sequence[str], *, timeout_s: float) -> int:
    """Run a command under the running kernel (Runner)."""
    try:
        return subprocess.run(argv, timeout=timeout_s, check=False).returncode
    except OSError as error:
        raise BackendError(f"cannot run {argv[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise BackendError(f"{argv[0]} took longer than {timeout_s:.0f} s") from error


def first_failure(findings: Sequence[Finding]) -> Finding | None:
    """The first finding that says no."""
    return next((finding for finding in findings if not finding.works), None)
