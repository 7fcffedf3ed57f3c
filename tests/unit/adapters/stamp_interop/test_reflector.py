"""The reflector for other makers, asked by a peer that is written from the RFCs alone."""

from __future__ import annotations

import random
import socket

import pytest

from meshwatchd.adapters.stamp_interop.reflector import MAX_REPORTED
from meshwatchd.adapters.stamp_interop.sessions import MAX_SOURCE_SESSIONS
from meshwatchd.model.stamp import StampMode
from tests.support import stamp_peer
from tests.support.packet_node import free_port, udp
from tests.support.pump import pump
from tests.support.stamp_peer import Answer, I, M, U, read_answer, sender_packet, twamp_packet
from tests.support.stamp_reflecting import reflecting

KEY = b"a key of sixteen bytes or more"


def authenticated(**changes: object):
    """A reflector that wants signatures."""
    return reflecting(key=KEY, mode=StampMode.AUTHENTICATED, **changes)


@pytest.mark.parametrize("key", [None, KEY])
def test_a_strangers_packet_is_answered_field_by_field(key):
    """Both modes; the reflector counts for itself and repeats the sender's fields and its SSID."""
    mode = StampMode.OPEN if key is None else StampMode.AUTHENTICATED
    with reflecting(key=key, mode=mode) as running:
        running.ask(sender_packet(6, ssid=77, key=key))
        began = stamp_peer.ntp_now()
        packet = sender_packet(7, timestamp=began, ssid=77, key=key)
        data = running.ask(packet)

    answer = read_answer(data, key)
    assert len(packet) == len(data)
    assert (1, 7, began, 0x8001, 77, 64) == (
        answer.sequence,
        answer.sender_sequence,
        answer.sender_timestamp,
        answer.sender_error,
        answer.ssid,
        answer.sender_ttl,
    )
    assert began <= answer.received <= answer.timestamp <= stamp_peer.ntp_now()
    assert not any(answer.zeros)
    assert answer.error & 0xFF


def test_a_stateless_reflector_repeats_the_senders_number():
    """RFC 8762 section 4.3; nothing is counted, and Direct Measurement is not understood then."""
    with reflecting(stateful=False) as running:
        answer = read_answer(running.ask(sender_packet(7, tlvs=[(U, 5, bytes(12)), (U, 7, bytes(16))])))

    assert (7, [(U, 5, bytes(12)), (0, 7, bytes(16))]) == (answer.sequence, answer.tlvs)


def test_all_questions_of_the_rfcs_are_answered():
    """RFC 8972 section 4 and RFC 9503: understood, with what the socket saw; Return Path and unknown types not."""
    questions = [
        (U, 1, b"pad"),
        (U, 2, bytes(4) + bytes((U, 4, 0, 16)) + bytes(16) + bytes((U, 7, 0, 16)) + bytes(16)),
        (U, 3, bytes(4)),
        (U, 4, (46 << 26).to_bytes(4, "big")),
        (U, 5, (9).to_bytes(4, "big") + bytes(8)),
        (U, 6, b"\x10\x01\0\0"),
        (U, 7, bytes(16)),
        (U, 9, socket.inet_aton("127.0.0.1")),
        (U, 9, socket.inet_aton("192.0.2.1")),
        (U, 10, b"\0\x01\0\x04\0\0\0\0"),
        (U, 251, b"?"),
    ]
    with reflecting() as running:
        running.sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2 | 1)
        first = read_answer(running.ask(sender_packet(0)))
        answer = read_answer(running.ask(sender_packet(1, tlvs=questions)))
        ports = running.target[1].to_bytes(2, "big") + running.sender.getsockname()[1].to_bytes(2, "big")

    tlvs = {index: (flags, value) for index, (flags, _, value) in enumerate(answer.tlvs)}
    here = socket.inet_aton("127.0.0.1") + bytes(12)
    assert [1, 2, 3, 4, 5, 6, 7, 9, 9, 10, 251] == [kind for _, kind, _ in answer.tlvs]
    assert (0, b"pad") == tlvs[0]
    assert (0, ports + bytes((0, 5, 0, 16)) + here + bytes((0, 8, 0, 16)) + here) == tlvs[1]
    assert tlvs[2] in {(0, bytes((5, 2, 5, 2))), (0, bytes((1, 2, 1, 2)))}
    assert (0, (46 << 26 | 46 << 20 | 1 << 18).to_bytes(4, "big")) == tlvs[3]
    assert (0, (9).to_bytes(4, "big") + (2).to_bytes(4, "big") * 2) == tlvs[4]
    assert (0, b"\x10\x01\0\0") == tlvs[5]
    assert (0, 0, 2) == (tlvs[6][0], int.from_bytes(tlvs[6][1][:4], "big"), tlvs[6][1][12])
    assert first.timestamp < int.from_bytes(tlvs[6][1][4:12], "big") < answer.timestamp
    assert (0, U, U, U) == (tlvs[7][0], tlvs[8][0], tlvs[9][0], tlvs[10][0])


