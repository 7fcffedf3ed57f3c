"""One question to one DNS server.

Each try leaves by a new socket, so a flow that the network remembers cannot answer for one that is new. Names are
absolute: no search list makes another question of them.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import Final

import dns.asyncquery
import dns.exception
import dns.message

from meshwatchd.adapters.answers.dns import Found, read_answer
from meshwatchd.adapters.wireguard.state import render_endpoint
from meshwatchd.model.decoding import FAILURES, MAX_REASON_CHARACTERS
from meshwatchd.model.service_check import DnsResult, Lookup

TRIES: Final = 2
"""One datagram that is lost proves nothing."""
TRY_S: Final = 0.45
DNS_PORT: Final = 53

Server = tuple[str, int]
"""Address and UDP port."""


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
