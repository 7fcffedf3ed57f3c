"""A GET, and the status of what is answered."""

from __future__ import annotations

import re
from typing import Final

STATUS_BYTES: Final = 16
"""More than the start of a status line that has the status in it."""

_STATUS_LINE: Final = re.compile(rb"HTTP/[0-9.]{1,3} ([0-9]{3})\b")


def request(path: str, host: str, agent: str) -> bytes:
    """One GET after which the server closes the connection (RFC 9112); path and host are without spaces."""
    lines = f"GET {path} HTTP/1.1", f"Host: {host}", f"User-Agent: {agent}", "Connection: close", "", ""
    return "\r\n".join(lines).encode()


def read_status(data: bytes) -> int:
    """The status in the first bytes of an answer; 0 where they are no answer of HTTP."""
    found = _STATUS_LINE.match(data)
    return int(found[1]) if found is not None else 0
