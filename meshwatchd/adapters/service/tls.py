"""A TLS handshake with a given name and protocol.

The handshake demands no certificate that this host knows: gateways of a mesh show those of the mesh's own authority.
Whether the host's authorities vouch for it is asked by a second handshake and reported beside.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl

from meshwatchd.adapters.answers.tls import ALERT_WAIT_S, TlsWish, accepting, offer

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def open_tls(address: str, port: int, wish: TlsWish) -> Streams:
    """Connect and shake hands; the streams are the caller's to close.

    Raises:
        OSError: it failed; `describe_failure` knows how.
    """
    return await asyncio.open_connection(address, port, ssl=accepting(wish), server_hostname=wish.sni)


async def close(streams: Streams) -> None:
    """End a connection at once, whatever is under way; how it ended before is nobody's business any more."""
    streams[1].transport.abort()
    # asyncio prints the traceback of an end that nobody has asked for.
    with contextlib.suppress(OSError):
        await streams[1].wait_closed()


async def await_alert(reader: asyncio.StreamReader, end_s: float) -> bytes:
    """Return the first byte that the peer says, or nothing after 0.15 s of quiet, or at `end_s` of the loop's clock.

    Raises:
        OSError: it has sent an alert, or reset the connection.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(min(end_s, asyncio.get_running_loop().time() + ALERT_WAIT_S)):
            return await reader.read(1)
    return b""


async def find_doubt(address: str, port: int, wish: TlsWish) -> str:
    """Why this host's authorities do not vouch for the certificate under that name; empty where they do."""
    context = verifying(wish)
    try:
        streams = await asyncio.open_connection(address, port, ssl=context, server_hostname=wish.sni)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except OSError as error:
        return str(error)
    await close(streams)
    return ""


@functools.lru_cache(maxsize=1)
def verifying(wish: TlsWish) -> ssl.SSLContext:
    """A context with the authorities of this host, made once: all ports of one run have the same wish."""
    context = ssl.create_default_context()
    context.check_hostname = bool(wish.sni)
    offer(context, wish)
    return context
