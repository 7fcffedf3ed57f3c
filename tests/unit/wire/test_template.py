"""Templates: what is patched arrives, sizes are as documented, padding hits the wanted length."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.wire.auth import KeyRole, MeshKeys, MeshSecret
from meshwatchd.wire.mesh_tlv import FLAG_ADMIN_DOWN, FLAG_CONFIRM_BURST, FLAG_FRESH, FLAG_REPLY, encode_gossip
from meshwatchd.wire.parse import verify_and_parse
from meshwatchd.wire.standard_tlv import Location
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate
from meshwatchd.wire.tlv import decode_tlvs
from tests.support.wire_pair import (
    A1,
    A1_STATE,
    B1,
    B1_ADDRESS,
    COORDINATION,
    GOSSIP,
    SECRET,
    SPEC,
    TO_B1,
    received,
    request,
)


def test_everything_in_the_spec_and_the_own_state_arrives():
    """One probe with all fields set."""
    template = ProbeTemplate(msgspec.structs.replace(SPEC, coordination=COORDINATION), key=TO_B1, own=A1_STATE)

    parsed = received(bytes(template.seal(2**32 - 1, 2**64 - 1)))

    assert (2**32 - 1, 2**64 - 1, 9, 0x2001) == (
        parsed.sequence,
        parsed.timestamp_ntp,
        parsed.ssid,
        parsed.error_estimate,
    )
    assert (FLAG_FRESH, 5, 1, 0) == (
        parsed.mesh.flags,
        parsed.mesh.layer,
        parsed.mesh.path,
        parsed.mesh.diagnostic,
    )
    assert (A1_STATE.node_id, A1_STATE.epoch, A1_STATE.heard, A1_STATE.known, ()) == (
        parsed.mesh.node_id,
        parsed.mesh.epoch,
        parsed.mesh.heard,
        parsed.mesh.known,
        parsed.mesh.gossip,
    )
    assert B1_ADDRESS == parsed.destination
    assert COORDINATION == parsed.coordination
    assert not parsed.is_reply


@pytest.mark.parametrize(
    ("spec", "length"),
    [
        (ProbeSpec(ssid=1, path=0, layer=1), 232),
        (SPEC, 240),
        (msgspec.structs.replace(SPEC, destination=bytes(16)), 252),
        (msgspec.structs.replace(SPEC, coordination=COORDINATION), 276),
        (msgspec.structs.replace(SPEC, extra_tlvs=(Location.request().to_tlv(),)), 288),
        (msgspec.structs.replace(SPEC, payload_bytes=1392), 1392),
        (msgspec.structs.replace(SPEC, payload_bytes=244), 244),
    ],
)
def test_sizes_are_as_documented(spec, length):
    """Padding reaches any length from four bytes above the natural one."""
    assert length == len(request(spec)) == len(ProbeTemplate(spec, key=TO_B1, own=A1_STATE))


def test_the_tag_comes_last_even_behind_padding():
    """So that padding is signed too."""
    types = [tlv.type for tlv in decode_tlvs(request(msgspec.structs.replace(SPEC, payload_bytes=300)), 112)]

    assert [252, 9, 1, 8] == types


def test_patches_arrive_with_the_next_probe():
    """State and flags change; the rest stays."""
    template = ProbeTemplate(msgspec.structs.replace(SPEC, coordination=COORDINATION), key=TO_B1, own=A1_STATE)
    state = msgspec.structs.replace(
        A1_STATE, heard=6, known=7, flags=FLAG_ADMIN_DOWN, gossip_block=encode_gossip(GOSSIP)
    )

    template.announce(state)
    template.set_flags(FLAG_CONFIRM_BURST | FLAG_REPLY)
    parsed = received(bytes(template.seal(1, 2)))

    assert FLAG_CONFIRM_BURST | FLAG_ADMIN_DOWN == parsed.mesh.flags, "no probe can pretend to be an answer"
    assert (6, 7, GOSSIP) == (parsed.mesh.heard, parsed.mesh.known, parsed.mesh.gossip)
    assert COORDINATION == parsed.coordination
    assert B1_ADDRESS == parsed.destination


def test_a_brief_probe_has_room_for_one_pair_alone():
    """42 bytes less in each packet; what there is to say of more pairs takes the room that it needs."""
    template = ProbeTemplate(SPEC, key=TO_B1, own=A1_STATE)
    whole = len(template)
    template.be_brief(True)
    template.announce(msgspec.structs.replace(A1_STATE, gossip_block=encode_gossip(GOSSIP[:1])))

    assert whole - 42 == len(template)
    packet = bytes(template.seal(1, 1))
    assert {(252, 54, 0x80), (9, 4, 0x80), (8, 16, 0x80)} == {
        (tlv.type, len(tlv.value), tlv.flags) for tlv in decode_tlvs(packet, 112)
    }, "a sender sets U in all (RFC 8972 section 4)"
    parsed = received(bytes(template.seal(1, 2)))
    assert (GOSSIP[:1], B1_ADDRESS) == (parsed.mesh.gossip, parsed.destination)
    template.announce(msgspec.structs.replace(A1_STATE, gossip_block=encode_gossip(GOSSIP)))
    assert GOSSIP == received(bytes(template.seal(1, 3))).mesh.gossip
    template.announce(A1_STATE)
    template.be_brief(False)
    assert whole == len(template)
    assert () == received(bytes(template.seal(1, 4))).mesh.gossip


def test_a_template_outlives_its_secret():
    """After rotation the same template signs with the new one."""
    new = MeshSecret(secret=bytes(range(1, 33)))
    old = MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)
    template = ProbeTemplate(SPEC, key=TO_B1, own=A1_STATE)

    template.rekey(MeshKeys(A1, [new, old]).add_peer(B1))
    there = MeshKeys(B1, [new]).add_peer(A1)

    assert not isinstance(verify_and_parse(template.seal(1, 2), there), str)


def test_a_probe_is_not_touched_by_the_next():
    """Packets wait for one another in a batch."""
    template = ProbeTemplate(SPEC, key=TO_B1, own=A1_STATE)
    packets = [template.seal(number, number + 1) for number in (1, 2, 3)]

    assert [1, 2, 3] == [received(packet).sequence for packet in packets]


def test_a_probe_without_ssid_is_a_mistake():
    """RFC 9503 section 3."""
    with pytest.raises(AssertionError):
        ProbeTemplate(ProbeSpec(ssid=0, path=0, layer=0), key=TO_B1, own=A1_STATE)
