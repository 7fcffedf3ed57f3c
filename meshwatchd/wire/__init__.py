"""Bytes to data and back: the packets that probes are made of.

Probes are authenticated STAMP (RFC 8762) with the extensions of RFC 8972 and RFC 9503 and two private TLVs:
any STAMP dissector reads them, and nothing in STAMP forbids a new source port for each packet, as BFD does.
From the frame to the hot path:

    ntp            timestamps and error estimates
    tlv            the frame of extensions; standard_tlv, report_tlv and mesh_tlv give their values a meaning
    stamp          base packets, sender's and reflector's, open and authenticated
    auth           keys of a pair of nodes, tags
    seal           the shape of a mesh packet and its two signatures
    mould          packets that differ in base and tags alone, put together and signed
    template       sending: packed once, numbered, dated and signed per probe
    parse          receiving: verified before believed
    answer         what a reflector fills into each TLV; reflect makes the whole answer
    hello          what daemons tell of themselves; signed with one key for the whole mesh
    replay         which verified requests are too old to matter
    standard_*     the same for peers of other makers: signatures, sender's packets, reflector's answers

Decoding never trusts: a length is checked before it is believed. The TLV classes raise DecodeError with a
reason; the hot path raises nothing and returns a RejectReason that can be counted. Time, keys and randomness are
arguments.
"""

from meshwatchd.wire.answer import Arrival, Reflector
from meshwatchd.wire.auth import KeyRole, MeshKeys, MeshSecret, PairKey, node_id
from meshwatchd.wire.mesh_tlv import (
    FLAG_ADMIN_DOWN,
    FLAG_BRIEF,
    FLAG_CONFIRM_BURST,
    FLAG_EFFECTIVE,
    FLAG_FRAGMENTS,
    FLAG_FRESH,
    FLAG_MISFIT,
    FLAG_REPLY,
    FLAG_SIZE,
    NODE_FLAGS,
    Coordination,
    CoordinationKind,
    Diagnostic,
    GossipEntry,
    MeshFields,
    OwnState,
    encode_gossip,
    hundredths,
)
from meshwatchd.wire.mould import Mould, Pieces, cut, is_signed, shared
from meshwatchd.wire.ntp import ErrorEstimate, ns_from_ntp, ntp_from_ns
from meshwatchd.wire.parse import ParsedProbe, RejectReason, check_tags, verify_and_parse
from meshwatchd.wire.reflect import read_asked, reflect, reflect_again
from meshwatchd.wire.replay import ReplayGuard, ReplayVerdict
from meshwatchd.wire.seal import peek
from meshwatchd.wire.standard_probe import StandardProbe, StandardReply, read_reply
from meshwatchd.wire.standard_reflect import StandardRequest, answer_request, read_request
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate, probe_bytes

__all__ = [
    "FLAG_ADMIN_DOWN",
    "FLAG_BRIEF",
    "FLAG_CONFIRM_BURST",
    "FLAG_EFFECTIVE",
    "FLAG_FRAGMENTS",
    "FLAG_FRESH",
    "FLAG_MISFIT",
    "FLAG_REPLY",
    "FLAG_SIZE",
    "NODE_FLAGS",
    "Arrival",
    "Coordination",
    "CoordinationKind",
    "Diagnostic",
    "ErrorEstimate",
    "GossipEntry",
    "KeyRole",
    "MeshFields",
    "MeshKeys",
    "MeshSecret",
    "Mould",
    "OwnState",
    "PairKey",
    "ParsedProbe",
    "Pieces",
    "ProbeSpec",
    "ProbeTemplate",
    "Reflector",
    "RejectReason",
    "ReplayGuard",
    "ReplayVerdict",
    "StandardProbe",
    "StandardReply",
    "StandardRequest",
    "answer_request",
    "check_tags",
    "cut",
    "encode_gossip",
    "hundredths",
    "is_signed",
    "node_id",
    "ns_from_ntp",
    "ntp_from_ns",
    "peek",
    "probe_bytes",
    "read_asked",
    "read_reply",
    "read_request",
    "reflect",
    "reflect_again",
    "shared",
    "verify_and_parse",
]
