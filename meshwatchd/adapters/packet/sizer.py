"""Sends probes of any size and recognises their answers.

Apart from the prober, which is made for many probes of one size over ports that are used once: here are few, each as
long as it was asked for, always over the same port, with DF set. Only an authenticated answer of the same length that
repeats the probe's number and timestamp counts; ICMP is neither needed nor heard.
"""

from __future__ import annotations

import socket
import struct
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.netlink.learned import LearnedMtu
from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.address import pack_address, pack_name
from meshwatchd.adapters.packet.delivery import leave_by
from meshwatchd.adapters.packet.mmsg import ReceiveBatch
from meshwatchd.adapters.packet.peers import Peers
from meshwatchd.adapters.packet.sockets import IP_HEADERS_BYTES, LONGEST_BYTES, open_sizer
from meshwatchd.adapters.packet.stamps import STAMP_BYTES, NtpClock, arrival_wall_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.mtu import SendSizeProbe, SizeAnswered, SizePlan, SizeUnsent
from meshwatchd.wire.auth import PairKey
from meshwatchd.wire.mesh_tlv import FLAG_FRAGMENTS, FLAG_SIZE, OwnState
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate

PROBE_LIFE_NS: Final = 2_000_000_000
"""Twice the longest wait for an answer."""
MAX_OUTSTANDING: Final = 2048
BATCH: Final = 8

FIRST_SSID: Final = 0xE000
"""Session identifiers from here on are size probes'; ordinary sessions count from 1."""
SSIDS: Final = 0x0800
"""Half of what a peer remembers of one node (`wire.replay.MAX_SESSIONS`): ids of paths that come and go count on for
the life of the process, and each new one is a session to the peer."""

_CLAIM: Final = struct.Struct("> I 22x H 20x I 12x Q")
"""Reflector's count, SSID, sender's number and timestamp of an answer (RFC 8762 section 4.3.2)."""

Emit = Callable[[SizeAnswered | SizeUnsent], None]


class _Probe(msgspec.Struct, gc=False):
    """One probe that may still be answered."""

    plan: SizePlan
    seq: int
    ntp: int
    sent_ns: int
    length: int
    key: PairKey


