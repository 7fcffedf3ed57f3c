"""The questions of canaries of kinds dns, tls and http that are under way: asked, watched, and told at their end.

What one of them does is `adapters.service_canary`.
"""

from __future__ import annotations

import ssl
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from meshwatchd.adapters.answers.tls import TlsWish, accepting
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.service_canary import Exchange
from meshwatchd.model.canary import Canary, CanaryKind
from meshwatchd.model.events import SendFailed
from meshwatchd.model.ids import SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.model.service_check import Reach, ServiceSeen

MAX_OPEN: Final = 4
"""Exchanges of one canary at a time: one a second is asked for, and in doubt some more."""

Emit = Callable[[ServiceSeen | SendFailed], None]


class ServiceProber:
    """All canaries of kinds dns, tls and http."""

    def __init__(self, *, poller: Poller, counters: Counter[str], emit: Emit) -> None:
        self._poller, self._counters, self._emit = poller, counters, emit
        self._plans: dict[SessionId, SessionPlan] = {}
        self._open: dict[tuple[SessionId, int], Exchange] = {}
        self._answered: dict[Canary, str] = {}
        self._contexts: dict[str, ssl.SSLContext] = {}

    def configure(self, plans: Iterable[SessionPlan]) -> None:
        """Take over a table of sessions; what was asked of those whose plans are not the same is forgotten."""
        before, self._plans = self._plans, {plan.session: plan for plan in plans}
        for key, exchange in [*self._open.items()]:
            if self._plans.get(key[0]) != before.get(key[0]):
                self._drop(exchange)
        wanted = {plan.canary for plan in self._plans.values()}
        self._answered = {canary: address for canary, address in self._answered.items() if canary in wanted}
        alpns = {plan.canary.alpn for plan in self._plans.values() if plan.canary is not None}
        # Made here once: a context takes a millisecond.
        self._contexts = {alpn: self._contexts.get(alpn) or accepting(TlsWish(alpn=alpn)) for alpn in sorted(alpns)}

    def send(self, command: SendProbe) -> None:
        """Ask once; a source port that is taken becomes SendFailed."""
        plan = self._plans[command.session]
        assert plan.canary is not None, "sessions of Layer.POD ask a canary"
        own = [exchange for key, exchange in self._open.items() if key[0] == command.session]
        if len(own) >= MAX_OPEN:
            self._tell(own[0])
        self._counters["canaries-asked"] += 1
        key, last = (plan.session, command.seq), self._answered.get(plan.canary, "")
        try:
            # A host without IPv6 has no such socket.
            exchange = self._open[key] = Exchange(plan, command.seq, last=last, contexts=self._contexts)
            is_done = exchange.begin(command.source_port)
        except OSError as error:
            if key in self._open:
                self._drop(self._open[key])
            self._counters["canaries-failed"] += 1
            self._emit(SendFailed(session=plan.session, seq=command.seq, errno=error.errno or 0))
            return
        self._watch(exchange, is_done)

    def expire(self, now_ns: int) -> None:
        """Tell what has been found by those that are out of time, or that have waited long enough for an alert."""
        for exchange in [each for each in self._open.values() if each.is_over(now_ns)]:
            self._tell(exchange)

    def deadline(self) -> int | None:
        """When the next one is over; None while nothing is under way."""
        return min((each.due_ns for each in self._open.values()), default=None)

    def give_up(self, now_ns: int, reason: int) -> None:
        """End those that are out of time, and tell nothing of them but the errno that is given as the reason."""
        for exchange in [each for each in self._open.values() if each.is_over(now_ns)]:
            self._drop(exchange)
            self._emit(SendFailed(session=exchange.plan.session, seq=exchange.seq, errno=reason))

    def close(self) -> None:
        """Close every socket and forget every session."""
        for exchange in [*self._open.values()]:
            self._drop(exchange)
        self._plans = {}

    def _watch(self, exchange: Exchange, is_done: bool) -> None:
        """Follow an exchange to its next socket, or to its end."""
        if is_done:
            self._tell(exchange)
        elif exchange.watched is not exchange.socket:
            self._forget(exchange)
            exchange.watched = exchange.socket
            self._poller.add(exchange.socket.fileno(), lambda _fd: self._ready(exchange))
            self._poller.set_writing(exchange.socket.fileno(), is_wanted=exchange.wants_writing)
        elif exchange.watched is not None:
            self._poller.set_writing(exchange.watched.fileno(), is_wanted=exchange.wants_writing)

    def _ready(self, exchange: Exchange) -> None:
        try:
            is_done = exchange.ready()
        except OSError as error:
            is_done = exchange.broken(error)
        self._watch(exchange, is_done)

    def _tell(self, exchange: Exchange) -> None:
        self._drop(exchange)
        seen = exchange.seen()
        connection = seen.connection
        if connection is not None and connection.reach is Reach.ESTABLISHED and exchange.canary.kind is CanaryKind.DNS:
            self._answered[exchange.canary] = connection.address
        self._counters["services-seen"] += 1
        self._emit(seen)

    def _drop(self, exchange: Exchange) -> None:
        self._open.pop((exchange.plan.session, exchange.seq), None)
        self._forget(exchange)
        exchange.close()

    def _forget(self, exchange: Exchange) -> None:
        if exchange.watched is not None:
            self._poller.forget(exchange.watched.fileno())
            exchange.watched.close()
            exchange.watched = None
