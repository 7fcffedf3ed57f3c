"""Answers of DNS servers as dnspython reads them; over sockets they are in tests/unit/adapters/service/test_dns.py."""

from __future__ import annotations

import dns.message
import dns.rcode
import dns.rrset

from meshwatchd.adapters.answers.dns import Found, read_answer
from meshwatchd.model.service_check import DnsResult


def _answer(*records):
    """To a question for the addresses of `shop.`; each record is its name, type and texts."""
    answer = dns.message.make_response(dns.message.make_query("shop.", "A"))
    answer.answer += [dns.rrset.from_text(name, 5, "IN", kind, *texts) for name, kind, *texts in records]
    return answer


def test_addresses_behind_an_alias_are_the_names():
    """In the order of numbers, each once."""
    answer = _answer(("shop.", "CNAME", "till."), ("till.", "A", "10.0.0.10", "10.0.0.9"))
    assert Found(DnsResult.ADDRESSES, ("10.0.0.9", "10.0.0.10"), "", "NOERROR") == read_answer(answer)


def test_an_alias_of_nothing_is_empty():
    """NOERROR alone is no address."""
    assert DnsResult.EMPTY is read_answer(_answer(("shop.", "CNAME", "till."))).result


def test_a_denial_names_the_zone_that_denies():
    """By its SOA record; of the root it is a dot."""
    answer = _answer()
    answer.set_rcode(dns.rcode.NXDOMAIN)
    answer.authority.append(dns.rrset.from_text("clusterset.local.", 5, "IN", "SOA", ". . 1 2 3 4 5"))
    assert Found(DnsResult.NXDOMAIN, (), "clusterset.local", "NXDOMAIN") == read_answer(answer)