def test_answers_come_back_with_the_dscp_of_the_request_and_the_ttl_of_a_neighbour():
    """DSCP 46 in both directions; 255 hops to go."""
    with reflecting() as running:
        running.sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 46 << 2)
        for option in (socket.IP_RECVTOS, 12):
            running.sender.setsockopt(socket.IPPROTO_IP, option, 1)
        running.sender.sendto(sender_packet(0), running.target)
        pump(running.poller, lambda: bool(running.counters))
        _, ancillary, _, _ = running.sender.recvmsg(2048, 256)

    seen = {kind: value for _, kind, value in ancillary}
    assert (46 << 2, 255) == (seen[socket.IP_TOS][0], int.from_bytes(seen[socket.IP_TTL], "little"))


def test_tlvs_are_signed_when_theirs_are():
    """In authenticated mode, over the reflector's own number."""
    with authenticated() as running:
        running.ask(sender_packet(8, key=KEY))
        packet = sender_packet(9, key=KEY, tlvs=[(U, 4, bytes(4)), (U, 1, bytes(9))])
        data = running.ask(packet)

    assert 1 == read_answer(data, KEY).sequence
    assert len(packet) == len(data)
    assert stamp_peer.is_tlv_area_signed(data, KEY, 112)


def test_unsigned_tlvs_of_a_signed_packet_come_back_with_i():
    """RFC 8972 section 4.8: all but a lone Extra Padding need the HMAC TLV."""
    with authenticated() as running:
        tampered = sender_packet(1, key=KEY, tlvs=[(U, 4, bytes(4))])[:-20]
        padded = sender_packet(2, key=KEY) + stamp_peer.write_tlvs([(U, 1, bytes(4))])
        flags = [read_answer(running.ask(packet), KEY).tlvs[0][0] for packet in (tampered, padded)]

    assert [U | I, 0] == flags


def test_a_malformed_tlv_ends_the_reading():
    """What is before it is answered, what is behind comes back untouched."""
    questions = [(U, 3, bytes(4)), (U, 4, b"short"), (U, 3, bytes(4))]
    with reflecting() as running:
        answer = read_answer(running.ask(sender_packet(0, tlvs=questions)))

    assert [0, M, U] == [flags for flags, _, _ in answer.tlvs]
    assert bytes(4) == answer.tlvs[2][2]


@pytest.mark.parametrize("length", [41, 43, 44, 60])
def test_a_twamp_light_sender_gets_the_answer_it_knows_at_its_own_length(length):
    """RFC 8762 section 4.6 and RFC 5357: 14 bytes and padding in, 41 bytes and padding out."""
    packet = sender_packet(0)[:14].ljust(length, b"\0")
    with reflecting() as running:
        data = running.ask(packet)

    answer = read_answer(data)
    assert length == len(data)
    assert (0, packet[4:12], 64) == (answer.sender_sequence, answer.sender_timestamp.to_bytes(8, "big"), 64)
    assert 64 == answer.sender_ttl


@pytest.mark.parametrize("length", [41, 42, 44, 45, 100, 1472])
def test_a_twamp_sender_that_pads_with_random_bytes_has_one_session_and_no_tlvs(length):
    """RFC 5357 section 4.2.1: MBZ is zero, the count goes on, and the padding is the sender's from its beginning."""
    dice = random.Random(length)
    packets = [twamp_packet(number, dice.randbytes(length - 14)) for number in range(3)]
    with reflecting() as running:
        answers = [running.ask(packet) for packet in packets]

        assert {"stamp-answered": 3} == running.counters
    for number, (packet, data) in enumerate(zip(packets, answers, strict=True)):
        answer = read_answer(data)
        assert (number, number, 0, 64) == (answer.sequence, answer.sender_sequence, answer.ssid, answer.sender_ttl)
        assert packet[:14] == data[24:38]
        assert bytes(2) == data[14:16] == data[38:40]
        assert packet[14 : 14 + length - 41] == data[41:]


