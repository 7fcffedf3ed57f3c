"""Rules of ours beside those of other programs, on the real kernel: shadowed where they stood, asked where they go."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.model.settings import DaemonSettings, KernelSettings, MeshSettings, Settings
from meshwatchd.runtime.logging import make_log
from meshwatchd.runtime.rule_place import RulePlace
from tests.support.lab_mesh import declared_mesh
from tests.support.throwaway import nodes

pytestmark = pytest.mark.lab

OURS, THEIRS = "10.9.0.3", "10.9.0.2"
SUBMARINER = ("route add 10.244.0.0/16 via 10.9.0.2 table 150", "rule add pref 150 lookup 150")
CABLE = ("route add 10.244.4.0/22 via 10.9.0.2 table 100", "rule add pref 100 lookup 100")
CALICO = (
    "route add 10.244.5.0/24 via 10.9.0.2 table 1",
    "rule add not from all fwmark 0x100000/0x100000 pref 99 lookup 1",
)
NETBIRD = ("rule add pref 105 lookup main suppress_prefixlength 0", "rule add not fwmark 0x1bd00 pref 110 lookup 7120")
TAILSCALE = ("route add 10.244.4.0/22 via 10.9.0.2 table 52", "rule add pref 5270 lookup 52")
LIQO = ("route add 10.244.4.0/22 via 10.9.0.2 table 700", "rule add to 10.244.4.0/22 lookup 700")
CILIUM = ("rule add pref 9 fwmark 0x200/0xf00 lookup 2004", "rule add pref 100 lookup local", "rule del pref 0")


@pytest.fixture
def node(tmp_path):
    """One node."""
    with nodes(tmp_path, "a3", "x") as (first, _):
        yield first


async def _window(state_dir):
    """Where the daemon of this node would have its rules."""

    async def is_ours(_link):
        return True

    dumper = Dumper()
    mirror = Mirror(dumper, KernelSettings(), MeshSettings(), is_ours)
    settings = Settings(daemon=DaemonSettings(node="a3", state_dir=str(state_dir)))
    try:
        shown = await mirror.snapshot()
        place = RulePlace.open(mirror, settings, make_log("json", level="error"))
        snapshot = place.settle(msgspec.structs.replace(shown, mesh=declared_mesh()))
        place.close()
    finally:
        dumper.close()
    assert () == snapshot.collisions
    return snapshot.windows[0]


@pytest.mark.parametrize(
    ("foreign", "first"),
    [
        (SUBMARINER, 146),
        ((*SUBMARINER, *CABLE), 96),
        (CALICO, 95),
        (NETBIRD, 101),
        ((*CILIUM, *NETBIRD), 101),
        (TAILSCALE, 5266),
        ((*CILIUM, *LIQO), 95),
    ],
)
def test_an_override_is_asked_where_the_daemon_places_it_and_not_where_it_stood(node, foreign, first):
    """By the kernel's own word, before and after."""
    node.ip("route add 10.244.5.0/24 via 10.9.0.2")
    node.ip("route add 10.244.5.0/24 via 10.9.0.3 dev eth0 onlink table 7701 proto 117")
    for line in foreign:
        node.ip(line)
    node.ip("rule add pref 5460 lookup 7701 protocol 117")
    assert THEIRS in node.ip("route get 10.244.5.7"), "a rule at 5460 is in vain here"

    window = node.do(lambda: _window(node.state_dir))
    node.ip(f"rule add pref {window.override(0)} lookup 7701 protocol 117")

    assert first == window.first
    assert OURS in node.ip("route get 10.244.5.7")
