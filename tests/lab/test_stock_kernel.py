"""The vm backend: the tests below stock_kernel/ in a guest, where this machine's kernel cannot run them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from netnslab import Lab
from netnslab.backends import BackendError, Needs, host, run_in_guest, vm
from netnslab.backends.guest import in_guest
from netnslab.errors import LabError

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tests/lab/stock_kernel"

# Boot 10 s, tests a minute, on two idle cores. An emulated machine suffers more than others from a busy one:
# the limit is there for a guest that hangs.
LIMIT_S = 600
TEST_LIMIT_S = 300


def _running_kernel_has_everything() -> bool:
    try:
        host.offer(Needs(vxlan_external=True, ipip=True))
    except BackendError:
        return False
    return True


@pytest.fixture(autouse=True)
def _outside_of_a_guest() -> None:
    if in_guest():
        pytest.skip("a guest in the guest would take minutes to boot")


def _require_vm() -> None:
    """A machine that has neither the kernel nor the tools for one has not been prepared: that is a failure."""
    problems = vm.missing()
    if not problems:
        return
    if _running_kernel_has_everything():
        pytest.skip(f"no guest needed: this kernel ran {SUITE} itself, and for one is missing: {problems}")
    pytest.fail(f"this kernel lacks WireGuard or IPIP, and for a guest is missing: {'; '.join(problems)}")


@pytest.mark.timeout(LIMIT_S + 180)
def test_suite_passes_under_a_stock_kernel(capsys):
    """One boot, one pytest in the guest; its output is ours, and it passed only if tests passed."""
    _require_vm()
    with capsys.disabled():
        sys.stdout.write("\n")
        run = run_in_guest(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-v"),
                *("--forbid-skips", "--require-passes", f"--timeout={TEST_LIMIT_S}", "--durations=5", SUITE),
            ],
            timeout_s=LIMIT_S,
            cwd=ROOT,
        )
        sys.stdout.write(f"guest: booted in {run.boot_s:.1f} s, {run.total_s:.1f} s in all\n")

    counted = re.search(r"(\d+) passed", run.stdout)
    assert counted, f"no test passed in the guest\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
    assert 0 == run.returncode, run.stdout[-6000:]


@pytest.mark.timeout(LIMIT_S)
def test_exit_status_and_both_outputs_come_back():
    """What a command says and how it ends is the same inside as it would be here."""
    _require_vm()
    run = run_in_guest(["sh", "-c", "printf 'grüße'; echo alas >&2; exit 37"], echo=False)

    assert (37, "grüße", "alas\n") == (run.returncode, run.stdout, run.stderr)


def test_lab_outside_of_the_guest_says_how_to_get_in():
    """Asking for the vm backend in this process is refused with the name of what would work."""
    _require_vm()
    if _running_kernel_has_everything():
        pytest.skip("this kernel can hold the lab itself")
    with pytest.raises(LabError, match="run_in_guest"):
        Lab.up("kilo-cilium", backend="vm")
