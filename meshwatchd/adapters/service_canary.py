"""Asks for services by their own protocols: canaries of kinds dns, tls and http, without ever waiting.

    dns    two questions by one new socket --> an address --> connect, where that is wanted
    tls    connect --> handshake --> an alert behind it, or 0.15 s without one
    http   connect --> (handshake, where there is an sni) --> GET --> its status

Each question is one `Exchange`, which has one socket at a time and a second in all; what it has found by then is told
as ServiceSeen, whatever it is. `adapters.service_prober` has all of them. The agent loads this module, and dnspython
with it, where such a canary is declared and nowhere else: 3.3 MiB, and 41 ms once. A handshake or an answer of DNS
costs under a millisecond.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Final

import dns.exception
import dns.message
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.SOA
import dns.rdtypes.IN.A

from meshwatchd.adapters.answers.dns import Found, read_answer
from meshwatchd.adapters.answers.http import STATUS_BYTES, read_status, request
from meshwatchd.adapters.answers.tls import ALERT_WAIT_S, TlsWish, describe, describe_failure
from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.model.canary import CanaryKind
from meshwatchd.model.decoding import FAILURES
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.service_check import (
    Connection,
    DnsResult,
    Handshake,
    HttpResult,
    Lookup,
    Origin,
    Reach,
    ServiceSeen,
    TlsResult,
)
from meshwatchd.model.units import SECOND

EXCHANGE_LIFE_NS: Final = SECOND
"""The kernel's first repetition of a SYN is due then, and the core gives up no later."""
ALERT_WAIT_NS: Final = int(ALERT_WAIT_S * SECOND)

MAX_ADDRESSES: Final = 8
"""Of an answer that are told."""
MAX_DATAGRAM_BYTES: Final = 1_232
"""What is asked for takes no more without EDNS (RFC 1035: 512); whoever sends more is cut off."""
MAX_ANSWERS: Final = 8
"""Datagrams read at a time, and of one exchange in all twice as many: whoever floods is not listened to."""
MAX_TLS_BYTES: Final = 65_536
"""Of a handshake; chains of certificates have some KiB."""
_READ_BYTES: Final = 16_384

_REACHES: Final = {errno.ECONNREFUSED: Reach.REFUSED, errno.ECONNRESET: Reach.REFUSED}

# dnspython imports these when it first meets such a record, while answers wait.
_RECORDS: Final = (dns.rdtypes.IN.A, dns.rdtypes.ANY.CNAME, dns.rdtypes.ANY.SOA)


