"""A request, and the status of an answer."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.answers.http import STATUS_BYTES, read_status, request


def test_a_request_is_one_get():
    """The server closes the connection behind its answer."""
    expected = b"GET /ready HTTP/1.1\r\nHost: [::1]\r\nUser-Agent: me\r\nConnection: close\r\n\r\n"
    assert expected == request("/ready", "[::1]", "me")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"HTTP/1.1 200 OK\r\n", 200),
        (b"HTTP/1.0 503 Service Unavailable\r\n", 503),
        (b"HTTP/2 404\r\n", 404),
        (b"HTTP/1.1 2000 OK\r\n", 0),
        (b"220 I speak SMTP\r\n", 0),
        (b"", 0),
    ],
)
def test_the_status_is_in_the_first_bytes(line, status):
    """Of an answer that is one."""
    assert status == read_status(line[:STATUS_BYTES])
