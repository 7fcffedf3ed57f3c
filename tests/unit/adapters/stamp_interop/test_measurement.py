"""The arithmetic of a series, on answers made up for it."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from meshwatchd.adapters.stamp_interop.loss import Loss
from meshwatchd.adapters.stamp_interop.measurement import STATEFUL, STATELESS, UNKNOWN, Place, Sample, evaluate, rtt_ns
from meshwatchd.wire.ntp import ErrorEstimate
from meshwatchd.wire.standard_probe import StandardReply
from meshwatchd.wire.standard_tlv import Location
from meshwatchd.wire.tlv import MALFORMED, UNRECOGNIZED, Tlv

MS_NTP = (1 << 32) // 1000
MS = 1_000_000
GOOD_CLOCK = ErrorEstimate.of(2 * MS, is_synchronized=True)


def _sample(sequence, counted=None, *, there=3, here=2, back=5, estimate=GOOD_CLOCK, tlvs=(), ssid=0, is_failed=False):
    """An answer whose delays are in milliseconds; its times begin shortly before the era ends."""
    sent = (1 << 64) - MS_NTP
    received, left = sent + there * MS_NTP, sent + (there + here) * MS_NTP
    return Sample(
        sequence=sequence,
        turnaround_ns=(there + here + back) * MS,
        arrival_ntp=(left + back * MS_NTP) % (1 << 64),
        hops_ttl=62,
        reply=StandardReply(
            sequence=sequence if counted is None else counted,
            timestamp_ntp=left % (1 << 64),
            receive_ntp=received % (1 << 64),
            error_estimate=estimate,
            ssid=ssid,
            sender_sequence=sequence,
            sender_timestamp_ntp=sent,
            sender_ttl=61,
            tlvs=tlvs,
            is_integrity_failed=is_failed,
            is_malformed=False,
        ),
    )


def test_delays_are_counted_without_the_reflectors_own_time():
    """Round trip always, one way where both clocks are synchronized; across the end of the NTP era."""
    result = evaluate([_sample(0), _sample(1, there=5), _sample(2)], sent=3, own_error_ns=MS)

    assert result.rtt is not None
    assert result.forward is not None
    assert result.reverse is not None
    assert [8, 8, 10, 2] == [
        round(value / MS)
        for value in (result.rtt.min_ns, result.rtt.median_ns, result.rtt.max_ns, result.rtt.jitter_ns)
    ]
    assert (3, 5, 5) == (
        round(result.forward.min_ns / MS),
        round(result.forward.max_ns / MS),
        round(result.reverse.median_ns / MS),
    )
    assert result.clock_error_ns is not None
    assert 3 == round(result.clock_error_ns / MS)
    assert (61, 62) == (result.ttl_seen, result.ttl_returned)


@pytest.mark.parametrize(
    ("own_error_ns", "estimate"),
    [(None, GOOD_CLOCK), (MS, ErrorEstimate()), (MS, ErrorEstimate(is_synchronized=True, is_ptp=True))],
)
def test_one_way_delays_need_both_clocks(own_error_ns, estimate):
    """A clock that nobody follows says nothing, nor does one that counts otherwise."""
    result = evaluate([_sample(0, estimate=estimate)], sent=1, own_error_ns=own_error_ns)

    assert (None, None, None) == (result.forward, result.reverse, result.clock_error_ns)


def test_a_reflectors_time_is_believed_only_inside_the_round_trip():
    """A broken clock must not make the way short; PTP counts nanoseconds."""
    assert 8 * MS == pytest.approx(rtt_ns(_sample(0)), abs=10)
    assert 10 * MS == rtt_ns(_sample(0, here=-2, back=10, there=2))
    ptp = _sample(0, here=0, estimate=ErrorEstimate(is_ptp=True))
    assert 8 * MS == rtt_ns(ptp)


@pytest.mark.parametrize(
    ("answers", "reflector", "loss"),
    [
        ([(0, 0), (1, 1), (2, 2), (3, 3)], UNKNOWN, None),
        ([(0, 0), (3, 3)], UNKNOWN, None),
        ([(0, 0), (3, 1)], STATEFUL, Loss(forward=2, reverse=0, undetermined=0)),
        ([(0, 0), (2, 1), (3, 2)], STATEFUL, Loss(forward=1, reverse=0, undetermined=0)),
        ([(1, 0), (3, 2)], STATEFUL, Loss(forward=1, reverse=1, undetermined=0)),
        ([(1, 0)], STATEFUL, Loss(forward=1, reverse=0, undetermined=2)),
        ([(0, 7), (1, 8), (3, 9)], STATEFUL, Loss(forward=1, reverse=0, undetermined=0)),
        ([(0, 1), (1, 2), (3, 4)], STATEFUL, Loss(forward=0, reverse=1, undetermined=0)),
        ([], UNKNOWN, None),
    ],
)
def test_the_reflectors_count_tells_on_which_way_packets_were_lost(answers, reflector, loss):
    """Four packets each time: which were answered, and with which number."""
    result = evaluate([_sample(sequence, counted) for sequence, counted in answers], sent=4)

    assert (reflector, loss, 4 - len(answers)) == (result.reflector, result.loss, result.lost)


@pytest.mark.parametrize(
    ("counted", "reflector", "loss"),
    [
        ({0: 1, 3: 4}, UNKNOWN, Loss(forward=0, reverse=2, undetermined=0)),
        ({0: 1, 3: 3}, STATELESS, Loss(forward=1, reverse=1, undetermined=0)),
        ({0: 1, 2: 2}, STATELESS, Loss(forward=1, reverse=0, undetermined=1)),
    ],
)
def test_direct_measurement_tells_it_of_reflectors_that_repeat_our_numbers(counted, reflector, loss):
    """Which packets had arrived when an answer left; one count too low for its number, and that number is ours."""
    samples = [
        _sample(sequence, tlvs=(Tlv(type=5, value=bytes(4) + count.to_bytes(4, "big") + bytes(4), flags=0),))
        for sequence, count in counted.items()
    ]
    result = evaluate(samples, sent=4)

    assert (reflector, loss) == (result.reflector, result.loss)


def test_direct_measurement_that_was_not_answered_tells_nothing():
    """U, M, or a value of another size."""
    for tlv in (
        Tlv(type=5, value=bytes(12)),
        Tlv(type=5, value=bytes(12), flags=MALFORMED),
        Tlv(type=5, value=b"", flags=0),
    ):
        assert evaluate([_sample(3, tlvs=(tlv,))], sent=4).loss is None


def test_packets_from_many_ports_are_many_sessions():
    """Every one is the first to the reflector, which tells nothing."""
    assert UNKNOWN == evaluate([_sample(1, 0), _sample(2, 0)], sent=3, is_one_session=False).reflector


def test_jitter_by_direction_needs_no_synchronized_clocks():
    """There 3, 5, 3 ms, back 5, 5, 8 ms: offsets cancel out; one answer has no jitter."""
    bad = ErrorEstimate()
    samples = [
        _sample(0, estimate=bad),
        _sample(1, there=5, estimate=bad),
        _sample(2, back=8, estimate=bad),
    ]
    result = evaluate(samples, sent=3)

    assert result.forward is None
    assert result.jitter is not None
    assert [2 * MS, 1.5 * MS] == pytest.approx([result.jitter.forward_ns, result.jitter.reverse_ns], abs=10)
    assert evaluate(samples[:1], sent=1).jitter is None


def test_jitter_of_a_reflector_with_ptp_times():
    """Its nanoseconds differ in format from ours, and their differences do not: it sees packets 20 and 23 ms apart."""
    ptp = ErrorEstimate(is_ptp=True)
    base = _sample(0, estimate=ptp)
    samples = []
    for sequence, (sent, received, arrived) in enumerate(((0, 0, 0), (20, 23, 23))):
        reply = replace(
            base.reply,
            sender_timestamp_ntp=sent * MS_NTP,
            receive_ntp=7 << 32 | received * MS,
            timestamp_ntp=7 << 32 | received * MS,
        )
        samples.append(
            dataclasses.replace(base, sequence=sequence, arrival_ntp=(1 << 40) + arrived * MS_NTP, reply=reply)
        )
    jitter = evaluate(samples, sent=2).jitter

    assert jitter is not None
    assert [3 * MS, 0] == pytest.approx([jitter.forward_ns, jitter.reverse_ns], abs=10)


def test_the_last_location_is_read():
    """Of answers that understood the question; one that is cut short is none."""
    where = Location(
        destination_port=862,
        source_port=40_000,
        sub_tlvs=(
            Tlv(type=5, value=bytes((192, 0, 2, 9)) + bytes(12)),
            Tlv(type=9, value=bytes.fromhex("20010db8") + bytes(12)),
        ),
    ).to_tlv()
    answered = Tlv(type=2, value=where.value, flags=0)
    samples = [
        _sample(0, tlvs=(answered,)),
        _sample(1, tlvs=(where,)),
        _sample(2, tlvs=(Tlv(type=2, value=b"?", flags=0),)),
    ]

    assert (
        Place(source="2001:db8::", source_port=40_000, destination="192.0.2.9", destination_port=862)
        == evaluate(samples, sent=3).place
    )
    assert evaluate(samples[1:], sent=3).place is None


def test_copies_on_the_way_there_are_counted_by_the_reflector_and_turn_no_loss_round():
    """Packet 1 arrives twice, both copies are answered, packet 3 is lost on the way there."""
    samples = [_sample(0, 0), _sample(1, 1), _sample(1, 2), _sample(2, 3), _sample(4, 4)]

    assert Loss(forward=1, reverse=0, undetermined=0) == evaluate(samples, sent=5).loss


def test_copies_and_latecomers_are_counted():
    """A copy is no answer more; an answer behind that to a later packet is out of order."""
    result = evaluate([_sample(number) for number in (0, 2, 2, 1, 1, 3)], sent=4)

    assert (4, 2, 1) == (result.received, result.duplicates, result.reordered)


def test_what_became_of_the_tlvs_is_summed_up_by_type():
    """Flags are the reflector's; failed answers have none to show."""
    samples = [
        _sample(0, tlvs=(Tlv(type=4, value=b"\1", flags=0), Tlv(type=200, value=b"", flags=UNRECOGNIZED))),
        _sample(1, tlvs=(Tlv(type=4, value=b"\2", flags=MALFORMED),), ssid=5),
        _sample(2, is_failed=True),
    ]
    result = evaluate(samples, sent=3, discarded={"unexpected": 2})

    assert [("class-of-service", 2, 0, 1, "02"), ("200", 1, 1, 0, "")] == [
        (report.name, report.returned, report.unrecognized, report.malformed, report.value) for report in result.tlvs
    ]
    assert (1, False, {"unexpected": 2}) == (result.integrity_failures, result.is_ssid_returned, result.discarded)
