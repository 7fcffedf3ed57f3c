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
