"""Our sender with another maker's reflector, which is written from the RFCs alone."""

from __future__ import annotations

import errno
import os
import resource
import socket
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from meshwatchd.adapters.stamp_interop.loss import Loss
from meshwatchd.adapters.stamp_interop.measurement import STATEFUL, UNKNOWN, Sample
from meshwatchd.adapters.stamp_interop.sender import Series, _Sender, measure, resolve
from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.standard_probe import StandardProbe
from meshwatchd.wire.standard_tlv import class_of_service
from tests.support.packet_node import free_port
from tests.support.stamp_peer import Habits, PeerReflector, peer_reflector

KEY = b"shared with the other maker"
COS = class_of_service(0)
OPEN = StandardProbe(ssid=9, tlvs=(COS,), payload_bytes=120)
SIGNED = StandardProbe(mode=StampMode.AUTHENTICATED, key=MacKey(KEY), ssid=9, tlvs=(COS,), payload_bytes=200)
MS = 1_000_000
FEW = 8


def _run(peer: PeerReflector, probe: StandardProbe = OPEN, *, is_fresh: bool = False, wait_ns: int = 50 * MS):
    """Six packets; the wait only matters where some are lost."""
    series = Series(
        address="127.0.0.1",
        port=peer.port,
        probe=probe,
        count=6,
        interval_ns=MS,
        wait_ns=wait_ns,
        is_fresh=is_fresh,
    )
    samples: list[Sample] = []
    return measure(series, samples.append), samples


@pytest.mark.parametrize("probe", [OPEN, SIGNED])
def test_everything_is_answered(probe):
    """Both modes: nothing lost, doubled, discarded; TLVs come back as that reflector understands them."""
    with peer_reflector(Habits(key=KEY if probe is SIGNED else None)) as peer:
        result, samples = _run(peer, probe, wait_ns=2000 * MS)

    assert (6, 6, 0, 0, {}) == (
        result.sent,
        result.received,
        result.duplicates,
        result.integrity_failures,
        result.discarded,
    )
    assert list(range(6)) == [sample.sequence for sample in samples]
    assert result.rtt is not None
    assert 0 < result.rtt.min_ns <= result.rtt.max_ns
    assert {probe.payload_bytes} == {len(packet) for packet in peer.seen}
    assert (255, 64, True) == (result.ttl_seen, result.ttl_returned, result.is_ssid_returned)
    assert [("extra-padding", 0), ("class-of-service", 6)] == [
        (tlv.name, tlv.unrecognized) for tlv in result.tlvs if tlv.name != "hmac"
    ]


def test_a_stateful_reflector_tells_the_ways_apart():
    """Packet 1 is lost there, packet 3 on the way back, packet 5 nobody knows where."""
    with peer_reflector(Habits(lose_there=(1,), lose_back=(3, 5))) as peer:
        result, _ = _run(peer)

    assert (STATEFUL, Loss(forward=1, reverse=1, undetermined=1), 3) == (result.reflector, result.loss, result.received)


def test_a_stateless_reflector_does_not():
    """The same losses, and no count."""
    with peer_reflector(Habits(is_stateful=False, lose_there=(1,), lose_back=(3,))) as peer:
        result, _ = _run(peer)

    assert (UNKNOWN, None, 4) == (result.reflector, result.loss, result.received)


def test_a_twamp_light_reflector_is_measured():
    """RFC 8762 section 4.6: TLVs are padding to it, the SSID comes back as zero."""
    with peer_reflector(Habits(is_twamp=True)) as peer:
        result, _ = _run(peer, wait_ns=2000 * MS)

    assert (6, False, (), 0) == (result.received, result.is_ssid_returned, result.tlvs, result.integrity_failures)


def test_copies_and_late_answers_are_noticed():
    """Packet 1 is answered twice, packet 2 after packet 3."""
    with peer_reflector(Habits(repeat=(1,), hold=(2,))) as peer:
        result, _ = _run(peer, wait_ns=100 * MS)

    assert (6, 1, 1) == (result.received, result.duplicates, result.reordered)


