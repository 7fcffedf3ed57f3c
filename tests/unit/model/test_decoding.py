import struct

import msgspec
import pytest

from meshwatchd.model.decoding import MAX_SOURCES, Door, decode_frame, decode_json, refusals
from meshwatchd.model.errors import DecodeError

DOOR = Door("links.json", "remove it")


class Numbers(msgspec.Struct):
    """Something to decode."""

    first: int


def raising(error):
    """A decoder that fails in one way."""

    @DOOR
    def decode():
        raise error

    return decode


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        RecursionError("too deep"),
        OverflowError("too large"),
        IndexError("of nothing"),
        KeyError("absent"),
        TypeError("no text"),
        AttributeError("no such"),
        struct.error("too short"),
        msgspec.ValidationError("no number"),
    ],
)
def test_whatever_a_decoder_fails_with_is_one_error_with_source_and_remedy(error):
    """Callers expect one kind."""
    with pytest.raises(DecodeError) as caught:
        raising(error)()

    assert ("links.json", "remove it", 1) == (caught.value.source, caught.value.remedy, refusals.counts["links.json"])
    assert str(caught.value).startswith("links.json: not understood (")


@pytest.mark.parametrize("error", [AssertionError("ours"), KeyboardInterrupt()])
def test_faults_of_this_program_pass(error):
    """They are no property of the bytes, and hiding them would keep them."""
    with pytest.raises(type(error)):
        raising(error)()
    assert {} == refusals.counts


def test_a_refusal_that_passes_several_doors_is_counted_once():
    """The innermost knows the source, and whoever has a remedy adds it."""
    with pytest.raises(DecodeError, match="attribute: length 3; remove it"), DOOR, Door("other"):
        raise DecodeError("attribute", "length 3")

    assert {"attribute": 1} == refusals.counts


def test_the_first_refusal_of_each_source_is_reported():
    """A peer that sends nonsense all day is one line in the log."""
    told: list[DecodeError] = []
    refusals.report = told.append
    for source in ("uapi", "uapi", "hello"):
        refusals.note(DecodeError(source, "no"))

    assert ["uapi", "hello"] == [each.source for each in told]


def test_sources_are_bounded():
    """Names of files are sources; metrics have one label for each."""
    for number in range(2 * MAX_SOURCES):
        refusals.note(DecodeError(f"file {number}", "no"))

    assert (MAX_SOURCES + 1, MAX_SOURCES) == (len(refusals.counts), refusals.counts["other"])


def test_both_processes_are_added_up():
    """Engine and agent have a door each, and operators one figure."""
    refusals.note(DecodeError("frame", "no"))

    assert {"sent": 7, "refused frame": 3} == refusals.added_to({"sent": 7, "refused frame": 2})


@pytest.mark.parametrize(
    "data", [b"\xff", b'{"first":"\xff"}', b'{"first":%s}' % (b"9" * 400), b'{"x":' + b"[" * 100_000, b"", b"{}"]
)
def test_json_is_what_it_promises_or_refused(data):
    """Also a number that decodes well and that no frame could carry to the engine."""
    assert Numbers(7) == decode_json(b'{"first":7}', Numbers, DOOR)
    with pytest.raises(DecodeError):
        decode_json(data, Numbers, DOOR)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91" * 100_000, b"\x81\xa5first\xa1\xff"])
def test_frames_are_what_they_promise_or_refused(data):
    """MessagePack has its own ways to be wrong."""
    decoder = msgspec.msgpack.Decoder(Numbers)

    assert Numbers(7) == decode_frame(b"\x81\xa5first\x07", decoder, DOOR)
    with pytest.raises(DecodeError):
        decode_frame(data, decoder, DOOR)
