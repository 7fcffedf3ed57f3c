"""One port of one address: the SYN, then full segments, TLS and HTTP, each on a connection of its own.

    SYN  -> established -> full segments (`adapters.bulk`)
         |              -> TLS handshake -> GET
         -> refused, unreachable, silent

Full segments are zeros, over which the service may close the connection; what speaks TLS or HTTP is another one.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from contextlib import ExitStack, suppress
from time import monotonic_ns
from typing import Final, NamedTuple

from meshwatchd.adapters import bulk
from meshwatchd.adapters.answers import tls as answers
from meshwatchd.adapters.answers.http import read_status, request
from meshwatchd.adapters.service import tls
from meshwatchd.model.service_check import Connection, Handshake, HttpResult, Origin, Reach, Segments, TlsResult
from meshwatchd.model.settings import SECOND

KEPT_S: Final = 0.3
"""Of the time there is, what a SYN leaves to full segments, TLS and HTTP."""
LEAST_S: Final = 0.4
"""With less time TLS or HTTP is not begun: a handshake takes three round trips, and silence would prove nothing."""
ROUND_TRIPS: Final = 4
"""Silence to full segments proves nothing sooner: the SYN took one round trip, and a slow path is no black hole."""
_LOOK_S: Final = 0.005
_REACHES: Final = {errno.ECONNREFUSED: Reach.REFUSED, errno.ECONNRESET: Reach.REFUSED}


class Knock(NamedTuple):
    """How to try a port; `tls` and `path` (of a GET) where the service speaks them."""

    port: int
    tls: answers.TlsWish | None = None
    path: str = ""


class Target(NamedTuple):
    """Where to knock; see `Connection` for the fields."""

    address: str
    origin: Origin
    knock: Knock
    is_guessed: bool = False


async def connect(target: Target, end_s: float) -> Connection:
    """Try one port; returns by `end_s`, an instant of the loop's clock."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
    began_ns, detail, segments = monotonic_ns(), "", Segments.UNTRIED
    spoken: tuple[TlsResult | None, HttpResult | None] = (None, None)
    with ExitStack() as stack:
        try:
            # A host without IPv6 has no such socket.
            kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            opened = stack.enter_context(socket.socket(family, kind))
            bulk.prepare(opened)
            async with asyncio.timeout_at(end_s - KEPT_S):
                await loop.sock_connect(opened, (target.address, target.knock.port))
            reach = Reach.ESTABLISHED
        except TimeoutError:
            reach = Reach.SILENT
        except OSError as error:
            reach, detail = _REACHES.get(error.errno or 0, Reach.UNREACHABLE), os.strerror(error.errno or 0)
        spent_ns = monotonic_ns() - began_ns
        if reach is Reach.ESTABLISHED:
            segments, spoken = await asyncio.gather(_fill(opened, end_s, spent_ns / SECOND), _speak(target, end_s))
    return Connection(
        address=target.address,
        port=target.knock.port,
        origin=target.origin,
        is_guessed=target.is_guessed,
        reach=reach,
        time_ns=spent_ns,
        segments=segments,
        tls=spoken[0],
        http=spoken[1],
        detail=detail,
    )


async def _fill(connected: socket.socket, end_s: float, round_trip_s: float) -> Segments:
    """Whether full segments are acknowledged."""
    began_s = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(end_s):
            # The kernel has no event for an acknowledgement that leaves the buffer full: it is looked for.
            while not bulk.carry_on(connected):  # noqa: ASYNC110 - nothing of ours sets an event here
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        return Segments.LOST if end_s - began_s >= ROUND_TRIPS * round_trip_s else Segments.UNTRIED
    except OSError:
        return Segments.CLOSED
    return Segments.ACKNOWLEDGED


async def _speak(target: Target, end_s: float) -> tuple[TlsResult | None, HttpResult | None]:
    knock, wish = target.knock, target.knock.tls
    if wish is None:
        return None, await _get(target, None, end_s) if knock.path else None
    if not _has_time(end_s):
        untried = HttpResult(path=knock.path, is_tried=False) if knock.path else None
        return TlsResult(outcome=Handshake.UNTRIED, sni=wish.sni), untried
    silent = TlsResult(outcome=Handshake.SILENT, sni=wish.sni)
    try:
        async with asyncio.timeout_at(end_s):
            streams = await tls.open_tls(target.address, knock.port, wish)
    except TimeoutError:
        return silent, None
    except OSError as error:
        return answers.describe_failure(error, wish), None
    http = None
    try:
        said = await tls.await_alert(streams[0], end_s)
        if knock.path:
            http = await _get(target, streams, end_s, said)
        return _described(streams, wish, await _doubt(target, wish, end_s)), http
    except OSError as error:
        failed = answers.describe_failure(error, wish)
        if failed.outcome is Handshake.ALERT:
            return failed, http
        return _described(streams, wish, "not tried: the connection was reset"), http
    finally:
        await tls.close(streams)


def _described(streams: tls.Streams, wish: answers.TlsWish, doubt: str) -> TlsResult:
    inside: ssl.SSLObject = streams[1].get_extra_info("ssl_object")
    return answers.describe(inside, wish, doubt)


async def _doubt(target: Target, wish: answers.TlsWish, end_s: float) -> str:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(end_s):
            return await tls.find_doubt(target.address, target.knock.port, wish)
    return "no time was left to verify the certificate"


def _has_time(end_s: float) -> bool:
    return end_s - asyncio.get_running_loop().time() >= LEAST_S


async def _get(target: Target, streams: tls.Streams | None, end_s: float, said: bytes = b"") -> HttpResult:
    """One GET, over the streams of a TLS connection or in plain text; the status 0 where there is none in time.

    `said` is what the peer has sent on the streams before it was asked.

    Raises:
        ssl.SSLError: the peer answers by an alert.
    """
    knock, status = target.knock, 0
    if not _has_time(end_s):
        return HttpResult(path=knock.path, is_tried=False)
    address = f"[{target.address}]" if ":" in target.address else target.address
    host = (knock.tls.sni if knock.tls is not None else "") or address
    opened = streams
    try:
        async with asyncio.timeout_at(end_s):
            opened = opened or await asyncio.open_connection(target.address, knock.port)
            opened[1].write(request(knock.path, host, "meshwatchctl"))
            status = read_status(said + await opened[0].readline())
    except (TimeoutError, ValueError):  # no answer, or one that is no line
        pass
    except OSError as error:
        if isinstance(error, ssl.SSLError):
            raise
    finally:
        if streams is None and opened is not None:
            await tls.close(opened)
    return HttpResult(path=knock.path, status=status)
