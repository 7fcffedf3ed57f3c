"""One port of one address, with everything that it may do."""

from __future__ import annotations

import asyncio
import time

import pytest

from meshwatchd.adapters.service.connect import Knock, Target, connect
from meshwatchd.adapters.service.tls import TlsWish
from meshwatchd.model.service_check import Handshake, HttpResult, Origin, Reach, Segments
from tests.support.certificates import write_certificate
from tests.support.deaf_listener import deaf_listener
from tests.support.service_stage import HOST, closed_port, full_listener, gateway, tcp_server

LIMIT_S = 1.0
READY, NOT_READY = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


def _connect(port, wish=None, path="", address=HOST):
    async def run():
        end_s = asyncio.get_running_loop().time() + LIMIT_S
        return await connect(Target(address, Origin.ANSWER, Knock(port, wish, path)), end_s)

    return asyncio.run(run())


def test_a_service_acknowledges_full_segments():
    """A SYN alone would not say that."""
    with tcp_server() as port:
        found = _connect(port)
    assert (Reach.ESTABLISHED, Segments.ACKNOWLEDGED) == (found.reach, found.segments)
    assert 0 < found.time_ns < LIMIT_S * 1e9
    assert None is found.tls is found.http


def test_a_port_without_a_listener_refuses():
    """Somebody is there."""
    with closed_port() as port:
        found = _connect(port)
    assert (Reach.REFUSED, Segments.UNTRIED) == (found.reach, found.segments)


def test_a_syn_that_is_dropped_is_silence_in_time():
    """The queue of that listener is full."""
    with full_listener() as port:
        began = time.monotonic()
        found = _connect(port)
    assert Reach.SILENT is found.reach
    assert LIMIT_S / 2 < time.monotonic() - began < LIMIT_S + 0.3


def test_an_address_without_a_route_is_unreachable_with_the_kernels_words():
    """A link-local address needs a device that is named."""
    found = _connect(443, address="fe80::1")
    assert Reach.UNREACHABLE is found.reach
    assert found.detail


def test_full_segments_that_are_lost_are_told_apart_from_silence():
    """Small segments pass, as behind an offload that spoils large ones."""
    with deaf_listener() as listener:
        found = _connect(listener.getsockname()[1])
    assert (Reach.ESTABLISHED, Segments.LOST) == (found.reach, found.segments)


@pytest.mark.parametrize(("reply", "status"), [(READY, 200), (NOT_READY, 503), (b"what?\r\n", 0)])
def test_a_get_is_answered_by_a_status(reply, status):
    """In plain text."""
    with tcp_server(reply) as port:
        assert HttpResult(path="/ready", status=status) == _connect(port, path="/ready").http


def test_a_service_that_never_answers_a_get_has_no_status():
    """Within the limit of time."""
    with tcp_server() as port:
        assert HttpResult(path="/ready") == _connect(port, path="/ready").http


def test_tls_and_http_share_a_connection(tmp_path):
    """And the certificate, which nobody here knows, is judged beside."""
    with gateway(write_certificate(tmp_path), reply=NOT_READY) as port:
        found = _connect(port, TlsWish("shop"), "/healthz/ready")
    assert HttpResult(path="/healthz/ready", status=503) == found.http
    assert found.tls is not None
    assert (Handshake.DONE, "self-signed certificate") == (found.tls.outcome, found.tls.doubt)


@pytest.mark.parametrize("path", ["", "/ready"])
def test_the_wish_for_a_clients_certificate_is_an_alert(tmp_path, path):
    """With or without a GET behind it."""
    with gateway(write_certificate(tmp_path), wants_client=True) as port:
        found = _connect(port, TlsWish("shop"), path)
    assert found.tls is not None
    assert (Handshake.ALERT, "certificate_required") == (found.tls.outcome, found.tls.alert)


def test_a_handshake_that_is_not_answered_is_silent_in_time():
    """Something takes connections and says nothing."""
    with tcp_server() as port:
        found = _connect(port, TlsWish("shop"))
    assert found.tls is not None
    assert Handshake.SILENT is found.tls.outcome
