"""Policy rules as RuleRecords, straight from netlink; only the odd ones are pyroute2's to read.

A node of a large mesh has hundreds of rules, all alike. Those that `Rule` can say are taken apart in microseconds;
what is left is somebody else's, and is decoded in full only because a person will read about it.
"""

from __future__ import annotations

import struct
from typing import Final

from pyroute2.netlink.rtnl.marshal import MarshalRtnl

from meshwatchd.adapters.netlink import decode, fibrule, message
from meshwatchd.adapters.netlink.decode import RuleRecord
from meshwatchd.model.decoding import Door

_HEADER_BYTES: Final = 12
_U32: Final = struct.Struct("=I")
_MARSHAL = MarshalRtnl()


@Door("netlink rule")
def describe_rule(body: bytes) -> RuleRecord:
    """Turn the body of RTM_NEWRULE or RTM_DELRULE of family AF_INET into a RuleRecord.

    Raises:
        DecodeError: the bytes are cut short.
    """
    known = fibrule.decode_rule(body)
    if known is None:
        (decoded,) = _MARSHAL.parse(message.encode(message.RTM_NEWRULE, 0, 0, body))
        return decode.decode_rule(decoded)
    rule = known.rule
    return RuleRecord(
        priority=rule.priority, table=rule.table, protocol=known.protocol, rule=rule, text=f"rule {rule.render()}"
    )


@Door("netlink rule")
def priority_and_protocol(body: bytes) -> tuple[int, int]:
    """A rule's priority, 0 where it has none, and its protocol.

    Raises:
        DecodeError: the bytes are cut short.
    """
    found = message.attributes(body, _HEADER_BYTES)
    (priority,) = _U32.unpack(found.get(fibrule.FRA_PRIORITY, bytes(4)))
    return priority, found.get(fibrule.FRA_PROTOCOL, b"\0")[0]
