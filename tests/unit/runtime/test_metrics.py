"""Figures over HTTP and in a file; whoever asks for anything else is told so."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.settings import MetricsSettings
from meshwatchd.runtime import metrics as module
from meshwatchd.runtime.metrics import Metrics
from tests.support.example_status import HEALTHY


class Log:
    """Takes down warnings."""

    def __init__(self):
        self.events = []

    def warning(self, event, **fields):
        """One line."""
        self.events.append(event)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _metrics(log=None, **settings):
    return _metrics_of(lambda: OverlayFigures(fdb_entries=7), log, **settings)


async def _is_fresh():
    """The figures are those of this moment."""


def _metrics_of(overlay, log=None, refresh=_is_fresh, **settings):
    return Metrics(MetricsSettings(**settings), lambda: (HEALTHY, overlay()), log or Log(), refresh=refresh)


def _ask(*requests):
    """What a server on a free port answers to the last of several clients."""
    port = _free_port()
    metrics = _metrics(listen=f"127.0.0.1:{port}")

    async def client(request):
        for _ in range(100):
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                try:
                    return await reader.read()
                except ConnectionResetError:
                    return b""
                finally:
                    writer.close()
            await asyncio.sleep(0.01)
        raise AssertionError("nobody listens")

    async def scenario():
        async with asyncio.TaskGroup() as group:
            server = group.create_task(metrics.serve())
            answers = [await client(request) for request in requests]
            server.cancel()
        return answers[-1]

    return asyncio.run(scenario())


def test_figures_are_served():
    """To Prometheus, to curl, and to anybody else who asks for them."""
    answer = _ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert b"\nvxlan_fdb_entries_total 7.0\n" in answer


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"nonsense", b"405"),
        (b"HEAD /metrics HTTP/1.1", b"200"),
    ],
)
def test_anything_else_is_refused(request_line, status):
    """In a word; a HEAD has no body."""
    answer = _ask(request_line + b"\r\n\r\n")

    assert status == answer.split()[1]
    assert b"vxlan" not in answer


@pytest.fixture
def narrow(monkeypatch):
    """A run of a server with a text of some size and of a client, with sockets that hold little of it."""

    def run(size, scenario):
        metrics = _metrics()
        monkeypatch.setattr(metrics, "text", lambda: b"x" * size)

        async def serve():
            listening.bind(("127.0.0.1", 0))
            server = await asyncio.start_server(metrics._answer, sock=listening)
            async with server, asyncio.timeout(10):
                await scenario(client, listening.getsockname())

        with socket.socket() as listening, socket.socket() as client:
            for each, option in ((listening, socket.SO_SNDBUF), (client, socket.SO_RCVBUF)):
                each.setsockopt(socket.SOL_SOCKET, option, 4096)
                each.setblocking(False)
            asyncio.run(serve())

    return run


async def _request(client, address):
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, address)
    await loop.sock_sendall(client, b"GET /metrics HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize("size", [60_000, 400_000])
def test_a_client_that_does_not_read_keeps_nothing(monkeypatch, narrow, size):
    """Neither a descriptor nor what it was to read, whether much or little of that is unsent."""
    monkeypatch.setattr(module, "REQUEST_TIMEOUT_S", 0.1)

    async def scenario(client, address):
        without = _count_descriptors()
        await _request(client, address)
        await _until(lambda: _count_descriptors() > without)
        await _until(lambda: _count_descriptors() <= without)

    narrow(size, scenario)


def test_a_client_that_reads_late_gets_all(narrow):
    """Nothing is cut off that may still arrive."""

    async def scenario(client, address):
        await _request(client, address)
        read = bytearray()
        while part := await asyncio.get_running_loop().sock_recv(client, 1000):
            read += part
        assert 60_000 == len(read.partition(b"\r\n\r\n")[2])

    narrow(60_000, scenario)


async def _until(predicate):
    while not predicate():  # noqa: ASYNC110  # nothing announces that a descriptor is closed
        await asyncio.sleep(0.01)


def _count_descriptors():
    return len([*Path("/proc/self/fd").iterdir()])


def test_what_speaks_no_http_is_dropped():
    """A line without an end is no request."""
    assert b"" == _ask(b"x" * 200_000)


@pytest.mark.parametrize("request_line", [b"\xff" * 9, b"9" * 400, b"[" * 100_000, b"GET /metrics HTTP/1.1\r\n\xff: "])
def test_after_what_speaks_no_http_the_next_is_answered(request_line):
    """One client's bytes are nobody else's trouble."""
    assert b"200 OK" in _ask(request_line + b"\r\n\r\n", b"GET /metrics HTTP/1.1\r\n\r\n")


def test_an_address_that_is_taken_is_told(tmp_path):
    """And tried again; the daemon does without meanwhile."""
    log = Log()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()

        async def scenario():
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await _metrics(log, listen=f"127.0.0.1:{holder.getsockname()[1]}").serve()

        asyncio.run(scenario())

    assert ["metrics.refused"] == log.events


def test_a_file_is_written_whole_and_goes_with_the_daemon(tmp_path):
    """Figures of a daemon that is gone would be taken for the present."""
    path = tmp_path / "meshwatchd.prom"
    seen = []

    async def scenario():
        async with asyncio.TaskGroup() as group:
            writer = group.create_task(_metrics(textfile=str(path)).write())
            await asyncio.sleep(0)
            seen.append((path.read_text(), path.stat().st_mode & 0o777, len(list(tmp_path.iterdir()))))
            writer.cancel()

    asyncio.run(scenario())
    (text, mode, files) = seen[0]

    assert "vxlan_fdb_entries_total 7.0" in text
    assert (0o644, 1) == (mode, files)
    assert not path.exists()


def test_figures_are_those_of_the_moment_at_which_they_are_wanted(tmp_path):
    """The engine makes none for a moment at which nobody looks."""
    refreshed = []

    async def refresh():
        refreshed.append(True)

    async def scenario():
        port = _free_port()
        metrics = _metrics_of(OverlayFigures, refresh=refresh, listen=f"127.0.0.1:{port}")
        answers = []

        async def answer(ours, writer):
            await metrics._answer(ours, writer)
            answers.append(len(refreshed))

        async with await asyncio.start_server(answer, "127.0.0.1", port):
            theirs, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            await theirs.read()
            writer.close()
        async with asyncio.TaskGroup() as group:
            metrics = _metrics_of(OverlayFigures, refresh=refresh, textfile=str(tmp_path / "m"))
            writing = group.create_task(metrics.write())
            await asyncio.sleep(0)
            writing.cancel()
        return answers

    assert [1] == asyncio.run(scenario())
    assert 2 == len(refreshed)


def test_a_directory_that_is_missing_is_told_once(tmp_path):
    """Every 15 s would be a flood."""
    log = Log()
    metrics = _metrics(log, textfile=str(tmp_path / "missing" / "m.prom"))
    for _ in range(3):
        metrics._write(tmp_path / "missing" / "m.prom")

    assert ["metrics.unwritten"] == log.events


def test_nothing_is_done_unless_it_is_wanted():
    """Both are off by default."""

    async def scenario():
        metrics = _metrics()
        await metrics.serve()
        await metrics.write()

    asyncio.run(scenario())
