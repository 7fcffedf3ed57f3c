"""Policy rules as RuleRecords, straight from netlink.

What `Rule` cannot say is somebody else's, and has words only because a person will read about it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

from meshwatchd.adapters.netlink import fibrule
from meshwatchd.adapters.netlink.decode import RuleRecord
from meshwatchd.adapters.netlink.message import attributes, text_of
from meshwatchd.model.decoding import Door


@Door("netlink rule")
def describe_rule(body: bytes) -> RuleRecord:
    """Turn the body of RTM_NEWRULE or RTM_DELRULE of family AF_INET into a RuleRecord.

    Raises:
        DecodeError: the bytes are cut short.
    """
    known = fibrule.decode_rule(body)
    if known is not None:
        rule, text = known.rule, f"rule {known.rule.render()}"
        return RuleRecord(priority=rule.priority, table=rule.table, protocol=known.protocol, rule=rule, text=text)
    priority, protocol = priority_and_protocol(body)
    *_, small_table, _action, _flags = fibrule.RULE.unpack_from(body)
    found = attributes(body, fibrule.RULE.size)
    table = fibrule.number_or(found.get(fibrule.FRA_TABLE), small_table)
    text = f"rule pref {priority} {' '.join(_words(found, table))}"
    return RuleRecord(priority=priority, table=table, protocol=protocol, rule=None, text=text)


def _words(found: Mapping[int, bytes], table: int) -> Iterator[str]:
    """What a rule selects and where it leads, by its attributes."""
    for word, kind in (("from", fibrule.FRA_SRC), ("to", fibrule.FRA_DST)):
        if kind in found:
            yield f"{word} {socket.inet_ntop(socket.AF_INET, found[kind])}"
    for word, kind in (("iif", fibrule.FRA_IIFNAME), ("oif", fibrule.FRA_OIFNAME)):
        if kind in found:
            yield f"{word} {text_of(found[kind]).decode(errors='replace')}"
    if fibrule.FRA_FWMARK in found:
        yield f"fwmark {fibrule.number_or(found[fibrule.FRA_FWMARK])}"
    if fibrule.FRA_IP_PROTO in found:
        yield f"ipproto {found[fibrule.FRA_IP_PROTO][0]}"
    for word, kind in (("sport", fibrule.FRA_SPORT_RANGE), ("dport", fibrule.FRA_DPORT_RANGE)):
        if kind in found:
            first, last = fibrule.PORT_RANGE.unpack(found[kind])
            yield f"{word} {first}:{last}"
    yield f"goto {fibrule.number_or(found[fibrule.FRA_GOTO])}" if fibrule.FRA_GOTO in found else f"lookup {table}"


@Door("netlink rule")
def priority_and_protocol(body: bytes) -> tuple[int, int]:
    """A rule's priority, 0 where it has none, and its protocol.

    Raises:
        DecodeError: the bytes are cut short.
    """
    found = attributes(body, fibrule.RULE.size)
    (priority,) = fibrule.U32.unpack(found.get(fibrule.FRA_PRIORITY, bytes(4)))
    return priority, found.get(fibrule.FRA_PROTOCOL, b"\0")[0]
