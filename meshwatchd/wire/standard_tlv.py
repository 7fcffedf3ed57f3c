"""The TLVs of the RFCs that a mesh probe or its answer may carry, each with its value's layout.

A request carries zeros where the reflector is to answer, so an answer has the length of its request. The
HMAC TLV (type 8) has no class: it is one tag, written and checked by `seal`.

Source: RFC 8972 sections 4.1 (Extra Padding), 4.2 (Location), 4.4 (Class of Service, with erratum 8199),
4.5 (Direct Measurement); RFC 9503 section 3 (Destination Node Address).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import msgspec

from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.tlv import Tlv, TlvType, decode_tlvs, encode_tlvs

_PORTS: Final = struct.Struct(">HH")
_COUNTERS: Final = struct.Struct(">III")

PORTS_BYTES: Final = _PORTS.size
COS_BYTES: Final = 4
DIRECT_MEASUREMENT_BYTES: Final = _COUNTERS.size
ADDRESS_BYTES: Final = frozenset({4, 16})


class LocationType(IntEnum):
    """Sub-TLVs of Location. A sender asks with 1, 4 or 7, which the reflector replaces in its answer."""

    SOURCE_MAC = 1
    SOURCE_EUI48 = 2
    SOURCE_EUI64 = 3
    DESTINATION_IP = 4
    DESTINATION_IPV4 = 5
    DESTINATION_IPV6 = 6
    SOURCE_IP = 7
    SOURCE_IPV4 = 8
    SOURCE_IPV6 = 9


MAC_BYTES: Final = 8
MAX_SUB_TLVS: Final = 8
"""In one Location; there are four questions to ask."""
IP_BYTES: Final = 16
"""Of every address sub-TLV; an IPv4 address is followed by 12 zero bytes (RFC 8972 section 4.2.1)."""


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """What the reflector saw in the IP and UDP headers of the request: shows address translation on the way.

    Layout: destination port (2), source port (2), sub-TLVs with the header of a TLV.
    """

    destination_port: int = 0
    source_port: int = 0
    sub_tlvs: tuple[Tlv, ...] = ()

    @classmethod
    def request(cls) -> Location:
        """Ask for both addresses and both ports."""
        wanted = (LocationType.DESTINATION_IP, LocationType.SOURCE_IP)
        return cls(sub_tlvs=tuple(Tlv(type=kind, value=bytes(IP_BYTES)) for kind in wanted))

    def to_tlv(self) -> Tlv:
        """As sent."""
        value = _PORTS.pack(self.destination_port, self.source_port) + encode_tlvs(self.sub_tlvs)
        return Tlv(type=TlvType.LOCATION, value=value)

    @classmethod
    def from_tlv(cls, tlv: Tlv) -> Location:
        """Raises DecodeError on a short value or a sub-TLV that is cut short."""
        _require(tlv, TlvType.LOCATION, is_valid=len(tlv.value) >= PORTS_BYTES)
        destination_port, source_port = _PORTS.unpack_from(tlv.value)
        sub_tlvs = decode_tlvs(tlv.value, PORTS_BYTES)
        return cls(destination_port=destination_port, source_port=source_port, sub_tlvs=sub_tlvs)

    def address(self, *kinds: LocationType) -> IPv4Address | IPv6Address | None:
        """The first answered address among the given kinds."""
        for sub in self.sub_tlvs:
            if sub.type in kinds and len(sub.value) == IP_BYTES:
                is_v4 = sub.type in {LocationType.DESTINATION_IPV4, LocationType.SOURCE_IPV4}
                return ip_address(sub.value[:4] if is_v4 else sub.value)
        return None


def class_of_service(dscp: int) -> Tlv:
    """Ask for a DSCP on the way back; the answer has DSCP and ECN with which the request arrived.

    Layout of the 32 bits: DSCP1 (6), DSCP2 (6), ECN (2), RP (2), reserved (16). DSCP1 is what the sender wants, DSCP2
    and ECN what the reflector received, and RP is 1 when its answer was not sent with DSCP1.
    """
    return Tlv(type=TlvType.CLASS_OF_SERVICE, value=(dscp << 26).to_bytes(COS_BYTES, "big"))


class DirectMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """Packet counts of both ends of a session, from which loss by direction follows.

    Layout: sender's transmitted (4), reflector's received (4), reflector's transmitted (4).
    """

    sender_tx: int
    reflector_rx: int = 0
    reflector_tx: int = 0

    def to_tlv(self) -> Tlv:
        """As sent."""
        value = _COUNTERS.pack(self.sender_tx, self.reflector_rx, self.reflector_tx)
        return Tlv(type=TlvType.DIRECT_MEASUREMENT, value=value)

    @classmethod
    def from_tlv(cls, tlv: Tlv) -> DirectMeasurement:
        """Raises DecodeError unless the value has 12 bytes."""
        _require(tlv, TlvType.DIRECT_MEASUREMENT, is_valid=len(tlv.value) == DIRECT_MEASUREMENT_BYTES)
        sender_tx, reflector_rx, reflector_tx = _COUNTERS.unpack(tlv.value)
        return cls(sender_tx=sender_tx, reflector_rx=reflector_rx, reflector_tx=reflector_tx)


def destination_node_address(address: IPv4Address | IPv6Address) -> Tlv:
    """The node a probe is meant for: a probe that reached another one comes back with U set.

    Layout: 4 bytes of IPv4 or 16 of IPv6. A sender of this TLV also sends a non-zero SSID.
    """
    return Tlv(type=TlvType.DESTINATION_NODE_ADDRESS, value=address.packed)


def _require(tlv: Tlv, kind: TlvType, *, is_valid: bool) -> None:
    if tlv.type != kind or not is_valid:
        raise DecodeError("stamp", f"TLV of type {tlv.type} and {len(tlv.value)} bytes is no {kind.name}")