def test_padding_that_looks_like_tlvs_is_no_tlv():
    """Whatever a TWAMP sender writes behind byte 44 comes back as it was, 27 bytes later."""
    padding = b"?" * 30 + stamp_peer.write_tlvs([(U, 3, bytes(4))]) * 5
    with reflecting() as running:
        data = running.ask(twamp_packet(0, padding))

    assert padding[:-27] == data[41:]


def test_one_source_cannot_take_all_sessions():
    """Beyond its share a source is answered by its own numbers; others are counted as ever, and that is one event."""
    with reflecting(packets_per_second=10_000) as running, udp("127.0.0.2") as other:
        for ssid in range(MAX_SOURCE_SESSIONS + 3):
            number = read_answer(running.ask(sender_packet(7, ssid=ssid + 1))).sequence
            assert (0 if ssid < MAX_SOURCE_SESSIONS else 7) == number
        running.sender, first = other, running.sender
        assert 0 == read_answer(running.ask(sender_packet(7))).sequence
        running.sender = first
        assert 1 == read_answer(running.ask(sender_packet(8, ssid=1))).sequence

        assert 3 == running.counters["stamp-sessions-full"]
        assert [("127.0.0.1", "sessions-full")] == running.reported


def test_a_refusal_is_reported_once_for_each_reason_and_source():
    """What follows is in the counters; another reason, or another source, is another report."""
    with authenticated() as running, udp("127.0.0.2") as other:
        first = sender_packet(0, key=KEY)
        running.ask(first)
        for packet in (first, first, bytes(112), bytes(112)):
            running.refuse(packet)
        running.sender, sender = other, running.sender
        running.refuse(bytes(112))
        running.sender = sender

        assert [("127.0.0.1", "replayed"), ("127.0.0.1", "bad-base-tag"), ("127.0.0.2", "bad-base-tag")] == [
            (source, str(reason)) for source, reason in running.reported
        ]
        assert (2, 3) == (running.counters["stamp-replayed"], running.counters["stamp-bad-base-tag"])


def test_sources_that_are_invented_do_not_fill_the_log():
    """A bounded number of reports, all refusals counted."""
    with reflecting() as running:
        for number in range(MAX_REPORTED + 5):
            running.reflector._note(f"10.0.{number >> 8}.{number & 255}", "rate-limited")

        assert MAX_REPORTED == len(running.reported)
        assert MAX_REPORTED + 5 == running.counters["stamp-rate-limited"]


def test_requests_shorter_than_an_answer_are_dropped_in_the_kernel():
    """Or anybody could make us send more than he does."""
    with reflecting() as running:
        for length in range(41):
            running.sender.sendto(bytes(length), running.target)
        running.ask(sender_packet(0))

        assert 41 == running.reflector.filtered()
        assert {"stamp-answered": 1} == running.counters


def test_who_is_not_allowed_hears_nothing():
    """Dropped in the kernel."""
    with reflecting(allow=("127.0.0.9/32",)) as running, udp("127.0.0.9") as allowed:
        running.sender.sendto(sender_packet(0), running.target)
        running.sender = allowed
        running.ask(sender_packet(0))

        assert 1 == running.reflector.filtered()
        assert {"stamp-answered": 1} == running.counters


def test_forged_and_replayed_packets_get_no_answer_and_change_no_count():
    """Each is counted under its reason; the next packet has the next number."""
    with authenticated() as running:
        first = sender_packet(0, key=KEY)
        running.ask(first)
        forged = sender_packet(1, key=b"another key, as long as that")
        reasons = [running.refuse(first), running.refuse(forged), running.refuse(bytes(112))]

        assert 1 == read_answer(running.ask(sender_packet(1, key=KEY)), KEY).sequence

    assert ["stamp-replayed", "stamp-bad-base-tag", "stamp-bad-base-tag"] == reasons


