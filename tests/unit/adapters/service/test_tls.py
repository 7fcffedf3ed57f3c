"""Handshakes with a gateway that reads name and protocol, and what certificates say."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import pytest

from meshwatchd.adapters.answers.tls import TlsWish, describe, describe_failure
from meshwatchd.adapters.service.tls import await_alert, find_doubt, open_tls, verifying
from meshwatchd.model.service_check import Handshake
from tests.support.certificates import LATER, write_certificate
from tests.support.service_stage import HOST, gateway, tcp_server

ISTIO = TlsWish("outbound_.8000_._.shop.default.svc.cluster.local", "istio")


def _shake(port, wish):
    async def shake():
        try:
            streams = await open_tls(HOST, port, wish)
        except OSError as error:
            return describe_failure(error, wish)
        try:
            await await_alert(streams[0], asyncio.get_running_loop().time() + 1)
            return describe(streams[1].get_extra_info("ssl_object"), wish)
        except OSError as error:
            return describe_failure(error, wish)
        finally:
            streams[1].transport.abort()

    return asyncio.run(shake())


def test_name_and_protocol_open_a_gateway(tmp_path):
    """Underscores in the name too, as Istio has them."""
    with gateway(write_certificate(tmp_path), sni=ISTIO.sni, alpn="istio") as port:
        talk = _shake(port, ISTIO)
        assert (Handshake.DONE, "TLSv1.3", "istio") == (talk.outcome, talk.version, talk.alpn)
        assert (int(LATER.timestamp()), False) == (talk.ends_s, talk.is_expired)


@pytest.mark.parametrize("wish", [TlsWish("shop.example", "istio"), TlsWish(ISTIO.sni)])
def test_a_name_or_protocol_that_a_gateway_does_not_know_is_closed(tmp_path, wish):
    """Without a word of TLS."""
    with gateway(write_certificate(tmp_path), sni=ISTIO.sni, alpn="istio") as port:
        assert Handshake.CLOSED is _shake(port, wish).outcome


def test_an_alert_behind_the_handshake_is_the_handshakes(tmp_path):
    """A workload wants a certificate of its mesh, and has answered."""
    with gateway(write_certificate(tmp_path), wants_client=True) as port:
        talk = _shake(port, TlsWish("shop"))
        assert (Handshake.ALERT, "certificate_required") == (talk.outcome, talk.alert)


def test_a_certificate_that_is_out_of_date_is_reported_and_read(tmp_path):
    """The handshake goes on: it is asked what there is."""
    ended = datetime(2020, 6, 1, 12, tzinfo=UTC)
    with gateway(write_certificate(tmp_path, ended)) as port:
        talk = _shake(port, TlsWish("shop"))
        assert (Handshake.DONE, int(ended.timestamp()), True) == (talk.outcome, talk.ends_s, talk.is_expired)
        assert asyncio.run(find_doubt(HOST, port, TlsWish("shop")))


def test_what_is_no_tls_is_told_as_that():
    """A service that speaks in plain text."""
    with tcp_server(b"220 I speak SMTP\r\n") as port:
        assert Handshake.NOT_TLS is _shake(port, TlsWish()).outcome


def test_an_authority_of_this_host_leaves_no_doubt(tmp_path, monkeypatch):
    """Under the name of the certificate; OpenSSL reads the host's authorities where this variable leads."""
    path = write_certificate(tmp_path, name="shop.example")
    with gateway(path) as port:
        assert "self-signed certificate" == asyncio.run(find_doubt(HOST, port, TlsWish()))
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        verifying.cache_clear()
        assert "" == asyncio.run(find_doubt(HOST, port, TlsWish()))
        assert "name" in asyncio.run(find_doubt(HOST, port, TlsWish("other.example"))).lower()
    assert asyncio.run(find_doubt(HOST, port, TlsWish()))


def test_the_hosts_authorities_are_read_once(tmp_path, monkeypatch):
    """For all ports of a run, and not for a handshake that verifies nothing."""
    made, make = [], ssl.create_default_context

    def count():
        made.append(make())
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", count)
    verifying.cache_clear()
    with gateway(write_certificate(tmp_path)) as port:
        assert Handshake.DONE is _shake(port, TlsWish("shop")).outcome
        assert [] == made
        for _ in range(2):
            assert asyncio.run(find_doubt(HOST, port, TlsWish("shop")))
    assert 1 == len(made)
