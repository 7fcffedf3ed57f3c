"""What a host is set to, or counts, that loses packets without a trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.host import STRICT, HostState
from meshwatchd.model.settings import SECOND

FULL_PERCENT = 97
"""Entries are dropped early before the very last is taken, and the count lags behind."""

INVALID_PER_S = 20
CHECKSUM_ERRORS_PER_S = 1
"""A lone packet after a timeout, or one that cosmic rays have hit, is nobody's fault."""

WINDOW_NS = 10 * SECOND
"""Rates are told over this long, from a look every few seconds."""


class HostAudit:
    """Follows one host from look to look.

    Args:
        node: its name.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._past: deque[HostState] = deque(maxlen=16)

    def observe(self, state: HostState) -> None:
        """Take in what is so at present."""
        self._past.append(state)
        while len(self._past) > 2 and state.at_ns - self._past[1].at_ns >= WINDOW_NS:
            self._past.popleft()

    @property
    def is_forwarding(self) -> bool:
        """Whether this node passes packets on, out of every device of the mesh; False before the first look."""
        if not self._past:
            return False
        state = self._past[-1]
        # By the devices, if any was looked at.
        return not state.unforwarding and (state.is_forwarding is not False or bool(state.rp_filter))

    @property
    def past(self) -> tuple[HostState, ...]:
        """What was taken in over WINDOW_NS, the oldest first."""
        return tuple(self._past)

    def look(self, *, has_cni: bool) -> tuple[AuditFinding, ...]:
        """What is wrong; nothing before the first look.

        Args:
            has_cni: whether the CNI's device is up. The CNI turns forwarding on when it starts: before that there is
                nothing to forward.
        """
        return tuple(self._look(self._past[-1], has_cni=has_cni)) if self._past else ()

    def _look(self, state: HostState, *, has_cni: bool) -> Iterator[AuditFinding]:
        if has_cni:
            yield from self._look_at_forwarding(state)
        for device, value in state.rp_filter.items():
            if value == STRICT:
                because = f"the larger of net.ipv4.conf.all.rp_filter and net.ipv4.conf.{device}.rp_filter is 1"
                yield self._finding(FaultCode.RP_FILTER_STRICT, device, "rp_filter", because)
        yield from self._look_at_conntrack(state)
        errors = self._rate("udp_checksum_errors")
        if errors >= CHECKSUM_ERRORS_PER_S:
            because = f"{errors:.0f} datagrams a second have a wrong checksum (UdpInCsumErrors)"
            yield self._finding(FaultCode.OFFLOAD_FAULT, "", "udp", because)

    def _look_at_forwarding(self, state: HostState) -> Iterator[AuditFinding]:
        """The kernel asks the device that a packet comes in by; `ip_forward` is written to all of them, and not asked.

        OVN-Kubernetes has it off on purpose, and on at the devices that need it.
        """
        if state.is_forwarding is False and state.unforwarding and state.rp_filter.keys() <= {*state.unforwarding}:
            yield self._finding(FaultCode.FORWARDING_OFF, "", "ip_forward", "net.ipv4.ip_forward is 0")
        else:
            for device in state.unforwarding:
                because = f"net.ipv4.conf.{device}.forwarding is 0"
                yield self._finding(FaultCode.FORWARDING_OFF, device, "forwarding", because)

    def _look_at_conntrack(self, state: HostState) -> Iterator[AuditFinding]:
        drops = self._rate("conntrack_drops")
        is_full = bool(state.conntrack_max) and state.conntrack_count * 100 >= state.conntrack_max * FULL_PERCENT
        if is_full or drops > 0:
            because = f"{state.conntrack_count} of {state.conntrack_max} entries are taken"
            tail = (f"{drops:.0f} packets a second are dropped for want of one",) if drops > 0 else ()
            yield self._finding(FaultCode.CONNTRACK_FULL, "", "nf_conntrack", because, *tail)
        invalid = self._rate("conntrack_invalid")
        if invalid >= INVALID_PER_S:
            because = f"{invalid:.0f} packets a second belong to no connection"
            yield self._finding(FaultCode.CONNTRACK_INVALID, "", "nf_conntrack", because)

    def _rate(self, counter: str) -> float:
        """A counter's pace over the window; counters that begin anew have none."""
        first, last = self._past[0], self._past[-1]
        span = last.at_ns - first.at_ns
        grown: int = getattr(last, counter) - getattr(first, counter)
        return max(0, grown) * SECOND / span if span > 0 else 0.0

    def _finding(self, code: FaultCode, device: str, subject: str, *because: str) -> AuditFinding:
        return AuditFinding(code=code, device=device, subject=subject, culprit=self._node, because=because)
