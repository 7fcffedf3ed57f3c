"""What a DNS server answers about one name, from a message that dnspython has read."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final, NamedTuple

import dns.message
import dns.rcode
import dns.rdatatype

from meshwatchd.model.service_check import DnsResult

_RESULTS: Final = {
    dns.rcode.NXDOMAIN: DnsResult.NXDOMAIN,
    dns.rcode.SERVFAIL: DnsResult.SERVFAIL,
    dns.rcode.REFUSED: DnsResult.REFUSED,
}


class Found(NamedTuple):
    """What an answer says; see `Lookup` for the fields."""

    result: DnsResult
    addresses: tuple[str, ...] = ()
    zone: str = ""
    detail: str = ""


def read_answer(answer: dns.message.Message) -> Found:
    """The response code, the addresses behind all aliases, and who denies the name."""
    rcode, addresses = answer.rcode(), _addresses(answer)
    result = _RESULTS.get(rcode, DnsResult.OTHER)
    if rcode == dns.rcode.NOERROR:
        result = DnsResult.ADDRESSES if addresses else DnsResult.EMPTY
    return Found(result, addresses if result is DnsResult.ADDRESSES else (), _denier(answer), dns.rcode.to_text(rcode))


def _addresses(answer: dns.message.Message) -> tuple[str, ...]:
    """Every address of the answer, behind aliases too, in the order of numbers: a server's is drawn by lot."""
    kinds = (dns.rdatatype.A, dns.rdatatype.AAAA)
    records = [str(record) for group in answer.answer if group.rdtype in kinds for record in group]
    return tuple(str(address) for address in sorted({ip_address(record) for record in records}, key=int))


def _denier(answer: dns.message.Message) -> str:
    owners = [group.name for group in answer.authority if group.rdtype == dns.rdatatype.SOA]
    return owners[0].to_text(omit_final_dot=True) or "." if owners else ""
