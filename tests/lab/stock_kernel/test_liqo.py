"""Liqo's devices of the kernel's own kind: Geneve as the daemon reads it, and what goes with its last address.

That a whole cluster works over them, and what breaks it, is tried with VXLAN in their place (tests/lab/test_liqo.py).
"""

from __future__ import annotations

import pytest

from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.netlink.repair import OverlayKernel
from meshwatchd.core.audit.liqo_devices import LiqoGood, audit_devices
from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.liqo import liqo_links
from meshwatchd.model.settings import KernelSettings, MeshSettings
from meshwatchd.model.snapshot import Geneve
from tests.support.throwaway import nodes

pytestmark = pytest.mark.lab

DEVICE, TABLE = "liqo.0a1b2c3d4e", 1_862_403_329
MADE = (
    f"link add {DEVICE} mtu 1340 type geneve id 3 remote 10.9.0.2 dstport 6091",
    f"address add 10.80.0.12/32 dev {DEVICE}",
    f"link set {DEVICE} up",
)
ROUTED = (
    f"route add 10.80.0.1/32 dev {DEVICE} scope link table {TABLE}",
    f"route add 10.71.0.0/16 via 10.80.0.1 table {TABLE}",
)
RULES = (f"rule add to 10.80.0.1/32 lookup {TABLE}", f"rule add to 10.71.0.0/16 lookup {TABLE}")
FAR_END = (
    f"link add {DEVICE} mtu 1340 type geneve id 3 remote 10.9.0.1 dstport 6091",
    f"address add 10.80.0.1/32 dev {DEVICE}",
    f"link set {DEVICE} up",
    f"route add 10.80.0.12/32 dev {DEVICE} scope link",
)


async def _snapshot():
    async def is_ours(_link):
        return True

    dumper = Dumper()
    try:
        return await Mirror(dumper, KernelSettings(), MeshSettings(), is_ours).snapshot()
    finally:
        dumper.close()


async def _carry_out(plan):
    kernel = OverlayKernel()
    try:
        await kernel.carry_out(plan)
    finally:
        kernel.close()


@pytest.fixture
def pair(tmp_path):
    """A node with Liqo's device, and what stands for the gateway pod."""
    with nodes(tmp_path, "a2", "pod") as (node, pod):
        for line in (*MADE, *ROUTED, *RULES):
            node.ip(line)
        for line in FAR_END:
            pod.ip(line)
        yield node, pod


def test_a_device_is_read_with_number_far_end_port_and_size(pair):
    """And is whole, with its routes and the two rules."""
    node, _ = pair
    seen = node.do(_snapshot)
    (link,) = liqo_links(seen)

    assert Geneve(vni=3, port=6091, remote="10.9.0.2") == seen.link(DEVICE).geneve
    assert ("geneve", 1340) == (seen.link(DEVICE).kind, link.mtu_bytes)
    assert ("10.80.0.12", "10.80.0.1", ("10.71.0.0/16",), TABLE) == (
        link.address,
        link.gateway,
        link.prefixes,
        link.table,
    )
    assert link.is_whole()
    node.run("ping", "-n", "-c", "1", "-W", "5", "10.80.0.1")


def test_what_goes_with_the_device_is_put_back_with_its_address_first(pair):
    """liqo#3300: made anew without its address; afterwards the kernel holds what Liqo had written."""
    node, _ = pair
    before = node.ip(f"route show table {TABLE}"), node.ip(f"-4 address show dev {DEVICE}").split()[-6:]
    (link,) = liqo_links(node.do(_snapshot))
    node.ip(f"link del {DEVICE}")
    for line in (MADE[0], MADE[2]):
        node.ip(line)

    (finding,) = audit_devices(node.do(_snapshot), {DEVICE: LiqoGood(link=link)}, "a2")
    assert FaultCode.LIQO_FABRIC_ADDRESS_MISSING is finding.code
    plan = plan_repair(finding)
    assert plan is not None
    node.do(lambda: _carry_out(plan))

    assert before == (node.ip(f"route show table {TABLE}"), node.ip(f"-4 address show dev {DEVICE}").split()[-6:])
    assert () == tuple(audit_devices(node.do(_snapshot), {DEVICE: LiqoGood(link=link)}, "a2"))
    node.run("ping", "-n", "-c", "1", "-W", "5", "10.80.0.1")
