"""One question to one DNS server.

Each try leaves by a new socket, so a flow that the network remembers cannot answer for one that is new. Names are
absolute: no search list makes another question of them.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from time import monotonic_ns
from typing import Final, NamedTuple

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode
import dns.rdatatype

from meshwatchd.adapters.wireguard.state import render_endpoint
from meshwatchd.model.decoding import FAILURES, MAX_REASON_CHARACTERS
from meshwatchd.model.service_check import DnsResult, Lookup

TRIES: Final = 2
"""One datagram that is lost proves nothing."""
TRY_S: Final = 0.45
DNS_PORT: Final = 53

Server = tuple[str, int]
"""Address and UDP port."""

_RESULTS: Final = {
    dns.rcode.NXDOMAIN: DnsResult.NXDOMAIN,
    dns.rcode.SERVFAIL: DnsResult.SERVFAIL,
    dns.rcode.REFUSED: DnsResult.REFUSED,
}


async def look_up(server: Server, name: str, record: str = "A") -> Lookup:
    """Ask for the addresses of an absolute name; takes 0.9 s at most. An answer that makes no sense is none."""
    began_ns = monotonic_ns()
    try:
        found = read_answer(await _ask(server, dns.message.make_query(f"{name}.", record)))
    except (dns.exception.Timeout, TimeoutError):
        found = Found(DnsResult.SILENT)
    except (dns.exception.DNSException, OSError, *FAILURES) as error:
        found = Found(DnsResult.SILENT, detail=str(error)[:MAX_REASON_CHARACTERS])
    return Lookup(
        server=render_server(server),
        name=name,
        record=record,
        result=found.result,
        addresses=found.addresses,
        zone=found.zone,
        time_ns=monotonic_ns() - began_ns,
        detail=found.detail,
    )


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


def render_server(server: Server) -> str:
    """As people write it; the usual port is left out."""
    address, port = server
    return address if port == DNS_PORT else render_endpoint(address, port)


async def _ask(server: Server, question: dns.message.QueryMessage) -> dns.message.Message:
    address, port = server
    for remaining in reversed(range(TRIES)):
        try:
            async with asyncio.timeout(TRY_S):
                # A datagram from elsewhere is no answer, and no reason to stop waiting for one.
                answer, _ = await dns.asyncquery.udp_with_fallback(
                    question, address, timeout=TRY_S, port=port, ignore_unexpected=True
                )
                return answer
        except (dns.exception.Timeout, TimeoutError):
            if not remaining:
                raise
    raise AssertionError("the last try returns or raises")


def _addresses(answer: dns.message.Message) -> tuple[str, ...]:
    """Every address of the answer, behind aliases too, in the order of numbers: a server's is drawn by lot."""
    kinds = (dns.rdatatype.A, dns.rdatatype.AAAA)
    records = [str(record) for group in answer.answer if group.rdtype in kinds for record in group]
    return tuple(str(address) for address in sorted({ip_address(record) for record in records}, key=int))


def _denier(answer: dns.message.Message) -> str:
    owners = [group.name for group in answer.authority if group.rdtype == dns.rdatatype.SOA]
    return owners[0].to_text(omit_final_dot=True) or "." if owners else ""
