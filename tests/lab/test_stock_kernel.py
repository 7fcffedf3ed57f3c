"""The tests below stock_kernel/ under a kernel that has everything, where this machine's has not; and the vm backend.

The suite runs in a guest whose kernel is a program in which computing takes no time: its limits are of this machine's
clock, and those of its tests of the guest's. The emulated guest has to boot, to bring back what a command says, and to
have all that a lab needs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from netnslab import Lab
from netnslab.backends import BackendError, Needs, debian_uml, host, run_in_guest, vm
from netnslab.backends.guest import in_guest
from netnslab.backends.user_mode import run_in_user_mode
from netnslab.errors import LabError
from tests.support import guest_machines
from tests.support.systemd_machine import install

ROOT = Path(__file__).resolve().parents[2]
SUITE = "tests/lab/stock_kernel"

# For a guest that hangs, and for a kernel that has to be made first.
LIMIT_S = 1200
MAKING_S = 900
TEST_LIMIT_S = 300
OFFERED = """
from netnslab.backends import Needs, host
print("grüße", host.offer(Needs(vxlan_external=True, ipip=True, netem=True)).name)
"""


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


def _require(problems: list[str]) -> None:
    """A machine that has neither the kernel nor the tools for one has not been prepared: that is a failure."""
    if not problems:
        return
    if _running_kernel_has_everything():
        pytest.skip(f"no guest needed: this kernel ran {SUITE} itself, and for one is missing: {problems}")
    pytest.fail(f"this kernel lacks WireGuard or IPIP, and for a guest is missing: {'; '.join(problems)}")


@pytest.fixture(scope="module")
def machine(base, packages, tmp_path_factory):
    """What the guest's machine with systemd is made of, as its environment: there is no network in it."""
    root = install(packages / "now.deb", base, tmp_path_factory.mktemp("root"), is_spare=True)
    return guest_machines.announce(root, packages)


@pytest.mark.timeout(LIMIT_S + MAKING_S)
def test_suite_passes_under_a_stock_kernel(capsys, machine):
    """One boot, one pytest in the guest; its output is ours, and it passed only if tests passed."""
    _require(debian_uml.missing())
    with capsys.disabled():
        sys.stdout.write("\n")
        run = run_in_user_mode(
            [
                *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-v"),
                *("--forbid-skips", "--require-passes", f"--timeout={TEST_LIMIT_S}", "--durations=5", SUITE),
            ],
            timeout_s=LIMIT_S,
            cwd=ROOT,
            environment=machine,
        )
        sys.stdout.write(f"guest: {run.total_s:.1f} s in all\n")

    counted = re.search(r"(\d+) passed", run.stdout)
    assert counted, f"no test passed in the guest\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
    assert 0 == run.returncode, run.stdout[-6000:]


@pytest.mark.timeout(600)
def test_an_emulated_guest_has_everything_and_says_how_its_command_ended():
    """As `auto` judges it there; exit status and both outputs are the same inside as they would be here."""
    _require(vm.missing())
    run = run_in_guest(["sh", "-c", '"$0" -c "$1"; echo alas >&2; exit 37', sys.executable, OFFERED], echo=False)

    assert (37, "grüße vm\n", "alas\n") == (run.returncode, run.stdout, run.stderr)


def test_lab_outside_of_the_guest_says_how_to_get_in():
    """Asking for the vm backend in this process is refused with the name of what would work."""
    _require(vm.missing())
    if _running_kernel_has_everything():
        pytest.skip("this kernel can hold the lab itself")
    with pytest.raises(LabError, match="run_in_guest"):
        Lab.up("kilo-cilium", backend="vm")
