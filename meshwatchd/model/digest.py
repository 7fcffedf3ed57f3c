"""Hash functions that the interpreter brings itself.

`hashlib` takes SHA-256 from OpenSSL: 0.6 MiB that every process keeps, and 3 MiB of program text beside it, for 0.7 us
less in a tag of a 300-byte packet. An engine at rest makes some 200 of them a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b, sha256
    from hmac import compare_digest
else:
    from _blake2 import blake2b
    from _operator import _compare_digest as compare_digest

    try:
        from _sha2 import sha256  # from Python 3.12 on
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:  # an interpreter that was built without
            from hashlib import sha256

__all__ = ["blake2b", "compare_digest", "sha256"]
