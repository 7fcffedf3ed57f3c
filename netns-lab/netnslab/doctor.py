"""What this machine can do for a lab, found out by trying, and what to install for the rest."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from netnslab.backends import BackendError, BackendName, in_guest, vm
from netnslab.backends.auto import OFFERS
from netnslab.backends.probes import Capability, Finding, examine
from netnslab.overlays import overlay_of
from netnslab.topology_file import available, load

MARKS = MappingProxyType({True: "yes", False: "no "})


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether one topology can be built on one backend, and why (not)."""

    topology: str
    backend: BackendName
    works: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """The whole examination.

    Attributes:
        kernel: release of the running kernel.
        is_guest: the running kernel is that of the vm backend.
        findings: one for each capability, and one for the guest.
        verdicts: each topology on each backend, in the order `auto` tries them.
    """

    kernel: str
    is_guest: bool
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]

    def is_fit_for(self, topology: str) -> bool:
        """True when some backend can build it."""
        return any(verdict.works for verdict in self.verdicts if verdict.topology == topology)


def report() -> DoctorReport:
    """Examine this machine; takes well under a second natively, and changes nothing."""
    findings = [examine(capability) for capability in Capability]
    if not in_guest():
        findings.append(_guest())
    return DoctorReport(
        kernel=platform.release(),
        is_guest=in_guest(),
        findings=tuple(findings),
        verdicts=tuple(_verdicts()),
    )


def render(examined: DoctorReport) -> str:
    """The report as text for a terminal."""
    place = ", the guest of the vm backend" if examined.is_guest else ""
    lines = [f"kernel {examined.kernel}{place}", ""]
    width = max(len(finding.title) for finding in examined.findings)
    for finding in examined.findings:
        lines.append(f"  {MARKS[finding.works]}  {finding.title:<{width}}  {_one_line(finding.evidence)}")
        if finding.remedy:
            lines.append(f"  {'':{width + 5}}  -> {finding.remedy}")
    lines += ["", "Each was tried in namespaces that are gone again.", ""]
    for topology in dict.fromkeys(verdict.topology for verdict in examined.verdicts):
        lines.append(f"{topology}:")
        for verdict in examined.verdicts:
            if verdict.topology == topology:
                lines.append(f"  {MARKS[verdict.works]}  {verdict.backend:<9}  {verdict.reason}")
    return "\n".join(lines)


def main() -> int:
    """Print the report; 0 when every topology can be built somehow, 1 otherwise."""
    if os.geteuid() != 0:
        print("netnslab: not root, so nearly everything below will be refused; try again with sudo\n")
    examined = report()
    print(render(examined))
    return 0 if all(map(examined.is_fit_for, available())) else 1


def _guest() -> Finding:
    problems = vm.missing()
    return Finding(
        title="QEMU guest (virtme-ng, kernel image)",
        works=not problems,
        evidence="not everything is installed" if problems else vm.describe_kernel(),
        remedy="; ".join(problems),
    )


def _verdicts() -> Iterator[Verdict]:
    for name in available():
        needs = overlay_of(load(name)).needs
        for backend, offer in OFFERS.items():
            try:
                reason, works = offer(needs).reason, True
            except BackendError as refusal:
                reason, works = str(refusal), False
            yield Verdict(topology=name, backend=backend, works=works, reason=reason)


def _one_line(text: str, limit: int = 70) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


if __name__ == "__main__":
    raise SystemExit(main())
