"""Self-signed certificates for TLS servers of tests, of any age; the key lives as long as its test.

    path = write_certificate(directory, ends=datetime(2020, 1, 1, tzinfo=UTC))   # key and certificate in one PEM file

Ed25519 by libsodium, DER by hand: no test needs openssl(1), which a bare machine has not.
Source: RFC 5280 section 4.1, RFC 8410 (Ed25519 in X.509 and PKCS #8).
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path

from nacl.signing import SigningKey

LATER = datetime(2049, 1, 1, tzinfo=UTC)
"""The last year of UTCTime."""
_BEGIN = datetime(2019, 1, 1, tzinfo=UTC)
_ED25519 = bytes.fromhex("300506032b6570")
_COMMON_NAME = bytes.fromhex("0603550403")


def _element(tag: int, *parts: bytes) -> bytes:
    """One element of DER with a length of up to 65 535 bytes."""
    content = b"".join(parts)
    length = len(content)
    size = bytes([length]) if length < 0x80 else b"\x82" + length.to_bytes(2, "big")
    return bytes([tag]) + size + content


def _time(moment: datetime) -> bytes:
    if moment.year < 2050:
        return _element(0x17, f"{moment:%y%m%d%H%M%SZ}".encode())
    return _element(0x18, f"{moment:%Y%m%d%H%M%SZ}".encode())


def make_certificate(key: SigningKey, ends: datetime = LATER, name: str = "localhost") -> bytes:
    """A certificate of version 3 in DER that says no more than it must."""
    subject = _element(0x30, _element(0x31, _element(0x30, _COMMON_NAME, _element(0x0C, name.encode()))))
    body = _element(
        0x30,
        _element(0xA0, _element(0x02, b"\x02")),
        _element(0x02, b"\x07"),
        _ED25519,
        subject,
        _element(0x30, _time(_BEGIN), _time(ends)),
        subject,
        _element(0x30, _ED25519, _element(0x03, b"\0", bytes(key.verify_key))),
    )
    return _element(0x30, body, _ED25519, _element(0x03, b"\0", key.sign(body).signature))


def write_certificate(directory: Path, ends: datetime = LATER, name: str = "localhost") -> Path:
    """A new key with its certificate, as `ssl.SSLContext.load_cert_chain` reads them."""
    key = SigningKey.generate()
    private = _element(0x30, _element(0x02, b"\0"), _ED25519, _element(0x04, _element(0x04, bytes(key))))
    path = directory / "server.pem"
    path.write_text(_pem("PRIVATE KEY", private) + _pem("CERTIFICATE", make_certificate(key, ends, name)))
    return path


def _pem(kind: str, content: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(content).decode()}-----END {kind}-----\n"
