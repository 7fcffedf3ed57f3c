"""ARP probes as bytes, and what counts as an answer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from meshwatchd.adapters.arp import announce, ask, ask_by, decode_answer, encode_announcement, encode_probe
from meshwatchd.model.underlay import ArpAnswers

OWN = bytes.fromhex("024e00000001")
ADDRESS = "10.2.0.11"
STRANGER, PEER = "02:4e:00:00:00:02", "02:4e:00:00:00:03"
PROBE = bytes.fromhex("ffffffffffff024e0000000108060001080006040001024e00000001000000000000000000000a02000b")
ANSWER = bytes.fromhex("024e00000001024e0000000208060001080006040002024e000000020a02000b024e0000000100000000")


def test_a_probe_claims_no_address():
    """RFC 5227: the sender's address is zero, so nobody's neighbour table changes."""
    assert PROBE == encode_probe(OWN, ADDRESS)


def test_a_probe_to_one_mac_differs_in_its_destination_alone():
    """A switch delivers it where it believes that MAC to be."""
    assert ANSWER[6:12] + PROBE[6:] == encode_probe(OWN, ADDRESS, ANSWER[6:12])


def test_an_announcement_claims_the_address_before_everybody():
    """RFC 5227, 2.3: a probe whose sender address is the target's."""
    assert PROBE[:28] + PROBE[38:] + PROBE[32:] == encode_announcement(OWN, ADDRESS)
    assert "" == decode_answer(encode_announcement(OWN, ADDRESS), ADDRESS)


def test_on_a_device_that_is_not_there_nothing_is_announced():
    """It may go between the address and its announcement."""
    with pytest.raises(OSError, match="No such device"):
        asyncio.run(announce("nosuch0", OWN.hex(":"), ADDRESS))


def test_the_sender_of_a_reply_for_the_address_is_the_answer():
    """With the padding of short frames as well."""
    assert "02:4e:00:00:00:02" == decode_answer(ANSWER, ADDRESS) == decode_answer(ANSWER + bytes(18), ADDRESS)


def test_nothing_else_is_an_answer():
    """Replies for other addresses, requests, what is cut short, other protocols."""
    assert "" == decode_answer(ANSWER, "10.2.0.12")
    assert "" == decode_answer(PROBE, ADDRESS)
    assert "" == decode_answer(ANSWER[:41], ADDRESS)
    assert "" == decode_answer(ANSWER[:12] + b"\x08\x00" + ANSWER[14:], ADDRESS)
    assert "" == decode_answer(ANSWER[:18] + b"\x08\x04" + ANSWER[20:], ADDRESS)


def test_on_a_device_that_is_not_there_nobody_answers():
    """It may go between the look and the question."""
    assert ArpAnswers() == asyncio.run(ask("nosuch0", OWN.hex(":"), ADDRESS))


@pytest.mark.parametrize(
    ("expected", "answers", "found"),
    [
        ((), ["02"], ArpAnswers(macs=(STRANGER,))),
        ((PEER,), ["02"], ArpAnswers(macs=(STRANGER,), asked=4, heard_alone=4)),
        ((STRANGER,), ["02"], ArpAnswers(macs=(STRANGER,), asked=4, heard=4, heard_alone=4)),
        ((PEER, STRANGER), ["02", "03", "02"], ArpAnswers(macs=(STRANGER, PEER), asked=4, heard=4, heard_alone=4)),
        ((PEER,), [], ArpAnswers(asked=4)),
    ],
)
def test_answers_to_everybody_and_to_one_are_counted_apart(expected, answers, found):
    """A machine with two network cards, or two machines, answer each probe twice; no more than were asked count."""
    frames = [ANSWER[:22] + bytes.fromhex("024e000000") + bytes.fromhex(last) + ANSWER[28:] for last in answers]

    async def scenario():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with ours, theirs:
            ours.setblocking(False)
            theirs.setblocking(False)
            async with asyncio.TaskGroup() as group:
                answering = group.create_task(_answer(theirs, frames))
                result = await ask_by(ours, OWN, ADDRESS, expected)
                answering.cancel()
            return result

    assert found == asyncio.run(scenario())


async def _answer(opened, frames):
    loop = asyncio.get_running_loop()
    while True:
        await loop.sock_recv(opened, 128)
        for frame in frames:
            await loop.sock_sendall(opened, frame)
