"""Asks canaries: one datagram and whatever comes back, or one TCP connection.

A canary is no node of the mesh and knows nothing of us, so an answer carries no proof of who gave it. It is reported
like a probe's, with an empty banner, and the core lets it warn only. Those of kinds dns, tls and http are the agent's
to ask (`runtime.service_desk`).

    udp    a DNS question from a fresh source port     any datagram from there is the answer
    tcp    connect() from a port of the kernel's       established, or with expect = "answer" also refused
    bulk   the same, and some full segments            acknowledged by the other end's kernel (`adapters.bulk`)
    udp    between addresses among pods                also an ICMP error of the host that was asked
    tcp    between addresses among pods                the same

A refusal is a segment that acknowledges our SYN (RFC 9293 section 3.10.7.3), so somebody at that address has seen it.
ICMP errors prove nothing of a pod: anybody can send them. Between addresses among pods one that quotes the packet and
comes from whoever was asked proves the way there and back: nobody listens, or the host's own firewall forbids it
(RFC 1122 section 3.2.2.1). What a filter on the way rejects has the filter's own address, and is no answer; the kernel
reports its port unreachable for an IPv4 connection as it reports a refusal, and tells them apart by the error queue.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from meshwatchd.adapters import bulk
from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.canary import CanaryExpect, CanaryKind
from meshwatchd.model.events import Banner, ReplyReceived, SendFailed
from meshwatchd.model.ids import Layer, SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan

QUESTION_LIFE_NS: Final = 1_000_000_000
"""How long an answer is waited for; the core gives up no later. The kernel's first repetition of a SYN is due then."""

_ANSWER_BYTES: Final = 64
"""Whatever is behind it is of no interest."""

_NO_BANNER: Final = Banner()
_SOL_IP: Final = socket.SOL_IP
_IP_RECVERR: Final = 11
"""linux/in.h; the socket module has no name for it."""

_EXTENDED_ERROR: Final = struct.Struct("=I4B2I2xH4s8x")
"""struct sock_extended_err of linux/errqueue.h (errno, origin, type, code, pad, info, data) and behind it the
sockaddr_in of who sent the error: family, port, address, 8 unused bytes."""

_SO_EE_ORIGIN_ICMP: Final = 2

_DNS_HEADER: Final = struct.Struct(">6H")
_DNS_ROOT_NS: Final = b"\0" + struct.pack(">2H", 2, 1)
"""The root's name, type NS, class IN (RFC 1035 section 4.1.2)."""

Emit = Callable[[ReplyReceived | SendFailed], None]


class _Question:
    """One question that may still be answered."""

    __slots__ = ("kind", "plan", "sent_ns", "seq", "socket")

    def __init__(self, plan: SessionPlan, seq: int) -> None:
        assert plan.canary is not None, "sessions of Layer.POD ask a canary"
        self.plan = plan
        self.seq = seq
        self.kind = plan.canary.kind
        family = socket.AF_INET6 if plan.is_ip6 else socket.AF_INET
        kind = socket.SOCK_DGRAM if self.kind is CanaryKind.UDP else socket.SOCK_STREAM
        self.socket = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        if not plan.is_ip6 and (self.kind is CanaryKind.TCP or plan.layer is Layer.POD_NETWORK):
            self.socket.setsockopt(_SOL_IP, _IP_RECVERR, 1)
        self.sent_ns = 0


