"""The interpreter's own hash functions: the same digests, and no OpenSSL."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from meshwatchd.model.digest import blake2b, compare_digest, sha256


@pytest.mark.parametrize("data", [b"", b"abc", bytes(300)])
def test_digests_are_those_of_hashlib(data):
    """Known answers come with it: FIPS 180-4 and RFC 7693 are what hashlib is tested by."""
    assert hashlib.sha256(data).digest() == sha256(data).digest()
    assert hashlib.blake2b(data, digest_size=8).digest() == blake2b(data, digest_size=8).digest()


def test_equal_is_equal():
    """Bytes that differ in one bit are not."""
    assert compare_digest(b"\x01" * 16, b"\x01" * 16)
    assert not compare_digest(b"\x01" * 16, b"\x01" * 15 + b"\x00")


def test_the_engine_loads_no_openssl():
    """Where the interpreter has a SHA-256 of its own, as every one from python.org and Debian does."""
    program = "import sys, meshwatchd.runtime.engine_process as _\nprint('_hashlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)

    assert "False" == done.stdout.strip()
