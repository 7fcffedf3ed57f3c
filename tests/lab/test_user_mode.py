"""A kernel that is a program: commands in a guest of it."""

from __future__ import annotations

import pytest

from netnslab.backends import BackendError, Needs, debian_uml, host, in_guest
from netnslab.backends.user_mode import run_in_user_mode

WALK = """
ip link add kilo0 type wireguard
wg show kilo0 fwmark
nft 'add table ip lab; add chain ip lab pre { type nat hook prerouting priority dstnat; }
    add rule ip lab pre ip daddr 203.0.113.11 dnat to 192.0.2.1'
touch "$0"
echo alas >&2
cat /dev/stdin
exit 37
"""


def _running_kernel_has_everything():
    """Then `make tools` has installed nothing for guests."""
    try:
        host.offer(Needs(vxlan_external=True, ipip=True))
    except BackendError:
        return False
    return True


@pytest.fixture(autouse=True)
def _outside_of_a_guest():
    if in_guest():
        pytest.skip("a guest in the guest")


@pytest.mark.timeout(1200)
def test_a_guest_has_wireguard_and_nat_and_leaves_our_files_alone(tmp_path):
    """What a command says and how it ends comes back; what it writes is gone with it."""
    problems = debian_uml.missing()
    if problems and _running_kernel_has_everything():
        pytest.skip(f"no guest needed, and for one is missing: {problems}")
    assert [] == problems
    run = run_in_user_mode(["sh", "-euc", WALK, str(tmp_path / "written")], echo=False)

    assert (37, "off\n", "alas\n") == (run.returncode, run.stdout, run.stderr)
    assert [] == list(tmp_path.iterdir())
