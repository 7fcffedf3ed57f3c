"""This node's identity on standby links: a private key in a file, and the public key that belongs to it.

The public key is computed here because a userspace device does not report one. It happens once, at start, on a secret
that never leaves the node, so that the timing of Python's integers reveals nothing to anybody.
"""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

from meshwatchd.adapters.wireguard.files import write_privately
from meshwatchd.config.keys import read_private_key

KEY_BYTES = 32

_PRIME = 2**255 - 19
_A24 = 121665
_BASE_POINT = 9


def load_private_key(path: Path) -> str:
    """The private key in base64; a missing one is generated and written with mode 0600.

    Returns:
        the key as devices report it, with its fixed bits set: any 32 bytes are a key, these bits are never used.

    Raises:
        ConfigError: the file cannot be read, others may read it, or it holds no key.
        KernelError: a new key cannot be written.
    """
    found = find_private_key(path)
    if found is not None:
        return found
    key = base64.b64encode(clamp(secrets.token_bytes(KEY_BYTES))).decode()
    write_privately(path, key + "\n", is_durable=True)
    return key


def find_private_key(path: Path) -> str | None:
    """As `load_private_key`, but None where there is no file.

    Raises:
        ConfigError: the file cannot be read, others may read it, or it holds no key.
    """
    key = read_private_key(path)
    return None if key is None else base64.b64encode(clamp(key)).decode()


def public_key(private_key: str) -> str:
    """The public key of a private key, both base64: X25519 of the private key and the base point.

    Source: RFC 7748 section 5 (Montgomery ladder) and 6.1.
    """
    scalar = clamp(base64.b64decode(private_key))
    point = _multiply(int.from_bytes(scalar, "little"), _BASE_POINT)
    return base64.b64encode(point.to_bytes(KEY_BYTES, "little")).decode()


def clamp(key: bytes) -> bytes:
    """A private key with its fixed bits set (RFC 7748 section 5, decodeScalar25519)."""
    return bytes([key[0] & 248, *key[1:31], key[31] & 127 | 64])


def _multiply(scalar: int, u: int) -> int:
    """The Montgomery ladder on curve25519, with the variable names of RFC 7748."""
    x_1, x_2, z_2, x_3, z_3, swap = u, 1, 0, u, 1, 0
    for bit in range(254, -1, -1):
        k_t = scalar >> bit & 1
        if swap ^ k_t:
            x_2, x_3, z_2, z_3 = x_3, x_2, z_3, z_2
        swap = k_t
        a, b = x_2 + z_2, x_2 - z_2
        aa, bb = a * a % _PRIME, b * b % _PRIME
        e = aa - bb
        da, cb = (x_3 - z_3) * a % _PRIME, (x_3 + z_3) * b % _PRIME
        x_3, z_3 = (da + cb) ** 2 % _PRIME, x_1 * (da - cb) ** 2 % _PRIME
        x_2, z_2 = aa * bb % _PRIME, e * (aa + _A24 * e) % _PRIME
    if swap:
        x_2, z_2 = x_3, z_3
    return x_2 * pow(z_2, _PRIME - 2, _PRIME) % _PRIME
