"""One GET of a local program, by TCP or by a UNIX socket.

HTTP/1.0, because then the whole answer is what comes until the connection is closed: no chunks, nothing to keep open.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from meshwatchd.adapters.sources.owner import believed, check_owner
from meshwatchd.model.errors import DecodeError, KernelError

TIMEOUT_S: Final = 2.0
MAX_BODY_BYTES: Final = 1 << 20
"""A mesh of thousands of nodes; Kilo's graph has 150 bytes for each of them."""
MAX_HEAD_BYTES: Final = 16 * 1024

Address = tuple[str, int] | Path
"""Host and port, or a socket's path."""

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?")
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*)")


async def get(
    address: Address, target: str, source: str, *, uids: Collection[int] | None = None, timeout_s: float = TIMEOUT_S
) -> bytes:
    """The body of an answer with status 200. Without `uids` root and this process's own user are believed; the time is
    for all of it together.

    Raises:
        KernelError: nobody listens, or a user that is not believed, or the answer does not come in time.
        DecodeError: it is no HTTP, too long, cut short, or not 200.
    Source: RFC 9112.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return take_apart(await _exchange(address, target, source, believed() if uids is None else uids), source)
    except TimeoutError:
        raise KernelError(f"ask {source}", 110, f"no answer within {timeout_s:g} s") from None
    except OSError as error:
        raise KernelError(f"ask {source}", error.errno or 0, error.strerror or str(error)) from error


async def _exchange(address: Address, target: str, source: str, uids: Collection[int]) -> bytes:
    """Everything that comes, at most a byte more than is allowed."""
    if isinstance(address, Path):
        reader, writer = await asyncio.open_unix_connection(str(address))
    else:
        reader, writer = await asyncio.open_connection(*address)
    try:
        await check_owner(address, writer.get_extra_info("socket"), source, uids)
        writer.write(f"GET {target} HTTP/1.0\r\nHost: localhost\r\nAccept: */*\r\n\r\n".encode("ascii"))
        await writer.drain()
        found = bytearray()
        while part := await reader.read(MAX_HEAD_BYTES + MAX_BODY_BYTES + 1 - len(found)):
            found += part
        return bytes(found)
    finally:
        writer.transport.abort()  # all is read, or nothing more of it is wanted


def take_apart(answer: bytes, source: str) -> bytes:
    """The body of a whole answer.

    Raises:
        DecodeError: see `get`.
    """
    if len(answer) > MAX_HEAD_BYTES + MAX_BODY_BYTES:
        raise DecodeError(source, f"the answer is longer than {MAX_BODY_BYTES} bytes")
    head, separator, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if not separator or status is None:
        raise DecodeError(source, "the answer is no HTTP")
    if status[1] != b"200":
        raise DecodeError(source, f"the answer is HTTP status {status[1].decode()}")
    headers = dict(_header(line, source) for line in lines)
    if b"transfer-encoding" in headers:
        raise DecodeError(source, "the answer comes in chunks, which HTTP/1.0 does not have")
    length = headers.get(b"content-length")
    if length is not None and (not length.isdigit() or int(length) != len(body)):
        raise DecodeError(source, f"the answer has {len(body)} bytes and says {length.decode(errors='replace')[:20]}")
    return body


def _header(line: bytes, source: str) -> tuple[bytes, bytes]:
    match = _HEADER.fullmatch(line)
    if match is None:
        raise DecodeError(source, "the answer has a header without a name")
    return match[1].lower(), match[2].strip()