class Exchange:
    """One question of one canary, from its first packet to what it has found.

    Attributes:
        socket: of the present step; `watched` is the one that the poller knows.
        wants_writing: whether the present step waits for room in the socket, or for a connection.
    """

    def __init__(self, plan: SessionPlan, seq: int, *, last: str, contexts: Mapping[str, ssl.SSLContext]) -> None:
        assert plan.canary is not None, "sessions of Layer.POD ask a canary"
        self.plan, self.seq, self.canary = plan, seq, plan.canary
        self.watched: socket.socket | None = None
        self.wants_writing = False
        self._last, self._contexts = last, contexts
        self._began_ns = self._step_ns = monotonic_ns()
        self._answered_ns = 0
        self._address, self._port, self._origin = plan.destination, plan.port, Origin.GIVEN
        self._questions: dict[str, dns.message.QueryMessage] = {}
        self._found: dict[str, Found] = {}
        self._datagrams = self._taken_bytes = 0
        self._reach: Reach | None = None
        self._reach_ns, self._detail = 0, ""
        self._tls: TlsResult | None = None
        self._object: ssl.SSLObject | None = None
        self._is_shaken = self._has_asked = False
        self._status: int | None = None
        self._said = b""
        self._outbox = b""
        self._step: Callable[[], bool] = self._read_datagrams
        self._into, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        is_dns = self.canary.kind is CanaryKind.DNS
        self.socket = _open(plan.destination, socket.SOCK_DGRAM if is_dns else socket.SOCK_STREAM)

    def begin(self, source_port: int) -> bool:
        """Send the first packet; whether there is nothing to wait for.

        Raises:
            OSError: it cannot leave; EADDRINUSE: the source port is taken.
        """
        if self.canary.kind is not CanaryKind.DNS:
            return self._connect()
        self.socket.bind(("", source_port))
        self.socket.connect((self._address, self._port))
        for name in dict.fromkeys((self.canary.lookup, self.canary.control)):
            if name:
                self._questions[name] = dns.message.make_query(f"{name}.", "A")
                self.socket.send(self._questions[name].to_wire())
        return False

    def ready(self) -> bool:
        """Go on as far as that goes without waiting; whether all is found.

        Raises:
            OSError: the connection is over.
        """
        return self._step()

    def broken(self, error: OSError) -> bool:
        """The socket reports an error; ICMP errors of datagrams prove nothing, since anybody can send them."""
        if self._step == self._read_datagrams:
            return False
        if self._object is not None and self._tls is None:
            self._tls = describe_failure(error, self._wish())
        elif self._object is not None and self._is_shaken and not self._has_asked:
            # Behind a handshake of TLS 1.3: an alert is about the client's certificate.
            failed = describe_failure(error, self._wish())
            self._tls = failed if failed.outcome is Handshake.ALERT else self._tls
        elif isinstance(error, ssl.SSLError):
            failed = describe_failure(error, self._wish())
            self._tls = failed if failed.outcome is Handshake.ALERT else self._tls
            self._status = 0
        else:
            self._status = 0
        return True

    def is_over(self, now_ns: int) -> bool:
        """Whether its time is up."""
        return now_ns >= self.due_ns

    @property
    def due_ns(self) -> int:
        """When its time is up."""
        return self._answered_ns + ALERT_WAIT_NS if self._answered_ns else self._began_ns + EXCHANGE_LIFE_NS

    def close(self) -> None:
        """Whatever is under way."""
        self.socket.close()

    def seen(self) -> ServiceSeen:
        """What is known; a step that is not over counts as silent."""
        is_dns = self.canary.kind is CanaryKind.DNS
        has_connected = not is_dns or self._step != self._read_datagrams
        return ServiceSeen(
            session=self.plan.session,
            seq=self.seq,
            rtt_ns=(self._answered_ns or monotonic_ns()) - self._began_ns,
            lookup=self._lookup(self.canary.lookup) if is_dns else None,
            # One that comes later than the name's answer is not waited for.
            control=self._lookup(self.canary.control) if is_dns and self._is_control_known() else None,
            connection=self._connection() if has_connected else None,
        )

    def _is_control_known(self) -> bool:
        return self.canary.control in self._found or self.canary.lookup not in self._found

    # -- the name ----------------------------------------------------------------------------------------------------

    def _read_datagrams(self) -> bool:
        for _ in range(MAX_ANSWERS):
            try:
                data = self.socket.recv(MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                break
            self._datagrams += 1
            self._take_answer(data)
        if self.canary.lookup not in self._found:
            return self._datagrams >= 2 * MAX_ANSWERS
        found = self._found[self.canary.lookup]
        address = found.addresses[0] if found.addresses else self._last
        if not self.canary.connect or not address:
            return True
        self._origin = Origin.ANSWER if found.addresses else Origin.LAST
        self._address, self._port = address, self.canary.connect
        self.socket = _open(address, socket.SOCK_STREAM)
        return self._connect()

    def _take_answer(self, data: bytes) -> None:
        try:
            answer = dns.message.from_wire(data, ignore_trailing=True)
            for name, question in self._questions.items():
                if question.is_response(answer):
                    self._found.setdefault(name, read_answer(answer))
        except (dns.exception.DNSException, *FAILURES):
            return  # what makes no sense is no answer

    def _lookup(self, name: str) -> Lookup:
        found = self._found.get(name, Found(DnsResult.SILENT))
        address = f"[{self.plan.destination}]" if self.plan.is_ip6 else self.plan.destination
        return Lookup(
            server=address if self.plan.port == 53 else f"{address}:{self.plan.port}",
            name=name,
            result=found.result,
            addresses=found.addresses[:MAX_ADDRESSES],
            zone=found.zone,
            time_ns=monotonic_ns() - self._began_ns,
            detail=found.detail,
        )

    # -- the connection ----------------------------------------------------------------------------------------------

    def _connect(self) -> bool:
        self._step, self._step_ns = self._connected, monotonic_ns()
        result = self.socket.connect_ex((self._address, self._port))
        if result == errno.EINPROGRESS:
            self.wants_writing = True
            return False
        return self._judge(result)

    def _connected(self) -> bool:
        return self._judge(self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _judge(self, result: int) -> bool:
        self._reach_ns = monotonic_ns() - self._step_ns
        if result:
            self._reach, self._detail = _REACHES.get(result, Reach.UNREACHABLE), os.strerror(result)
            return True
        self._reach, self.wants_writing = Reach.ESTABLISHED, False
        if self.canary.kind is CanaryKind.DNS:
            return True
        if self.canary.kind is CanaryKind.TLS or self.canary.sni:
            context = self._contexts[self.canary.alpn]
            self._object = context.wrap_bio(self._into, self._out, server_hostname=self.canary.sni or None)
            self._step = self._shake
        else:
            self._outbox, self._has_asked, self._step = self._request(), True, self._read_status
        return self._step()

    def _shake(self) -> bool:
        """The handshake, and what comes behind it."""
        assert self._object is not None, "made with the connection"
        while True:
            try:
                if not self._is_shaken:
                    self._object.do_handshake()
                    self._is_shaken, self._tls = True, describe(self._object, self._wish())
                    if self.canary.kind is CanaryKind.HTTP:
                        self._object.write(self._request())
                        self._has_asked = True
                    else:
                        self._answered_ns = monotonic_ns()
                return self._read_inside()
            except ssl.SSLWantReadError:
                self._flush()
                if not self._feed():
                    return False

    def _read_inside(self) -> bool:
        assert self._object is not None, "made with the connection"
        data = self._object.read(_READ_BYTES)
        if self.canary.kind is CanaryKind.TLS:
            return True
        return self._take_status(data)

    def _feed(self) -> bool:
        """Pass on what has arrived; whether anything has."""
        try:
            data = self.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        self._taken_bytes += len(data)
        if self._taken_bytes > MAX_TLS_BYTES:
            raise ConnectionResetError(errno.ECONNRESET, "more bytes than a handshake has")
        if data:
            self._into.write(data)
        else:
            self._into.write_eof()
        return True

    def _flush(self) -> None:
        self._outbox += self._out.read()
        if self._outbox:
            with contextlib.suppress(BlockingIOError):
                self._outbox = self._outbox[self.socket.send(self._outbox) :]
        self.wants_writing = bool(self._outbox)

    def _read_status(self) -> bool:
        self._flush()
        while True:
            try:
                data = self.socket.recv(_READ_BYTES)
            except BlockingIOError:
                return False
            if self._take_status(data):
                return True

    def _take_status(self, data: bytes) -> bool:
        self._said += data
        if data and len(self._said) < STATUS_BYTES:
            return False
        self._status = read_status(self._said[:STATUS_BYTES])
        return True

    def _request(self) -> bytes:
        address = f"[{self._address}]" if self.plan.is_ip6 else self._address
        return request(self.canary.path, self.canary.sni or address, "meshwatchd")

    def _wish(self) -> TlsWish:
        return TlsWish(self.canary.sni, self.canary.alpn)

    def _connection(self) -> Connection:
        wants_http = self.canary.kind is CanaryKind.HTTP and self._reach is Reach.ESTABLISHED
        talk = self._tls
        if talk is None and self._object is not None:
            talk = TlsResult(outcome=Handshake.SILENT, sni=self.canary.sni)
        has_http = wants_http and (self._has_asked or self._object is None)
        return Connection(
            address=self._address,
            port=self._port,
            origin=self._origin,
            reach=self._reach or Reach.SILENT,
            time_ns=self._reach_ns or monotonic_ns() - self._step_ns,
            tls=talk,
            http=HttpResult(path=self.canary.path, status=self._status or 0) if has_http else None,
            detail=self._detail,
        )


def _open(address: str, kind: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
