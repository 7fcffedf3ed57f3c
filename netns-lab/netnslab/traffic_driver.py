"""The asking end of the traffic source: an open loop of new flows beside one long-lived connection.

Everything happens in one thread and one epoll loop, in this order each turn: read what has arrived,
start what is due, then declare lost what is past its deadline. Reading first means that a source
that was itself delayed does not call an answer lost that was already waiting in its socket.
"""

from __future__ import annotations

import errno
import select
import time
from collections import deque
from dataclasses import dataclass
from typing import TextIO

from netnslab.traffic_clock import Cadence, PunctualityMeter
from netnslab.traffic_flows import DEADLINE_NS, LiveFlow, TcpFlow, UdpFlow, name_of
from netnslab.traffic_ports import MAX_RATE, PortWalk
from netnslab.traffic_records import Flow, FlowKind, Outcome, Record, render
from netnslab.traffic_stream import Stream

# How often buffered lines reach the file, so that a reader can follow.
FLUSH_NS = 200_000_000
PUNCTUALITY_WINDOW_NS = 1_000_000_000
# Ports tried for one flow: one of the permutation may be held by the long-lived connection.
PORT_TRIES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivePlan:
    """What to send.

    Attributes:
        target: IPv4 address of a pod that runs the server.
        rate: new flows a second, UDP and TCP in turn; at most 400, because a 5-tuple may not
            come again within five minutes.
        duration_ns: None = until `stop()`.
    """

    target: str
    rate: int = 200
    duration_ns: int | None = None
    has_stream: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.rate <= 2 * MAX_RATE:
            raise ValueError(f"rate must be 2..{2 * MAX_RATE} new flows a second, not {self.rate}")


class Driver:
    """Runs one plan and writes its records to `output`."""

    def __init__(self, plan: DrivePlan, *, output: TextIO) -> None:
        now_ns = time.monotonic_ns()
        self._plan = plan
        self._output = output
        self._epoll = select.epoll()
        self._flows: dict[int, LiveFlow] = {}
        self._by_age: deque[LiveFlow] = deque()
        self._ports = {kind: PortWalk(now_ns) for kind in FlowKind}
        self._sequence = 0
        interval_ns = 1_000_000_000 // plan.rate
        self._cadence = Cadence(first_ns=now_ns, interval_ns=interval_ns, jitter_ns=interval_ns)
        self._flushes = Cadence(first_ns=now_ns + FLUSH_NS, interval_ns=FLUSH_NS)
        self._windows = Cadence(first_ns=now_ns + PUNCTUALITY_WINDOW_NS, interval_ns=PUNCTUALITY_WINDOW_NS)
        self._meter = PunctualityMeter(now_ns)
        self._end_ns = None if plan.duration_ns is None else now_ns + plan.duration_ns
        self._is_stopping = False
        self._stream = Stream(plan.target, write=self._write, now_ns=now_ns) if plan.has_stream else None

    def stop(self) -> None:
        """Start no more flows; `run()` returns when those in the air have ended."""
        self._is_stopping = True

    def run(self) -> None:
        """Drive until the plan's duration is over or `stop()` was called."""
        if self._stream:
            self._epoll.register(self._stream.sock, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        while not self._is_over():
            ready = self._epoll.poll(self._timeout_s(time.monotonic_ns()))
            for fd, mask in ready:
                self._on_ready(fd, mask)
            self._start_due(time.monotonic_ns())
            self._expire(time.monotonic_ns())
            self._report(time.monotonic_ns())
        self._finish(time.monotonic_ns())

    def _is_over(self) -> bool:
        if self._end_ns is not None and time.monotonic_ns() >= self._end_ns:
            self._is_stopping = True
        return self._is_stopping and not self._by_age

    def _timeout_s(self, now_ns: int) -> float:
        """Seconds to the next thing to do; epoll itself rounds up to a millisecond."""
        instants = [self._flushes.next_ns]
        if not self._is_stopping:
            instants.append(self._cadence.next_ns)
        if self._stream:
            instants.append(self._stream.next_ns)
        if self._by_age:
            instants.append(self._by_age[0].start_ns + DEADLINE_NS)
        return max(0, min(instants) - now_ns) / 1e9

    def _on_ready(self, fd: int, mask: int) -> None:
        now_ns = time.monotonic_ns()
        flow = self._flows.get(fd)
        if flow is None:
            if self._stream and not self._stream.is_over and fd == self._stream.sock.fileno():
                self._stream.on_ready(mask, now_ns)
            return
        interest = flow.interest
        if record := flow.on_ready(now_ns):
            self._end(flow, record)
        elif flow.interest != interest:
            self._epoll.modify(fd, flow.interest)

    def _start_due(self, now_ns: int) -> None:
        if self._stream:
            self._stream.tick(now_ns)
        if self._is_stopping:
            return
        for due_ns in self._cadence.due(now_ns):
            self._start(FlowKind.UDP if self._sequence % 2 == 0 else FlowKind.TCP)
            self._sequence += 1
            self._meter.note(time.monotonic_ns() - due_ns)

    def _start(self, kind: FlowKind) -> None:
        opener = UdpFlow if kind is FlowKind.UDP else TcpFlow
        for _ in range(PORT_TRIES):
            port = self._ports[kind].take()
            start_ns = time.monotonic_ns()
            try:
                flow = opener(self._plan.target, source_port=port, sequence=self._sequence)
            except OSError as error:
                reason = name_of(error.errno)
                if error.errno == errno.EADDRINUSE:
                    continue
                break
            self._flows[flow.sock.fileno()] = flow
            self._by_age.append(flow)
            self._epoll.register(flow.sock, flow.interest)
            return
        self._write(Flow(kind=kind, start_ns=start_ns, outcome=Outcome.REFUSED, source_port=port, reason=reason))

    def _expire(self, now_ns: int) -> None:
        """All flows have the same deadline, so the oldest is always the next to expire."""
        while self._by_age:
            oldest = self._by_age[0]
            has_ended = oldest.sock.fileno() < 0
            if not has_ended and now_ns - oldest.start_ns < DEADLINE_NS:
                return
            self._by_age.popleft()
            if not has_ended:
                self._end(oldest, oldest.expire())

    def _end(self, flow: LiveFlow, record: Flow) -> None:
        del self._flows[flow.sock.fileno()]
        flow.sock.close()  # leaves the epoll set with it
        self._write(record)

    def _report(self, now_ns: int) -> None:
        for _instant in self._windows.due(now_ns):
            self._write(self._meter.close_window(now_ns, skipped=self._cadence.skipped))
            self._cadence.skipped = 0
        for _instant in self._flushes.due(now_ns):
            self._output.flush()

    def _finish(self, now_ns: int) -> None:
        if self._stream:
            self._stream.finish(now_ns)
        self._write(self._meter.close_window(now_ns, skipped=self._cadence.skipped))
        self._output.flush()

    def _write(self, record: Record) -> None:
        self._output.write(render(record) + "\n")