class Sizer:
    """All size probes of this node."""

    def __init__(
        self,
        *,
        poller: Poller,
        peers: Peers,
        own: OwnState,
        counters: Counter[str],
        emit: Emit,
        learned: LearnedMtu,
    ) -> None:
        self._poller, self._peers, self._own = poller, peers, own
        self._counters, self._emit, self._learned = counters, emit, learned
        self._clock = NtpClock()
        self._plans: dict[int, SizePlan] = {}
        self._sockets: dict[tuple[str, int], socket.socket] = {}
        self._by_fd: dict[int, socket.socket] = {}
        self._incoming = ReceiveBatch(BATCH, LONGEST_BYTES, STAMP_BYTES)
        self._outstanding: OrderedDict[tuple[int, int], _Probe] = OrderedDict()
        # By SSID and for the life of the process, or the peers' replay windows would refuse what begins anew.
        self._sequences: dict[int, int] = {}

    def configure(self, plans: Iterable[SizePlan]) -> None:
        """Replace the table of paths; probes that are under way on a path that stays may still be answered."""
        self._plans = {plan.session: plan for plan in plans if plan.peer in self._peers}
        wanted = {(plan.source, plan.source_port) for plan in self._plans.values()}
        for where in [where for where in self._sockets if where not in wanted]:
            self._close(where)

    def announce(self, own: OwnState) -> None:
        """Probes say this of the node from here on."""
        self._own = own

    def close(self) -> None:
        """Close every socket and forget every path."""
        for where in list(self._sockets):
            self._close(where)
        self._outstanding.clear()
        self._plans.clear()

    def send(self, command: SendSizeProbe) -> None:
        """Send one probe; whatever keeps it from leaving becomes SizeUnsent."""
        plan = self._plans.get(command.session)
        if plan is None:
            self._counters["sends-without-session"] += 1
            return
        try:
            self._launch(plan, command)
        except DecodeError:
            self._counters["sessions-without-address"] += 1
        except OSError as error:
            self._counters["size-probes-unsent"] += 1
            self._emit(SizeUnsent(session=command.session, seq=command.seq, errno=error.errno or 0))
        else:
            self._counters["size-probes-sent"] += 1

    def expire(self, now_ns: int) -> None:
        """Forget what nobody waits for any more."""
        outstanding = self._outstanding
        while outstanding:
            oldest = next(iter(outstanding))
            if outstanding[oldest].sent_ns > now_ns - PROBE_LIFE_NS and len(outstanding) <= MAX_OUTSTANDING:
                return
            del outstanding[oldest]

    def _close(self, where: tuple[str, int]) -> None:
        opened = self._sockets.pop(where)
        self._by_fd.pop(opened.fileno())
        self._poller.forget(opened.fileno())
        opened.close()

    def _launch(self, plan: SizePlan, command: SendSizeProbe) -> None:
        opened = self._socket(plan)
        ssid = ssid_of(plan.session)
        sequence = self._sequences.get(ssid, 0)
        self._sequences[ssid] = sequence + 1
        key, ntp = self._peers.sending_key(plan.peer), self._clock.stamp()
        length = command.size_bytes - IP_HEADERS_BYTES[opened.family]
        packet = ProbeTemplate(_spec(plan, ssid, length), key=key, own=self._own).seal(sequence, ntp)
        probe = _Probe(plan, command.seq, ntp, monotonic_ns(), length, key)
        self._outstanding[ssid, sequence] = probe
        try:
            if plan.device:
                control = leave_by(socket.if_nametoindex(plan.device), pack_address(plan.source))
                opened.sendmsg((packet,), control, 0, (plan.destination, plan.port))
            else:
                opened.sendto(packet, (plan.destination, plan.port))
        except OSError:
            del self._outstanding[ssid, sequence]
            raise

    def _socket(self, plan: SizePlan) -> socket.socket:
        where = plan.source, plan.source_port
        opened = self._sockets.get(where)
        if opened is None:
            opened = open_sizer(*where, may_fragment=plan.may_fragment)
            self._sockets[where] = self._by_fd[opened.fileno()] = opened
            self._poller.add(opened.fileno(), self._on_readable)
        return opened

    def _on_readable(self, fd: int) -> None:
        try:
            packets = self._incoming.receive(fd)
        except OSError:
            self._counters["receive-errors"] += 1
            return
        wall_ns, now_ns = time.time_ns(), monotonic_ns()
        for data, name, control in packets:
            waited_ns = max(0, wall_ns - arrival_wall_ns(control, wall_ns))
            reason = self._take(fd, data, name, now_ns - waited_ns)
            if reason:
                self._counters[f"replies-{reason}"] += 1

    def _take(self, fd: int, data: bytes, name: bytes, arrived_ns: int) -> str:
        """Judge one packet; the reason why it does not count, empty if it does."""
        count, ssid, sequence, ntp = _CLAIM.unpack_from(data)
        probe = self._outstanding.get((ssid, sequence))
        if probe is None:
            return "unexpected"
        plan = probe.plan
        if name != pack_name(plan.destination, plan.port) or self._by_fd[fd] is not self._sockets.get(
            (plan.source, plan.source_port)
        ):
            return "misdirected"
        if len(data) != probe.length:
            return "wrong-length"
        answer = verify_and_parse(data, probe.key)
        if not isinstance(answer, ParsedProbe):
            return str(answer)
        if not answer.is_reply:
            return "unexpected"
        if ntp != probe.ntp:
            return "replayed"
        del self._outstanding[ssid, sequence]
        self._counters["size-replies-received"] += 1
        is_routed = plan.layer is not Layer.IPIP and not plan.may_fragment
        self._emit(
            SizeAnswered(
                session=plan.session,
                seq=probe.seq,
                rtt_ns=max(0, arrived_ns - probe.sent_ns),
                count=count,
                learned_mtu_bytes=self._learned.read(plan.destination) if is_routed else 0,
            )
        )
        return ""


def ssid_of(session: int) -> int:
    """What the packets of a path carry; numbers go on where it stood for another path."""
    return FIRST_SSID + session % SSIDS


def _spec(plan: SizePlan, ssid: int, length: int) -> ProbeSpec:
    flags = translate.session_flags(plan.layer, FlowClass.PINNED) | FLAG_SIZE
    return ProbeSpec(
        ssid=ssid,
        path=plan.path,
        layer=plan.layer,
        flags=flags | (FLAG_FRAGMENTS if plan.may_fragment else 0),
        destination=pack_address(plan.destination),
        payload_bytes=length,
    )
