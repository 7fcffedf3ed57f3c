"""Sending, the hot path: a packet packed once per peer, path, layer and class, and patched for each probe."""

from __future__ import annotations

import functools
import struct
from typing import Final

import msgspec

from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import PairKey
from meshwatchd.wire.mesh_tlv import (
    BASE_TAG_BYTES,
    ENTERPRISE,
    GOSSIP_BLOCK_BYTES,
    MESH,
    MESH_BYTES,
    MESH_VERSION,
    NODE_FLAGS,
    SESSION_FLAGS,
    Coordination,
    OwnState,
    fit_gossip,
)
from meshwatchd.wire.mould import Mould
from meshwatchd.wire.ntp import UNSYNCHRONIZED, ErrorEstimate
from meshwatchd.wire.seal import (
    HMAC_TLV_BYTES,
    MAX_PACKET_BYTES,
    MESH_OFFSET,
    MESH_VALUE_OFFSET,
    REQUEST_HMAC_HEADER,
    mesh_end,
)
from meshwatchd.wire.stamp import HMAC_BYTES, SenderPacket, encode_sender
from meshwatchd.wire.standard_tlv import ADDRESS_BYTES
from meshwatchd.wire.tlv import HEADER, HEADER_BYTES, UNRECOGNIZED, Tlv, TlvType, encode_tlvs

_BASE: Final = struct.Struct(">I 12x Q H H 68x")
"""An authenticated base packet without its tag: sequence number, timestamp, error estimate, SSID (RFC 8762 section
4.2.2, RFC 8972 section 3)."""

_NO_BASE_TAG: Final = bytes(BASE_TAG_BYTES)


class ProbeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What stays the same in all probes of one kind.

    Attributes:
        ssid: session identifier, 1..65535; the reflector returns it.
        path: path number.
        layer: layer id.
        flags: any of SESSION_FLAGS.
        destination: packed address (4 or 16 bytes) of the node that shall answer.
        coordination: a message that rides on the probe.
        extra_tlvs: standard TLVs for questions asked now and then, as Location.
        payload_bytes: wanted length of the UDP payload, reached by Extra Padding; 0 for no padding.
    """

    ssid: int
    path: int
    layer: int
    flags: int = 0
    destination: bytes | None = None
    coordination: Coordination | None = None
    extra_tlvs: tuple[Tlv, ...] = ()
    payload_bytes: int = 0
    error_estimate: ErrorEstimate = UNSYNCHRONIZED

    def tlvs(self) -> tuple[Tlv, ...]:
        """The TLVs between the mesh TLV and the HMAC TLV."""
        tlvs = list(self.extra_tlvs)
        if self.coordination is not None:
            tlvs.insert(0, self.coordination.to_tlv())
        if self.destination is not None:
            assert len(self.destination) in ADDRESS_BYTES
            tlvs.insert(0, Tlv(type=TlvType.DESTINATION_NODE_ADDRESS, value=self.destination))
        if self.payload_bytes:
            filler = self.payload_bytes - probe_bytes(tlvs) - HEADER_BYTES
            assert filler >= 0, "a padded probe is at least 4 bytes longer than a bare one"
            tlvs.append(Tlv(type=TlvType.EXTRA_PADDING, value=bytes(filler)))
        return tuple(tlvs)


def probe_bytes(tlvs: list[Tlv] | tuple[Tlv, ...] = ()) -> int:
    """Length of a mesh probe that carries these TLVs beside the mesh TLV and the HMAC TLV."""
    carried = sum(HEADER_BYTES + len(tlv.value) for tlv in tlvs)
    return MESH_VALUE_OFFSET + MESH_BYTES + carried + HMAC_TLV_BYTES


class ProbeTemplate:
    """A probe in parts; change what changed, then `seal`.

    Only the mould keeps bytes, and the packet is made of it again where something changes: there are thousands.

    Attributes:
        is_brief: its mesh TLV is as short as what it has to say; change it by `be_brief`.
    """

    __slots__ = (
        "_error",
        "_flags",
        "_key",
        "_layer",
        "_mac",
        "_mould",
        "_own",
        "_path",
        "_ssid",
        "is_brief",
    )

    def __init__(self, spec: ProbeSpec, *, key: PairKey, own: OwnState) -> None:
        assert 0 < spec.ssid <= 0xFFFF, "RFC 9503 section 3: whoever names a destination uses an SSID"
        self._layer, self._path = spec.layer, spec.path
        self._key = key
        self._mac = key.send
        self._own = own
        self._flags = spec.flags
        self.is_brief = False
        packet = _assemble(spec)
        assert len(packet) <= MAX_PACKET_BYTES
        self._error, self._ssid = _error_bits(spec.error_estimate), spec.ssid
        self._mould: Mould
        self._write_mesh(packet)

    def __len__(self) -> int:
        return len(self._mould)

    def seal(self, sequence: int, timestamp_ntp: int) -> bytes:
        """Number, date and sign the next probe.

        The timestamp comes back in the answer and is the nonce that proves the peer's epoch: never use one
        twice.
        """
        return self._mould.cast(_BASE.pack(sequence, timestamp_ntp, self._error, self._ssid), self._mac)

    def announce(self, own: OwnState) -> None:
        """Take over what this node says of itself from here on."""
        self._own = own
        self._write_mesh(self._mould.blank())

    def set_flags(self, flags: int) -> None:
        """Change the session's flags, for instance for a confirm burst; those of the node stay."""
        self._flags = flags
        self._write_mesh(self._mould.blank())

    def be_brief(self, is_brief: bool) -> None:
        """Give the mesh TLV no more room than its gossip needs, or the room of eight entries again."""
        self.is_brief = is_brief
        self._write_mesh(self._mould.blank())

    def rekey(self, key: PairKey) -> None:
        """Sign with another secret of the same peer from here on."""
        self._key, self._mac = key, key.send
        self._write_mesh(self._mould.blank())

    def _write_mesh(self, packet: bytearray) -> None:
        own, block = self._own, self._own.gossip_block
        if not self.is_brief:
            block = fit_gossip(block, GOSSIP_BLOCK_BYTES)
        packet[MESH_VALUE_OFFSET : mesh_end(packet)] = bytes(MESH.size) + block
        packet[MESH_OFFSET:MESH_VALUE_OFFSET] = HEADER.pack(UNRECOGNIZED, TlvType.MESH, MESH.size + len(block))
        MESH.pack_into(
            packet,
            MESH_VALUE_OFFSET,
            ENTERPRISE,
            MESH_VERSION,
            self._key.key_id,
            self._flags & SESSION_FLAGS | own.flags & NODE_FLAGS,
            own.epoch,
            self._layer,
            0,  # no diagnostic
            self._path,
            own.node_id,
            _NO_BASE_TAG,
            own.heard,
            own.known,
        )
        self._mould = Mould(packet)


@functools.lru_cache(maxsize=16)
def _error_bits(estimate: ErrorEstimate) -> int:
    """One number for all templates of one estimate."""
    return estimate.encode()


def _assemble(spec: ProbeSpec) -> bytearray:
    """All bytes but the contents of the mesh TLV and the tags."""
    mesh = Tlv(type=TlvType.MESH, value=bytes(MESH_BYTES))
    base = SenderPacket(sequence=0, timestamp_ntp=0, error_estimate=spec.error_estimate, ssid=spec.ssid)
    packet = bytearray(encode_sender(base, StampMode.AUTHENTICATED))
    packet += encode_tlvs((mesh, *spec.tlvs()))
    packet += REQUEST_HMAC_HEADER + bytes(HMAC_BYTES)
    return packet
