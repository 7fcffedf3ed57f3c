"""This node's identity on standby links: a private key in a file, and the public key that belongs to it.

The public key is computed here because a userspace device does not report one.
"""

from __future__ import annotations

import base64
import functools
import secrets
from pathlib import Path

from nacl.public import PrivateKey

from meshwatchd.adapters.wireguard.files import write_privately
from meshwatchd.config.keys import read_private_key

KEY_BYTES = 32


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


@functools.lru_cache(maxsize=8)
def public_key(private_key: str) -> str:
    """The public key of a private key, both base64: X25519 of the private key and the base point (RFC 7748 6.1).

    Kept for the devices of a node: each tells its private key every other second, and a curve takes 50 us.
    """
    return base64.b64encode(bytes(PrivateKey(base64.b64decode(private_key)).public_key)).decode()


def clamp(key: bytes) -> bytes:
    """A private key with its fixed bits set (RFC 7748 section 5, decodeScalar25519)."""
    return bytes([key[0] & 248, *key[1:31], key[31] & 127 | 64])