class CanaryProber:
    """All canaries of kinds udp, tcp and bulk.

    Attributes:
        sessions: whose probes are sent here.
    """

    def __init__(self, *, poller: Poller, counters: Counter[str], emit: Emit) -> None:
        self._poller, self._counters, self._emit = poller, counters, emit
        self._plans: dict[SessionId, SessionPlan] = {}
        self.sessions: frozenset[SessionId] = frozenset()
        # In the order of asking, so that the oldest is the first.
        self._open: dict[int, _Question] = {}

    def configure(self, plans: Iterable[SessionPlan]) -> None:
        """Take over a table of sessions; what was asked of those whose plans are not the same is forgotten."""
        before, self._plans = self._plans, {plan.session: plan for plan in plans}
        self.sessions = frozenset(self._plans)
        gone = {number for number, plan in before.items() if self._plans.get(number) != plan}
        for question in [each for each in self._open.values() if each.plan.session in gone]:
            self._close(question)

    def send(self, command: SendProbe) -> None:
        """Ask once; what keeps the question from leaving becomes SendFailed."""
        plan = self._plans[command.session]
        try:
            question = _Question(plan, command.seq)
        except OSError as error:
            # No descriptor is left, or the host has no IPv6.
            self._counters["canaries-failed"] += 1
            self._emit(SendFailed(session=plan.session, seq=command.seq, errno=error.errno or 0))
            return
        is_datagram = question.kind is CanaryKind.UDP
        self._open[question.socket.fileno()] = question
        self._poller.add(question.socket.fileno(), self._on_datagram if is_datagram else self._on_connected)
        question.sent_ns = monotonic_ns()
        try:
            if is_datagram:
                _ask(question, command.source_port)
            else:
                self._connect(question)
        except OSError as error:
            self._fail(question, error.errno or 0)
            return
        self._counters["canaries-asked"] += 1

    def expire(self, now_ns: int) -> None:
        """Close what is older than QUESTION_LIFE_NS."""
        limit_ns = now_ns - QUESTION_LIFE_NS
        while self._open and (oldest := next(iter(self._open.values()))).sent_ns < limit_ns:
            self._close(oldest)

    def close(self) -> None:
        """Close every socket and forget every session."""
        for question in [*self._open.values()]:
            self._close(question)
        self._plans, self.sessions = {}, frozenset()

    def _connect(self, question: _Question) -> None:
        if question.kind is CanaryKind.BULK:
            bulk.prepare(question.socket)
        if question.plan.source:
            question.socket.bind((question.plan.source, 0))
        result = question.socket.connect_ex((question.plan.destination, question.plan.port))
        if result == errno.EINPROGRESS:
            self._poller.set_writing(question.socket.fileno(), is_wanted=True)
        else:
            self._conclude(question, result)

    def _on_connected(self, fd: int) -> None:
        question = self._open[fd]
        self._conclude(question, question.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _conclude(self, question: _Question, result: int) -> None:
        """Judge a connection by the errno it ended with; 0 stands for established."""
        assert question.plan.canary is not None, "sessions of Layer.POD ask a canary"
        if question.kind is CanaryKind.BULK and result == 0:
            self._carry(question)
            return
        is_refusal_enough = question.kind is CanaryKind.TCP and question.plan.canary.expect is CanaryExpect.ANSWER
        if result == 0 or (is_refusal_enough and _is_proof(question, result)):
            self._accept(question)
        else:
            self._fail(question, result)

    def _carry(self, question: _Question) -> None:
        """Go on with an established connection: called again whenever something was acknowledged."""
        try:
            is_acknowledged = bulk.carry_on(question.socket)
        except OSError as error:
            self._fail(question, error.errno or 0)
            return
        if is_acknowledged:
            self._accept(question)
        else:
            self._poller.set_writing(question.socket.fileno(), is_wanted=True)

    def _on_datagram(self, fd: int) -> None:
        question = self._open[fd]
        try:
            question.socket.recv(_ANSWER_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._counters["icmp-errors"] += 1
            if question.plan.layer is not Layer.POD_NETWORK:
                return
            if _who_denied(question.socket) != question.plan.destination:
                self._fail(question, error.errno or 0)
                return
        self._accept(question)

    def _accept(self, question: _Question) -> None:
        self._close(question)
        self._counters["canaries-answered"] += 1
        self._emit(
            ReplyReceived(
                session=question.plan.session,
                seq=question.seq,
                rtt_ns=max(0, monotonic_ns() - question.sent_ns),
                peer_epoch=0,
                banner=_NO_BANNER,
            )
        )

    def _fail(self, question: _Question, reason: int) -> None:
        self._close(question)
        self._counters["canaries-failed"] += 1
        self._emit(SendFailed(session=question.plan.session, seq=question.seq, errno=reason))

    def _close(self, question: _Question) -> None:
        fd = question.socket.fileno()
        del self._open[fd]
        self._poller.forget(fd)
        question.socket.close()


def _ask(question: _Question, source_port: int) -> None:
    question.socket.bind((question.plan.source, source_port))
    question.socket.connect((question.plan.destination, question.plan.port))
    question.socket.send(_DNS_HEADER.pack(question.seq & 0xFFFF, 0, 1, 0, 0, 0) + _DNS_ROOT_NS)


def _is_proof(question: _Question, result: int) -> bool:
    """Whether a connection that failed proves the way there and back.

    A segment that refuses it does, and so does an ICMP error of whoever was asked: that the port is closed, and between
    addresses among pods any other, since a host's own firewall may forbid it. What a filter on the way says does not.
    """
    denier = _who_denied(question.socket)
    if result == errno.ECONNREFUSED:
        return denier in ("", question.plan.destination)
    return question.plan.layer is Layer.POD_NETWORK and denier == question.plan.destination


def _who_denied(asking: socket.socket) -> str:
    """Who sent the ICMP error that ended a question; empty where none did, or the kernel does not say.

    Kernels before 5.10 do not, of a connection.
    """
    for level, kind, data in _receive_error(asking):
        if (level, kind) == (_SOL_IP, _IP_RECVERR) and len(data) >= _EXTENDED_ERROR.size:
            _, origin, *_, sender = _EXTENDED_ERROR.unpack_from(data)
            if origin == _SO_EE_ORIGIN_ICMP:
                return socket.inet_ntoa(sender)
    return ""


def _receive_error(asking: socket.socket) -> list[tuple[int, int, bytes]]:
    """The ancillary data of the error that a socket was told of; nothing where the kernel keeps none."""
    try:
        return asking.recvmsg(_ANSWER_BYTES, socket.CMSG_SPACE(_EXTENDED_ERROR.size), socket.MSG_ERRQUEUE)[1]
    except OSError:
        return []
