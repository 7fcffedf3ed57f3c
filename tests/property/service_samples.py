"""What is decoded for `meshwatchctl service`, with inputs that are accepted."""

from __future__ import annotations

import dns.exception
import dns.message
import dns.rrset
import msgspec
from nacl.signing import SigningKey

from meshwatchd.adapters.answers.dns import read_answer
from meshwatchd.adapters.answers.tls import read_end
from meshwatchd.adapters.service.api import ANSWER
from meshwatchd.adapters.service.memory import Answer, Answers
from meshwatchd.model.decoding import FAILURES, decode_json
from meshwatchd.model.service_check import ApiFacts
from tests.support.certificates import make_certificate
from tests.support.example_services import CONFLICTING, NONE_READY

DNS_REFUSALS = (dns.exception.DNSException, *FAILURES)
"""What `adapters.service.dns.look_up` takes for no answer."""

CERTIFICATE = make_certificate(SigningKey(bytes(32)))
KUBELET = b"clusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\n"
SERVICES = msgspec.json.encode(Answers(answers={"a": Answer(addresses=("::1",), is_local=True, at_s=7)}))
FACTS = (msgspec.json.encode(CONFLICTING), msgspec.json.encode(NONE_READY))


def _answer(record: str, *texts: str) -> bytes:
    """An answer to a question for addresses; a SOA record is the authority's."""
    answer = dns.message.make_response(dns.message.make_query("shop.", "A", id=7))
    section = answer.authority if record == "SOA" else answer.answer
    section.append(dns.rrset.from_text("shop.", 5, "IN", record, *texts))
    return answer.to_wire()


DNS_ANSWERS = (_answer("A", "10.110.3.4"), _answer("CNAME", "x."), _answer("SOA", ". . 1 2 3 4 5"))


def read_dns(data: bytes) -> object:
    """As it comes from a server."""
    return read_answer(dns.message.from_wire(data))


def read_certificate(data: bytes) -> bytes:
    """As a peer shows it."""
    return msgspec.msgpack.encode(read_end(data))


def read_facts(data: bytes) -> ApiFacts:
    """As meshwatchd-kube prints it."""
    return decode_json(data, ApiFacts, ANSWER)
