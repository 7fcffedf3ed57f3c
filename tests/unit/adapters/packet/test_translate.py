"""What goes out in numbers comes back in words."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.packet.translate import Dictionary, Voice, banner_of, flow_of, own_state, session_flags
from meshwatchd.core.diagnosis.banner_windows import Parts, bit_of, cut
from meshwatchd.core.failover.topology_change_hold import HERE
from meshwatchd.model.events import ActivePath, Banner, Coordination, CoordinationKind, Reason
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.wire.mesh_tlv import FLAG_EFFECTIVE, FLAG_FRESH
from meshwatchd.wire.mesh_tlv import Coordination as WireCoordination
from meshwatchd.wire.mesh_tlv import CoordinationKind as WireKind
from meshwatchd.wire.template import ProbeTemplate
from tests.support import wire_pair

NAMES = (NodeName("a1"), NodeName("b1"))


@pytest.mark.parametrize("kind", CoordinationKind)
@pytest.mark.parametrize("reason", Reason)
def test_coordination_survives_the_wire(kind, reason):
    """Every kind and every reason is the same on the other side."""
    message = Coordination(
        kind=kind,
        pair=3,
        rank=2,
        generation=2**24 - 1,
        nonce=2**64 - 1,
        target=NodeName("b1"),
        reason=reason,
        relays=255,
    )

    assert message == Dictionary(NAMES).decode(Dictionary(NAMES).encode(message))


def test_words_of_a_later_version_are_not_guessed():
    """An unknown kind or node is no message; an unknown reason is none given."""
    known = Dictionary(NAMES)
    target = known.encode(
        Coordination(kind=CoordinationKind.GRANT, pair=0, rank=1, generation=1, nonce=1, target=NodeName("b1"))
    ).target_node_id

    def message(kind: WireKind, reason: int, target: int) -> WireCoordination:
        return WireCoordination(kind=kind, reason=reason, pair=0, rank=1, generation=1, nonce=1, target_node_id=target)

    assert known.decode(message(WireKind.COMMIT, 0, target)) is None
    assert known.decode(message(WireKind.GRANT, 0, 12345)) is None
    decoded = known.decode(message(WireKind.GRANT, 200, target))
    assert decoded is not None
    assert Reason.NONE is decoded.reason


def test_banner_survives_the_wire():
    """View and active paths arrive as they were sent."""
    banner = Banner(
        view_up=5, view_known=7, active=(ActivePath(pair=1, rank=2, generation=3, relays=77, is_alarmed=True),)
    )
    own = own_state(banner, node=NodeName("a1"), epoch=9)
    packet = ProbeTemplate(wire_pair.SPEC, key=wire_pair.TO_B1, own=own).seal(1, 1)

    mesh = wire_pair.received(bytes(packet)).mesh
    assert banner == banner_of(mesh)
    assert 9 == mesh.epoch


def test_a_drained_node_says_so_in_every_packet():
    """RFC 5880's AdminDown, a flag of the mesh TLV."""
    banner = Banner(is_admin_down=True)
    own = own_state(banner, node=NodeName("a1"), epoch=9)
    packet = ProbeTemplate(wire_pair.SPEC, key=wire_pair.TO_B1, own=own).seal(1, 1)

    assert banner == banner_of(wire_pair.received(bytes(packet)).mesh)


def test_a_node_whose_devices_do_not_fit_says_so_in_every_packet():
    """Beside AdminDown, and apart from it."""
    banner = Banner(has_misfit=True)
    own = own_state(banner, node=NodeName("a1"), epoch=9)
    packet = ProbeTemplate(wire_pair.SPEC, key=wire_pair.TO_B1, own=own).seal(1, 1)

    assert banner == banner_of(wire_pair.received(bytes(packet)).mesh)


def test_flags_tell_class_and_layer():
    """Fresh and effective are independent."""
    assert FLAG_FRESH == session_flags(Layer.RELAY, FlowClass.FRESH)
    assert FLAG_EFFECTIVE == session_flags(Layer.EFFECTIVE, FlowClass.PINNED)
    assert FlowClass.FRESH is flow_of(FLAG_FRESH | FLAG_EFFECTIVE)
    assert FlowClass.PINNED is flow_of(FLAG_EFFECTIVE)


def test_a_window_of_many_pairs_survives_the_wire():
    """Pair 20 of fifty: its bits travel as those of the third pair of a window, whose number travels besides."""
    whole = Banner(
        view_up=1 << bit_of(20, 2) | 1 << bit_of(3, 1) | HERE,
        view_known=1 << bit_of(20, 2) | 1 << bit_of(20, 3) | HERE,
        active=tuple(ActivePath(pair=pair, rank=1, generation=pair + 1, relays=9) for pair in range(49)),
    )
    voice = Voice(Parts(whole, {NodeName("b1"): 20 // 6 + 1}), node=NodeName("a1"), epoch=9)
    packet = ProbeTemplate(wire_pair.SPEC, key=wire_pair.TO_B1, own=voice.to(NodeName("b1"))).seal(1, 1)

    heard = banner_of(wire_pair.received(bytes(packet)).mesh)
    assert cut(whole, 4) == heard
    assert [18, 19, 20, 21, 22, 23] == [active.pair for active in heard.active]
    assert voice.always_to(NodeName("b1")) is voice.to(NodeName("b1"))
    assert voice.always_to(NodeName("a2")) is None
