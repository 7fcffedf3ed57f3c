"""Messages on the wire: JSON and a NUL, cut out of any stream of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.control.varlink import (
    Splitter,
    VarlinkError,
    decode_call,
    decode_reply,
    encode_call,
    encode_error,
    encode_reply,
)
from meshwatchd.model.errors import DecodeError


def test_a_call_is_what_the_standard_shows():
    """Byte for byte; what is default is left out."""
    assert b'{"method":"a.b.C","parameters":{"x":1},"more":true}\0' == encode_call("a.b.C", {"x": 1}, more=True)


def test_a_reply_and_an_error_are_told_apart():
    """By the member `error` alone."""
    good = decode_reply(encode_reply({"x": 1}, continues=True)[:-1])
    bad = decode_reply(encode_error(VarlinkError("a.b.Wrong", parameter="x"))[:-1])
    assert ("", True, b'{"x":1}') == (good.error, good.continues, bytes(good.parameters))
    assert ("a.b.Wrong", b'{"parameter":"x"}') == (bad.error, bytes(bad.parameters))


def test_unknown_members_of_a_call_are_passed_over():
    """Other implementations may send more than we know."""
    assert "a.b.C" == decode_call(b'{"method":"a.b.C","tracing":7}').method


@pytest.mark.parametrize("message", [b"", b"x", b"[]", b'{"method":3}', b'{"parameters":{}}'])
def test_what_is_no_call_is_refused(message):
    """With the one error that the server knows how to answer."""
    with pytest.raises(DecodeError):
        decode_call(message)


@given(st.lists(st.binary(max_size=20).map(lambda raw: raw.replace(b"\0", b"-")), max_size=8), st.integers(1, 7))
def test_messages_survive_any_way_of_cutting_the_stream(messages, size):
    """A socket knows no boundaries."""
    stream = b"".join(message + b"\0" for message in messages)
    splitter = Splitter()
    found = [part for at in range(0, len(stream), size) for part in splitter.feed(stream[at : at + size])]
    assert messages == found


@pytest.mark.parametrize("data", [b"x" * 11, b"x" * 11 + b"\0", b"a\0" + b"x" * 11])
def test_a_message_that_is_too_long_is_refused_before_it_is_complete(data):
    """Nobody can make the server remember more than this."""
    with pytest.raises(DecodeError):
        Splitter(10).feed(data)
