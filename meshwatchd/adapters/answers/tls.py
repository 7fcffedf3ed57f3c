"""How a TLS handshake has ended, and how long the certificate lasts that was shown in it.

The handshake demands no certificate that this host knows: gateways of a mesh show those of the mesh's own authority.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.service_check import Handshake, TlsResult

ALERT_WAIT_S: Final = 0.15
"""In TLS 1.3 a server's opinion of the client's certificate comes behind its own handshake (RFC 8446, 4.4.2.4)."""

_ALERT: Final = re.compile(r"(?:SSLV3|TLSV1|TLSV13)_(?:ALERT_)?(\w+)")
"""OpenSSL's names of alerts that were received (include/openssl/sslerr.h)."""
_ENDS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
_VERSION_TAG: Final = 0xA0
_UTC_TIME: Final = 0x17


class TlsWish(NamedTuple):
    """What the ClientHello carries; an empty name for none."""

    sni: str = ""
    alpn: str = ""


def accepting(wish: TlsWish) -> ssl.SSLContext:
    """A context that takes any certificate; the authorities of the host take milliseconds to read, and are not read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    offer(context, wish)
    return context


def offer(context: ssl.SSLContext, wish: TlsWish) -> None:
    """Have a context name the protocol that is wished for, if any."""
    if wish.alpn:
        context.set_alpn_protocols([wish.alpn])


def describe(inside: ssl.SSLObject, wish: TlsWish, doubt: str = "") -> TlsResult:
    """A handshake that is done; `doubt` says why authorities do not vouch for it, where they were asked."""
    certificate = inside.getpeercert(binary_form=True)
    ends_s, detail = 0, ""
    try:
        ends_s = read_end(certificate) if certificate else 0
    except DecodeError as error:
        detail = error.reason
    return TlsResult(
        outcome=Handshake.DONE,
        sni=wish.sni,
        version=inside.version() or "",
        alpn=inside.selected_alpn_protocol() or "",
        doubt=doubt,
        ends_s=ends_s,
        is_expired=0 < ends_s <= time.time_ns() // 1_000_000_000,
        detail=detail,
    )


def describe_failure(error: OSError, wish: TlsWish) -> TlsResult:
    """A handshake that has failed: by an alert, by bytes that are no TLS, or by an end without a word."""
    if not isinstance(error, ssl.SSLError) or isinstance(error, _ENDS):
        return TlsResult(outcome=Handshake.CLOSED, sni=wish.sni, detail=error.strerror or str(error))
    reason = error.reason or ""
    alert = _ALERT.fullmatch(reason)
    # OpenSSL 3.0 has no name for some alerts, as no_application_protocol; what is no TLS always has its reason.
    if alert is not None or not reason:
        return TlsResult(outcome=Handshake.ALERT, sni=wish.sni, alert=alert[1].lower() if alert is not None else "")
    return TlsResult(outcome=Handshake.NOT_TLS, sni=wish.sni, detail=reason)


def read_end(certificate: bytes) -> int:
    """The notAfter of an X.509 certificate in DER, in seconds of Unix time.

    Raises:
        DecodeError: it is none.
    Source: RFC 5280 section 4.1: tbsCertificate is version (optional), serialNumber, signature, issuer, validity.
    """
    with Door("certificate"):
        ((_, signed), *_) = _elements(certificate)
        ((_, body), *_) = _elements(signed)
        fields = [value for tag, value in _elements(body) if tag != _VERSION_TAG]
        _, (tag, end) = _elements(fields[3])
        text = end.decode("ascii")
        if tag == _UTC_TIME:  # two digits of the year, of which 50 is 1950
            text = ("19" if text[:2] >= "50" else "20") + text
        return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and value of each element in DER (X.690 section 8.1), big endian; tags above 30 do not come here."""
    while data:
        length, begin = data[1], 2
        if length & 0x80:
            begin += length & 0x7F
            length = int.from_bytes(data[2:begin], "big")
        if len(data) < begin + length:
            raise DecodeError("certificate", "an element is cut short")
        yield data[0], data[begin : begin + length]
        data = data[begin + length :]
