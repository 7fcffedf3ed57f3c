"""The private TLVs: documented sizes, gossip and coordination round trips, saturated evidence."""

from __future__ import annotations

import pytest

from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.mesh_tlv import (
    BRIEF_BLOCK_BYTES,
    BRIEF_MESH_BYTES,
    COORDINATION_BYTES,
    EMPTY_GOSSIP,
    ENTERPRISE,
    GOSSIP_BLOCK_BYTES,
    MAX_GOSSIP,
    MESH_BYTES,
    Coordination,
    CoordinationKind,
    GossipEntry,
    decode_coordination,
    decode_gossip,
    encode_gossip,
    fit_gossip,
)

MESSAGE = Coordination(
    kind=CoordinationKind.COMMIT,
    reason=9,
    pair=2,
    rank=1,
    generation=0x0A0B_0C0D,
    nonce=0x1122_3344_5566_7788,
    evidence_hundredths=500,
    target_node_id=0xFF00_0000_0000_0001,
)


def test_sizes_are_those_of_the_byte_tables():
    """Fixed sizes let a receiver find every field without looking for it."""
    assert (96, 54, 32) == (MESH_BYTES, BRIEF_MESH_BYTES, COORDINATION_BYTES)
    assert (52, 10) == (GOSSIP_BLOCK_BYTES, BRIEF_BLOCK_BYTES)


def test_coordination_is_laid_out_as_documented():
    """The table in the module's docstring, byte by byte."""
    expected = (
        ENTERPRISE.to_bytes(4, "big")
        + bytes((4, 9, 2, 1))
        + bytes.fromhex("0a0b0c0d 1122334455667788 01f4 0000 ff00000000000001")
    )

    assert expected == MESSAGE.to_tlv().value
    assert MESSAGE == decode_coordination(expected)


@pytest.mark.parametrize("kind", CoordinationKind)
def test_every_word_survives(kind):
    """Six kinds, numbered from 1."""
    value = bytearray(MESSAGE.to_tlv().value)
    value[4] = kind

    assert kind is decode_coordination(bytes(value)).kind


@pytest.mark.parametrize(
    "value",
    [
        b"",
        MESSAGE.to_tlv().value[:-1],
        MESSAGE.to_tlv().value + b"\0",
        bytes(4) + MESSAGE.to_tlv().value[4:],
        MESSAGE.to_tlv().value[:4] + b"\x07" + MESSAGE.to_tlv().value[5:],
    ],
    ids=["empty", "short", "long", "foreign", "unknown kind"],
)
def test_what_is_no_message_is_refused(value):
    """Another vendor may use type 253 for something else, a later version for more kinds."""
    with pytest.raises(DecodeError):
        decode_coordination(value)


@pytest.mark.parametrize("count", range(MAX_GOSSIP + 1))
def test_gossip_survives_at_every_count(count):
    """Most meshes have one pair of locations, and one entry to send."""
    entries = tuple(GossipEntry(pair, pair % 8, 2**32 - 1 - pair, pair % 3 == 0) for pair in range(count))

    block = encode_gossip(entries)

    assert (BRIEF_BLOCK_BYTES if count <= 1 else GOSSIP_BLOCK_BYTES) == len(block)
    assert entries == decode_gossip(block) == decode_gossip(fit_gossip(block, GOSSIP_BLOCK_BYTES))
    assert entries[:1] == decode_gossip(fit_gossip(block, BRIEF_BLOCK_BYTES))


def test_a_gossip_count_beyond_the_area_reads_the_area():
    """Nobody honest sends it; it must not read other bytes."""
    assert 1 == len(decode_gossip(b"\xff" + EMPTY_GOSSIP[1:]))
    assert MAX_GOSSIP == len(decode_gossip(fit_gossip(b"\xff" + EMPTY_GOSSIP[1:], GOSSIP_BLOCK_BYTES)))