@pytest.mark.parametrize("key", [None, KEY])
def test_what_another_reflector_answers_to_us_is_not_answered(key):
    """On a port above 1024, where the gate takes it for a sender: the two would never stop."""
    mode = StampMode.OPEN if key is None else StampMode.AUTHENTICATED
    with (
        reflecting(key=key, mode=mode) as running,
        stamp_peer.peer_reflector(stamp_peer.Habits(key=key)) as other,
        udp() as ear,
    ):
        ours = running.ask(sender_packet(0, key=key))
        ear.sendto(ours, ("127.0.0.1", other.port))
        theirs = ear.recv(2048)

        assert "stamp-not-a-request" == running.refuse(theirs)


def test_an_authenticated_reflector_remembers_even_when_it_does_not_count():
    """Numbers are the sender's, replays are refused."""
    with authenticated(stateful=False) as running:
        packet = sender_packet(5, key=KEY)

        assert 5 == read_answer(running.ask(packet), KEY).sequence
        assert "stamp-replayed" == running.refuse(packet)


def test_a_sender_that_starts_again_is_counted_from_zero():
    """Tools with a fixed port; a late copy of the first packet starts nothing."""
    with reflecting() as running:
        old = sender_packet(0)
        numbers = [
            read_answer(running.ask(packet)).sequence
            for packet in (old, sender_packet(1), old, sender_packet(0), sender_packet(1))
        ]

    assert [0, 1, 2, 0, 1] == numbers


def test_sessions_are_told_apart_by_ssid():
    """RFC 8972 section 3."""
    with reflecting() as running:
        numbers = [read_answer(running.ask(sender_packet(0, ssid=ssid))).sequence for ssid in (1, 2)]
        numbers += [read_answer(running.ask(sender_packet(1, ssid=ssid))).sequence for ssid in (1, 2, 3)]

    assert [0, 0, 1, 1, 0] == numbers


def test_answers_in_all_are_rationed():
    """Four a second are a burst of one."""
    with reflecting(packets_per_second=4) as running:
        running.ask(sender_packet(0))

        assert "stamp-rate-limited" == running.refuse(sender_packet(1))
        assert "stamp-rate-limited" == running.refuse(sender_packet(2))
        assert [("127.0.0.1", "rate-limited")] == running.reported


def test_what_is_sent_again_by_others_uses_up_no_ration():
    """Two answers at once; the second is the sender's, however often its first packet is replayed."""
    with authenticated(packets_per_second=8) as running:
        first = sender_packet(0, key=KEY)
        running.ask(first)
        assert ["stamp-replayed"] * 5 == [running.refuse(first) for _ in range(5)]

        assert 1 == read_answer(running.ask(sender_packet(1, key=KEY)), KEY).sequence


def test_one_answer_a_second_is_one():
    """Less than a packet is no burst; the second has to wait."""
    with reflecting(packets_per_second=1) as running:
        running.ask(sender_packet(0))

        assert "stamp-rate-limited" == running.refuse(sender_packet(1))


def test_longer_than_any_frame_is_counted():
    """Its end was cut off: what would come back is not what was sent."""
    with reflecting() as running:
        assert "stamp-too-long" == running.refuse(sender_packet(0, tlvs=[(U, 1, bytes(20_000))]))


def test_ipv6_is_answered_like_ipv4():
    """Addresses of 16 bytes, hop limit, traffic class."""
    with reflecting() as running, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
        six.settimeout(2)
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, 33)
        location = bytes(4) + bytes((U, 7, 0, 16)) + bytes(16)
        here = socket.inet_pton(socket.AF_INET6, "::1")
        six.sendto(sender_packet(0, tlvs=[(U, 2, location), (U, 9, here)]), ("::1", running.target[1]))
        pump(running.poller, lambda: bool(running.counters))
        answer: Answer = read_answer(six.recv(2048))

    assert 33 == answer.sender_ttl
    assert (0, bytes((0, 9, 0, 16)) + here) == (answer.tlvs[0][0], answer.tlvs[0][2][4:])
    assert (0, 9, here) == answer.tlvs[1]


def test_a_taken_port_is_tried_again():
    """And counted until it is free."""
    with udp("0.0.0.0", port := free_port()), reflecting(listen=port, allow=("127.0.0.0/8",)) as running:
        assert {"stamp-listen-failed": 1} == running.counters
        assert "Address already in use" == running.reflector.problem
    with reflecting(listen=port) as running:
        running.ask(sender_packet(0))
