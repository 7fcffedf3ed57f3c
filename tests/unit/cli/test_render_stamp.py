"""How a measurement reads."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from meshwatchd.adapters.stamp_interop.loss import Loss
from meshwatchd.adapters.stamp_interop.measurement import Measurement, Place, TlvReport
from meshwatchd.adapters.stamp_interop.spread import Jitter, Spread
from meshwatchd.cli.render_stamp import hint_at_silence, render_measurement
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.stamp import StampMode

SPREAD = Spread(
    min_ns=1_000_000,
    mean_ns=1_600_000,
    median_ns=1_500_000,
    p95_ns=1_900_000,
    p99_ns=1_950_000,
    max_ns=2_000_000,
    deviation_ns=300_000,
    jitter_ns=250_000,
)
FIGURES = "min 1.000  mean 1.600  median 1.500  p95 1.900  p99 1.950  max 2.000  deviation 0.300  jitter 0.250 ms"
GOOD = Measurement(
    sent=4,
    received=4,
    duplicates=0,
    reordered=0,
    discarded={},
    reflector="unknown",
    loss=None,
    rtt=SPREAD,
    forward=SPREAD,
    reverse=SPREAD,
    jitter=Jitter(forward_ns=125_000, reverse_ns=375_000),
    clock_error_ns=300_000,
    ttl_seen=61,
    ttl_returned=62,
    is_ssid_returned=True,
    integrity_failures=0,
    tlvs=(TlvReport(type=4, name="class-of-service", returned=4, unrecognized=0, malformed=0, value="b8000000"),),
)


def _read(result):
    return render_measurement(result, paint_nothing)


def test_a_good_series_is_short():
    """Nothing is said of what did not happen."""
    assert (
        "4 sent, 4 answered, 0 lost (0 %)\n"
        f"round trip  {FIGURES}\n"
        f"there       {FIGURES}\n"
        f"back        {FIGURES}\n"
        "jitter      there 0.125 ms, back 0.375 ms\n"
        "one-way delays may be off by 0.300 ms\n"
        "reflector   unknown, TTL 61 there, 62 back\n"
        "TLV 4 class-of-service: 4 returned, understood  b8000000\n"
    ) == _read(GOOD)


def test_a_bad_series_says_all_of_it():
    """Each line one thing."""
    tlv = replace(GOOD.tlvs[0], unrecognized=2, malformed=1, value="00" * 40)
    bad = replace(
        GOOD,
        received=3,
        duplicates=1,
        reordered=2,
        discarded={"unexpected": 5},
        unsent={"Network is unreachable": 6},
        reflector="stateful",
        loss=Loss(forward=1, reverse=0, undetermined=0),
        forward=None,
        reverse=None,
        clock_error_ns=None,
        ttl_seen=0,
        is_ssid_returned=False,
        integrity_failures=1,
        tlvs=(tlv,),
    )
    assert (
        "4 sent, 3 answered, 1 lost (25 %)\n"
        "lost there 1, lost back 0, undetermined 0\n"
        "1 answered more than once\n"
        "2 out of order\n"
        "6 not sent: Network is unreachable\n"
        "5 discarded: unexpected\n"
        f"round trip  {FIGURES}\n"
        "jitter      there 0.125 ms, back 0.375 ms\n"
        "one-way delays: unknown, the clocks are not both synchronized\n"
        "reflector   stateful, TTL ? there, 62 back\n"
        "the reflector does not repeat the SSID: it knows no RFC 8972, or no STAMP\n"
        "1 answers whose TLVs do not verify, here or there\n"
        f"TLV 4 class-of-service: 4 returned, U in 2, M in 1  {'00' * 32}...\n"
    ) == _read(bad)


def test_without_an_answer_there_is_nothing_to_tell():
    """Nor with a count that nobody keeps."""
    dead = replace(GOOD, received=0, jitter=None, discarded={"unreachable": 3}, rtt=None, forward=None, reverse=None)
    assert "4 sent, 0 answered, 4 lost (100 %)\n3 discarded: unreachable\n" == _read(dead)
    assert "is unknown: no count of the reflector's (try --pinned --tlv direct)\n" in _read(
        replace(GOOD, received=2, reflector="stateless")
    )


def test_the_place_that_the_reflector_saw_is_in_words():
    """Addresses and ports; a question mark for an address that it does not write."""
    place = Place(source="192.0.2.1", source_port=40_000, destination="2001:db8::1", destination_port=862)
    text = "location    from 192.0.2.1 port 40000 to 2001:db8::1 port 862\n"
    assert text in _read(replace(GOOD, place=place))
    assert "location    from ? port 1 to ? port 2\n" in _read(
        replace(GOOD, place=Place(source="", source_port=1, destination="", destination_port=2))
    )


@pytest.mark.parametrize(
    ("discarded", "mode", "hint"),
    [
        ({"unreachable": 4}, StampMode.OPEN, "nothing listens on UDP port 862 there"),
        ({"prohibited": 4}, StampMode.OPEN, "a firewall there or on the way rejects UDP port 862"),
        ({"too-big": 4}, StampMode.OPEN, "packets of this size do not fit the path"),
        ({"bad-base-tag": 4}, StampMode.AUTHENTICATED, "answers do not verify: compare the key"),
        ({}, StampMode.AUTHENTICATED, "is in authenticated mode with this key"),
        ({}, StampMode.OPEN, "is in open mode (authenticated needs --key-file)"),
    ],
)
def test_silence_has_a_hint(discarded, mode, hint):
    """By what came instead of answers; none where one answer came, or nothing was sent."""
    dead = replace(GOOD, received=0, discarded=discarded)
    assert hint in hint_at_silence(dead, port=862, mode=mode)
    assert not hint_at_silence(replace(dead, received=1), port=862, mode=mode)
    assert not hint_at_silence(replace(dead, sent=0), port=862, mode=mode)
