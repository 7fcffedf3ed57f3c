"""OpenSSL's names of alerts, and what certificates say; handshakes are in tests/unit/adapters/service/test_tls.py."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest
from nacl.signing import SigningKey

from meshwatchd.adapters.answers.tls import TlsWish, accepting, describe_failure, read_end
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.service_check import Handshake
from tests.support.certificates import make_certificate


def test_a_context_that_accepts_asks_for_no_authority():
    """Gateways show certificates of the mesh's own."""
    context = accepting(TlsWish("shop", "istio"))
    assert (False, ssl.CERT_NONE) == (context.check_hostname, context.verify_mode)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", (Handshake.ALERT, "handshake_failure")),
        ("TLSV1_ALERT_UNKNOWN_CA", (Handshake.ALERT, "unknown_ca")),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", (Handshake.ALERT, "certificate_required")),
        ("TLSV1_UNRECOGNIZED_NAME", (Handshake.ALERT, "unrecognized_name")),
        ("WRONG_VERSION_NUMBER", (Handshake.NOT_TLS, "")),
        (None, (Handshake.ALERT, "")),
    ],
)
def test_openssls_names_of_alerts_are_translated(reason, expected):
    """As RFC 8446 has them."""
    error = ssl.SSLError(1, "x")
    error.reason = reason
    failed = describe_failure(error, TlsWish())
    assert expected == (failed.outcome, failed.alert)


@pytest.mark.parametrize("year", [1975, 2020, 2049, 2051])
def test_the_end_of_a_certificate_is_read_in_both_forms(year):
    """Two digits of the year until 2049, four from 2050 (RFC 5280 section 4.1.2.5)."""
    ends = datetime(year, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert int(ends.timestamp()) == read_end(make_certificate(SigningKey.generate(), ends))


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x03abc", make_certificate(SigningKey.generate())[:60]])
def test_what_is_no_certificate_is_refused(data):
    """Cut short, or something else."""
    with pytest.raises(DecodeError):
        read_end(data)