def test_a_copy_of_the_last_answer_is_noticed():
    """When it comes all are answered, and the sender could be gone."""
    with peer_reflector(Habits(repeat_late=(5,))) as peer:
        result, _ = _run(peer, wait_ns=2000 * MS)

    assert (6, 1) == (result.received, result.duplicates)


def test_answers_that_do_not_verify_are_discarded():
    """Authenticated mode: a byte changed on the way is a loss, and a reason."""
    with peer_reflector(Habits(key=KEY, spoil=(2,))) as peer:
        result, _ = _run(peer, SIGNED)

    assert (5, {"bad-base-tag": 1}) == (result.received, result.discarded)


def test_fresh_packets_have_ports_of_their_own():
    """Pinned ones share one."""
    with peer_reflector() as peer:
        result, _ = _run(peer, is_fresh=True, wait_ns=2000 * MS)
        fresh = len(set(peer.sources))
        _run(peer, wait_ns=2000 * MS)

    assert (6, 6, 1) == (result.received, fresh, len(set(peer.sources[6:])))


def test_a_port_without_a_reflector_is_said_to_be_unreachable():
    """The host answers by ICMP."""
    series = Series(address="127.0.0.1", port=free_port(), probe=OPEN, count=3, interval_ns=5 * MS, wait_ns=5 * MS)
    result = measure(series, lambda _sample: None)

    assert (0, ["unreachable"], None) == (result.received, list(result.discarded), result.rtt)


def test_the_packet_behind_a_refused_one_is_sent():
    """The kernel tells of an ICMP error in the place of sending; a reflector that has just started misses nothing."""
    port = free_port()
    series = Series(address="127.0.0.1", port=port, probe=OPEN, count=2, interval_ns=5 * MS, wait_ns=5 * MS)
    with closing(_Sender(series, lambda _sample: None)) as sender:
        sender._send()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as late:
            late.bind(("127.0.0.1", port))
            late.settimeout(5)
            sender._send()
            sequence = late.recv(512)[:4]
        result = sender.result()

    assert (1).to_bytes(4, "big") == sequence
    assert (2, {"unreachable": 1}, {}) == (result.sent, result.discarded, result.unsent)


class _Failing:
    """A socket that the kernel tells of errors before it sends again."""

    def __init__(self, opened: socket.socket, errors: list[int]) -> None:
        self._opened, self._errors = opened, errors

    def send(self, packet: bytes) -> int:
        """Send, once there is no error left."""
        if self._errors:
            number = self._errors.pop(0)
            raise OSError(number, os.strerror(number))
        return self._opened.send(packet)

    def fileno(self) -> int:
        """The descriptor."""
        return self._opened.fileno()

    def close(self) -> None:
        """Close it."""
        self._opened.close()


@pytest.mark.parametrize(
    ("errors", "sent", "discarded", "unsent"),
    [
        ([errno.EHOSTUNREACH], 2, {"prohibited": 1}, {}),
        ([errno.EACCES], 2, {"prohibited": 1}, {}),
        ([errno.ENETUNREACH, errno.ENETUNREACH], 1, {}, {"Network is unreachable": 1}),
    ],
)
def test_what_a_firewall_has_rejected_is_told_apart_from_a_route_that_is_gone(errors, sent, discarded, unsent):
    """Both come in the place of sending, the one once (icmp_err_convert in net/ipv4/icmp.c)."""
    with peer_reflector() as peer:
        series = Series(address="127.0.0.1", port=peer.port, probe=OPEN, count=2, interval_ns=MS, wait_ns=MS)
        with closing(_Sender(series, lambda _sample: None)) as sender:
            sender._send()
            ((number, opened),) = sender._sockets.items()
            sender._sockets[number] = _Failing(opened, errors)  # type: ignore[assignment]
            sender._send()
            result = sender.result()

    assert (sent, discarded, unsent) == (result.sent, result.discarded, result.unsent)


