"""The session-reflector: from a request to its answer, of exactly the same length.

Mesh requests are verified before they come here. What does not verify is dropped without an answer, where
RFC 8972 section 4.8 would return a copy with the I flag: an unsigned packet gets nothing out of a mesh
node, not even its own bytes. Senders of other makers are answered by `standard_reflect`.
"""

from __future__ import annotations

import functools
import struct
from typing import Final

from meshwatchd.wire.answer import MESH_ANSWERS, Reflector, answer_tlvs
from meshwatchd.wire.auth import PairKey
from meshwatchd.wire.mesh_tlv import (
    BASE_TAG_BYTES,
    ENTERPRISE,
    FLAG_REPLY,
    MESH,
    MESH_VERSION,
    NODE_FLAGS,
    SESSION_FLAGS,
    OwnState,
    fit_gossip,
)
from meshwatchd.wire.mould import Mould
from meshwatchd.wire.ntp import UNSYNCHRONIZED
from meshwatchd.wire.parse import ParsedProbe
from meshwatchd.wire.seal import HMAC_TLV_BYTES, MESH_VALUE_OFFSET, mesh_end, sign
from meshwatchd.wire.tlv import TlvType

# Base packet, room for its tag, header and value of the mesh TLV but for the gossip entries.
_HEAD: Final = struct.Struct(">I 12x Q HH 4x Q 8x I 12x Q H 6x B 15x 16x BBH I BBH Q BBH Q 8s II")
_NO_BASE_TAG: Final = bytes(BASE_TAG_BYTES)
_MESH_TYPE: Final = int(TlvType.MESH)
UNSYNCHRONIZED_WORD: Final = UNSYNCHRONIZED.encode()

_BASE: Final = struct.Struct(">I 12x Q HH 4x Q 8x I 12x Q H 6x B 15x")
"""What a reflector writes into the base packet."""

_REQUEST: Final = struct.Struct(">I 12x Q HH")
Asked = tuple[int, int, int, int]
"""Sequence number, timestamp, error estimate and SSID of a request: what an answer repeats of its base packet."""


def read_asked(request: bytes) -> Asked:
    """What the answer to a request will repeat of it; unverified."""
    asked: Asked = _REQUEST.unpack_from(request)
    return asked


def reflect(
    request: bytes,
    parsed: ParsedProbe,
    *,
    key: PairKey,
    own: OwnState,
    reflector: Reflector,
    reflector_sequence: int,
    rx_ntp: int,
    tx_ntp: int,
    ttl: int = 0,
    error_estimate: int = UNSYNCHRONIZED_WORD,
) -> bytes:
    """Answer a verified mesh request.

    Args:
        request: its bytes.
        parsed: what `verify_and_parse` made of them; not an answer itself.
        key: the key it was verified with; the answer is signed under the same secret.
        own: what this node says of itself; path, layer and session flags are the request's.
        reflector: what the answers to TLVs draw on.
        reflector_sequence: this reflector's count of answers in the session, which tells lost requests from
            lost answers.
        rx_ntp: when the request arrived, 64-bit NTP format.
        tx_ntp: when the answer is sent.
        ttl: with which the request arrived, 0 when unknown.
        error_estimate: of this node's clock, as a 16-bit field.
    """
    assert not parsed.is_reply, "answering an answer would never end"
    mesh = parsed.mesh
    reply = bytearray(request)
    gossip, others = MESH_VALUE_OFFSET + MESH.size, mesh_end(request)
    _HEAD.pack_into(
        reply, 0, reflector_sequence, tx_ntp, error_estimate, parsed.ssid, rx_ntp,
        parsed.sequence, parsed.timestamp_ntp, parsed.error_estimate, ttl,
        0, _MESH_TYPE, others - MESH_VALUE_OFFSET,
        ENTERPRISE, MESH_VERSION, key.key_id,
        mesh.flags & SESSION_FLAGS | own.flags & NODE_FLAGS | FLAG_REPLY,
        own.epoch, mesh.layer, 0, mesh.path, own.node_id, _NO_BASE_TAG,
        own.heard, own.known,
    )  # fmt: skip
    reply[gossip:others] = fit_gossip(own.gossip_block, others - gossip)
    hmac_offset = len(reply) - HMAC_TLV_BYTES
    if parsed.has_questions:
        answer_tlvs(reply, others, hmac_offset, reflector=reflector, answers=MESH_ANSWERS)
    else:
        reply[others:hmac_offset] = _answer_plain(request[others:hmac_offset], reflector.addresses)
    reply[hmac_offset] = 0
    sign(reply, key.send)
    return bytes(reply)


def reflect_again(
    mould: Mould,
    asked: Asked,
    *,
    key: PairKey,
    reflector_sequence: int,
    rx_ntp: int,
    tx_ntp: int,
    ttl: int,
    error_estimate: int = UNSYNCHRONIZED_WORD,
) -> bytes:
    """Answer a verified request as an earlier one with the same TLVs (see `mould.Pieces`) and no questions was
    answered.
    """
    sequence, timestamp, error, ssid = asked
    base = _BASE.pack(reflector_sequence, tx_ntp, error_estimate, ssid, rx_ntp, sequence, timestamp, error, ttl)
    return mould.cast(base, key.send)


# All requests of a session carry the same TLVs, and the answers to these depend on nothing but the node's addresses.
@functools.lru_cache(maxsize=1024)
def _answer_plain(area: bytes, addresses: frozenset[bytes]) -> bytes:
    """The answered TLVs of a request that asks nothing beyond itself."""
    answered = bytearray(area)
    answer_tlvs(answered, 0, len(answered), reflector=Reflector(addresses=addresses), answers=MESH_ANSWERS)
    return bytes(answered)
