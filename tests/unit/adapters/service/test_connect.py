"""One port of one address, with everything that it may do."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
import time

import pytest

from meshwatchd.adapters.answers.tls import TlsWish
from meshwatchd.adapters.service.connect import LEAST_S, Knock, Target, connect
from meshwatchd.model.service_check import Handshake, HttpResult, Origin, Reach, Segments
from tests.support.certificates import write_certificate
from tests.support.deaf_listener import deaf_listener
from tests.support.service_stage import HOST, closed_port, full_listener, gateway, tcp_server

LIMIT_S = 1.0
READY, NOT_READY = b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


def _connect(port, wish=None, path="", **changes):
    async def run():
        end_s = asyncio.get_running_loop().time() + changes.get("limit_s", LIMIT_S)
        return await connect(Target(changes.get("address", HOST), Origin.ANSWER, Knock(port, wish, path)), end_s)

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


def test_a_host_without_a_family_is_unreachable_with_the_kernels_words(monkeypatch):
    """As booted with ipv6.disable=1, where the socket itself is refused."""

    def refuse(*_):
        raise OSError(errno.EAFNOSUPPORT, "")

    async def run():
        with monkeypatch.context() as patch:
            patch.setattr(socket, "socket", refuse)
            return await connect(Target("fd00::1", Origin.ANSWER, Knock(443)), 0)

    found = asyncio.run(run())
    assert (Reach.UNREACHABLE, os.strerror(errno.EAFNOSUPPORT)) == (found.reach, found.detail)


def take_one(listener):
    """Make room for one connection more."""
    listener.accept()[0].close()


def test_silence_after_a_slow_handshake_is_no_loss_of_full_segments():
    """The first SYN is dropped, since the queue is full; what is left of the time are no four round trips."""
    with deaf_listener(backlog=0) as listener, socket.create_connection(listener.getsockname()):
        making_room = threading.Timer(LIMIT_S / 4, take_one, (listener,))
        making_room.start()
        found = _connect(listener.getsockname()[1], limit_s=2 * LIMIT_S)
        making_room.join()
    assert (Reach.ESTABLISHED, Segments.UNTRIED) == (found.reach, found.segments)
    assert found.time_ns > LIMIT_S / 4 * 1e9


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
        found = _connect(port, TlsWish("shop"), "/healthz/ready", limit_s=10 * LIMIT_S)
    assert HttpResult(path="/healthz/ready", status=503) == found.http
    assert found.tls is not None
    assert (Handshake.DONE, "self-signed certificate") == (found.tls.outcome, found.tls.doubt)


@pytest.mark.parametrize("wish", [None, TlsWish("shop")])
def test_a_step_for_which_no_time_is_left_is_untried(wish):
    """Which is no silence of whoever would have been asked."""
    with tcp_server() as port:
        found = _connect(port, wish, "/ready", limit_s=LEAST_S - 0.01)
    assert HttpResult(path="/ready", is_tried=False) == found.http
    assert (found.tls.outcome if found.tls else None) == (Handshake.UNTRIED if wish else None)


def test_a_server_that_speaks_first_is_heard_from_its_first_byte(tmp_path):
    """As one that refuses all requests."""
    with gateway(write_certificate(tmp_path), greeting=NOT_READY) as port:
        assert HttpResult(path="/", status=503) == _connect(port, TlsWish("shop"), "/").http


def test_a_certificate_is_not_called_verified_where_the_connection_is_reset(tmp_path):
    """Right behind the handshake, so nobody has looked."""
    with gateway(write_certificate(tmp_path), resets=True) as port:
        talk = _connect(port, TlsWish("shop")).tls
    assert talk is not None
    assert (Handshake.DONE, "not tried: the connection was reset") == (talk.outcome, talk.doubt)


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