def test_packets_that_cannot_leave_do_not_end_the_series():
    """Here for want of descriptors; on a machine whose link has gone, for want of a route."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def run_short(_sample):
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEW, before[1]))

    # Descriptors below the limit are taken; poll(2) refuses to look at more than the limit.
    with ExitStack() as taken, peer_reflector() as peer:
        for _ in range(FEW):
            taken.enter_context(Path(os.devnull).open("rb"))
        series = Series(
            address="127.0.0.1",
            port=peer.port,
            probe=OPEN,
            count=6,
            interval_ns=20 * MS,
            wait_ns=50 * MS,
            is_fresh=True,
        )
        try:
            result = measure(series, run_short)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert (6, result.received) == (result.sent + sum(result.unsent.values()), result.sent)
    assert ["Too many open files"] == list(result.unsent)


def test_an_address_to_which_nothing_can_be_sent_is_said_at_once():
    """The first packet decides: there is nothing to sum up."""
    series = Series(address="255.255.255.255", port=9, probe=OPEN, count=2, interval_ns=MS, wait_ns=MS)
    with pytest.raises(OSError, match="Permission denied"):
        measure(series, lambda _sample: None)


def test_an_interrupt_ends_the_series_and_keeps_what_is_known():
    """Ctrl-C after the second answer."""

    def interrupt(sample):
        if sample.sequence == 1:
            raise KeyboardInterrupt

    with peer_reflector() as peer:
        series = Series(address="127.0.0.1", port=peer.port, probe=OPEN, count=1000, interval_ns=MS, wait_ns=MS)
        result = measure(series, interrupt)

    assert 2 == result.received
    assert result.sent < 1000


def test_a_name_that_is_none_is_an_oserror():
    """For the command line to tell."""
    with pytest.raises(OSError, match=r"not known|failure"):
        measure(Series(address="no.such.invalid", port=1, probe=OPEN, count=1, interval_ns=1, wait_ns=1), print)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_packets_leave_from_the_source_wanted_and_with_df(family):
    """IP_PMTUDISC_PROBE: DF whatever the kernel believes of the path."""
    here = "127.0.0.1" if family == socket.AF_INET else "::1"
    port = free_port()
    with socket.socket(family, socket.SOCK_DGRAM) as reflector:
        reflector.bind((here, 0))
        reflector.settimeout(5)
        series = Series(
            address=here,
            port=reflector.getsockname()[1],
            probe=OPEN,
            count=1,
            interval_ns=MS,
            wait_ns=MS,
            source=here,
            source_port=port,
            is_unfragmented=True,
        )
        with closing(_Sender(series, lambda _sample: None)) as sender:
            sender._send()
            level, option = (socket.IPPROTO_IP, 10) if family == socket.AF_INET else (socket.IPPROTO_IPV6, 23)
            (opened,) = sender._sockets.values()
            assert 3 == opened.getsockopt(level, option)
        _, (source, source_port, *_) = reflector.recvfrom(2048)

    assert (here, port) == (source, source_port)


def test_a_source_that_is_none_is_named():
    """Address and port, beside the kernel's words."""
    series = Series(
        address="127.0.0.1",
        port=9,
        probe=OPEN,
        count=1,
        interval_ns=MS,
        wait_ns=MS,
        source="192.0.2.1",
        source_port=7,
    )
    with pytest.raises(OSError, match=r"from 192\.0\.2\.1 port 7: Cannot assign requested address"):
        measure(series, lambda _sample: None)


def test_a_name_is_looked_up_in_the_family_wanted():
    """And written in numbers; an address of the other family is none."""
    series = Series(address="localhost", port=9, probe=OPEN, count=1, interval_ns=MS, wait_ns=MS, family=socket.AF_INET)
    assert ("127.0.0.1", socket.AF_INET) == (resolve(series).address, resolve(series).family)
    with pytest.raises(OSError, match=r"not supported|No address"):
        resolve(replace(series, address="::1"))


def test_a_link_local_address_keeps_its_interface():
    """Its number, where it has a name."""
    series = Series(address="fe80::1%lo", port=9, probe=OPEN, count=1, interval_ns=MS, wait_ns=MS)
    assert f"fe80::1%{socket.if_nametoindex('lo')}" == resolve(series).address
