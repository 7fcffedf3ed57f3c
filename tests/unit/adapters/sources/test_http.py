"""One GET, whatever the other side does."""

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources import http
from meshwatchd.model.errors import DecodeError, KernelError
from tests.support.local_server import Answers, ok, serving


def asked(answer, *, timeout_s=2.0):
    """The body of what such a server answers."""

    async def run():
        async with serving(Answers(answer)) as address:
            return await http.get(address, "/graph?format=dot", "kilo graph", timeout_s=timeout_s)

    return asyncio.run(run())


def test_the_body_of_a_good_answer_is_had():
    """With and without a length."""
    assert b"digraph" == asked(ok(b"digraph"))
    assert b"digraph" == asked(b"HTTP/1.0 200 OK\r\n\r\ndigraph")


def test_a_unix_socket_is_asked_the_same_way(tmp_path):
    """Cilium's agent has one, and answers nobody who does not say what he wants."""
    answers = Answers(ok(b"{}"))

    async def run():
        async with serving(answers, tmp_path / "sock"):
            return await http.get(tmp_path / "sock", "/v1/cluster/nodes", "cilium agent")

    assert b"{}" == asyncio.run(run())
    assert answers.asked[0].startswith(b"GET /v1/cluster/nodes HTTP/1.0\r\nHost: localhost\r\n")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "no HTTP"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nshort", "has 5 bytes and says 9"),
        (b"HTTP/1.0 503 Busy\r\n\r\n", "status 503"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "chunks"),
        (b"HTTP/1.0 200 OK\r\nno header\r\n\r\n", "header without a name"),
    ],
)
def test_other_answers_are_refused_with_source_and_reason(answer, reason):
    """Whatever listens on the port may be somebody else."""
    with pytest.raises(DecodeError, match=reason) as refused:
        asked(answer)

    assert "kilo graph" == refused.value.source


def test_an_endless_answer_ends():
    """At the limit, not when memory is full."""
    with pytest.raises(DecodeError, match="longer than"):
        asked(b"HTTP/1.0 200 OK\r\n\r\n" + bytes(http.MAX_BODY_BYTES + http.MAX_HEAD_BYTES))


def test_who_does_not_answer_is_not_waited_for():
    """A program that hangs must not hang this one."""
    with pytest.raises(KernelError, match=r"no answer within 0\.05 s"):
        asked(None, timeout_s=0.05)


def test_nobody_there_is_an_error_with_its_number(tmp_path):
    """The caller tells a program that does not run from one that is broken."""
    with pytest.raises(KernelError) as refused:
        asyncio.run(http.get(tmp_path / "none", "/", "cilium agent"))

    assert 2 == refused.value.errno


@given(st.binary(max_size=200) | st.binary(max_size=100).map(lambda rest: b"HTTP/1.0 200 OK\r\n" + rest))
def test_no_bytes_make_it_fail_otherwise(answer):
    """A body, or a reason."""
    with contextlib.suppress(DecodeError):
        assert http.take_apart(answer, "x") in answer
