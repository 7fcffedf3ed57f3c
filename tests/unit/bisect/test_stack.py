"""A way through tables: what the kernel would do, and what of it is right."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.tap.questions import NUD_PERMANENT, Forwarding, Hop, Neighbour
from meshwatchd.bisect.observation import DeviceState, Entry
from meshwatchd.bisect.stack import (
    judge_device,
    judge_forwarding,
    judge_neighbour,
    judge_route,
    judge_underlay_neighbour,
    judge_underlay_route,
    read_stack,
)
from tests.support.bisection import (
    B1_MAC,
    B1_OVERLAY,
    B1_VTEP,
    B2_MAC,
    B2_VTEP,
    ETH0,
    FLANNEL,
    LOWER_MAC,
    FakeKernel,
    leg,
)

STRANGE_MAC = bytes.fromhex("021122334455")
NAMES = {6: "flannel.1", 2: "eth0"}


def judged(kernel: FakeKernel, heard_mac: bytes = b"") -> dict[str, Entry]:
    """Every table's entry."""
    way = leg()
    stack = read_stack(kernel, way, heard_mac=heard_mac)
    findings = {
        "route": judge_route(stack, way, NAMES),
        "neighbour": judge_neighbour(stack),
        "forwarding": judge_forwarding(stack, way),
        "underlay-route": judge_underlay_route(stack, way, NAMES),
        "arp": judge_underlay_neighbour(stack),
    }
    return {name: finding.entry for name, finding in findings.items() if finding.entry is not Entry.RIGHT}


def test_a_healthy_way():
    """All right, and the packet's way is known to the last MAC."""
    stack = read_stack(FakeKernel(), leg())

    assert {} == judged(FakeKernel())
    assert (FLANNEL, ETH0, B1_MAC, (B1_VTEP,)) == (stack.overlay, stack.lower, stack.believed_mac, stack.forwarding)
    assert stack.lower_neighbour is not None
    assert LOWER_MAC == stack.lower_neighbour.mac


def test_fdb_entry_deleted():
    """The neighbour's MAC leads nowhere, and nothing says that it is another's."""
    kernel = FakeKernel()
    kernel.entries = [Forwarding(mac=B2_MAC, destination=B2_VTEP)]

    assert {"forwarding": Entry.MISSING} == judged(kernel)


def test_fdb_entry_to_another_node():
    """Somebody moved it."""
    kernel = FakeKernel()
    kernel.entries = [Forwarding(mac=B1_MAC, destination=B2_VTEP)]

    assert {"forwarding": Entry.WRONG} == judged(kernel)


def test_neighbour_with_a_mac_of_nobody():
    """The FDB knows which MAC is behind the peer's address: the neighbour entry is what is wrong."""
    kernel = FakeKernel()
    kernel.by_device[6] = [Neighbour(address=B1_OVERLAY, mac=STRANGE_MAC, state=NUD_PERMANENT)]

    assert {"neighbour": Entry.WRONG, "forwarding": Entry.MISSING} == judged(kernel)


def test_neighbour_with_the_mac_of_another_node():
    """It leads to another VTEP, which is a consequence."""
    kernel = FakeKernel()
    kernel.by_device[6] = [Neighbour(address=B1_OVERLAY, mac=B2_MAC, state=NUD_PERMANENT)]

    assert {"neighbour": Entry.WRONG, "forwarding": Entry.WRONG} == judged(kernel)


def test_what_is_heard_is_believed_before_any_table():
    """The peer's device has another MAC since it was made anew; both tables agree on the old one and are wrong."""
    assert {} == judged(FakeKernel(), heard_mac=B1_MAC)
    assert {"neighbour": Entry.WRONG} == judged(FakeKernel(), heard_mac=STRANGE_MAC)


def test_an_old_entry_beside_the_right_one_is_harmless():
    """Flannel leaves the FDB entry of a peer's former MAC behind."""
    kernel = FakeKernel()
    kernel.entries.insert(0, Forwarding(mac=STRANGE_MAC, destination=B1_VTEP))

    assert {} == judged(kernel)


@pytest.mark.parametrize("neighbours", [[], [Neighbour(address=B1_OVERLAY, mac=b"", state=0x01)]])
def test_neighbour_missing_or_unresolved(neighbours):
    """Deleted, or being asked for by broadcasts that no overlay of flannel carries."""
    kernel = FakeKernel()
    kernel.by_device[6] = neighbours

    assert Entry.MISSING is judged(kernel)["neighbour"]


def test_route_gone_or_astray():
    """No route, and a route that leads past the overlay (onto WireGuard, say)."""
    kernel = FakeKernel()
    del kernel.hops[B1_OVERLAY]

    assert Entry.MISSING is judged(kernel)["route"]
    kernel.hops[B1_OVERLAY] = Hop(index=2)
    assert Entry.WRONG is judged(kernel)["route"]


def test_underlay_route_gone_or_into_the_overlay():
    """Outer packets have no way, or would be wrapped again for ever."""
    kernel = FakeKernel()
    kernel.hops[B1_VTEP] = Hop(error="EHOSTUNREACH")

    assert Entry.MISSING is judged(kernel)["underlay-route"]
    kernel.hops[B1_VTEP] = Hop(index=6)
    assert Entry.WRONG is judged(kernel)["underlay-route"]


def test_underlay_neighbour_unresolved():
    """ARP fails; an entry that is not there yet says nothing."""
    kernel = FakeKernel()
    kernel.by_device[2] = [Neighbour(address=B1_VTEP, mac=LOWER_MAC, state=0x20)]

    assert {"arp": Entry.MISSING} == judged(kernel)
    kernel.by_device[2] = []
    assert {"arp": Entry.UNKNOWN} == judged(kernel)


def test_a_device_that_goes_by_a_program_has_no_tables_to_be_wrong():
    """cilium_vxlan: routes lead into cilium_host, and there is neither neighbour nor FDB entry."""
    kernel = FakeKernel()
    kernel.all_devices = {6: msgspec.structs.replace(FLANNEL, collects_metadata=True), 2: ETH0}
    way = leg()
    kernel.hops[B1_OVERLAY] = Hop(index=9)
    stack = read_stack(kernel, way)

    assert Entry.RIGHT is judge_route(stack, way, {9: "cilium_host"}).entry
    assert Entry.UNKNOWN is judge_neighbour(stack).entry
    assert Entry.UNKNOWN is judge_forwarding(stack, way).entry


def test_a_tunnel_has_no_lower_device():
    """What leaves WireGuard is encrypted: nothing of ours can be recognised below."""
    stack = read_stack(FakeKernel(), leg("b1", "a1"))

    assert stack.lower is None
    assert stack.overlay is None


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, DeviceState.READY),
        ({"is_up": False}, DeviceState.DOWN),
        ({"has_carrier": False}, DeviceState.NO_CARRIER),
    ],
)
def test_devices(changes, state):
    """Up with carrier, down, without carrier, missing."""
    assert state is judge_device(msgspec.structs.replace(ETH0, **changes))
    assert DeviceState.MISSING is judge_device(None)
