import socket
from contextlib import closing

import pytest

from enginerig.config import RigConfig, RigSession
from enginerig.floor import Answerer, Asker

SESSIONS = 10


@pytest.fixture
def port():
    """One that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("", 0))
        return int(free.getsockname()[1])


def test_every_probe_is_sent_answered_and_verified(tmp_path, port):
    """A round has each session once."""
    with closing(_asker(tmp_path, port)) as asker, closing(_answerer(tmp_path, port)) as answerer:
        for batch in asker.batches():
            asker.send(batch)
            answerer.answer()
            asker.receive()

    assert (SESSIONS, SESSIONS) == (asker.sent, asker.verified)


def test_what_is_signed_with_another_secret_counts_at_neither_end(tmp_path, port):
    """Both ends really verify."""
    with closing(_asker(tmp_path, port)) as asker, closing(_answerer(tmp_path, port, secret=b"x" * 32)) as answerer:
        for batch in asker.batches():
            asker.send(batch)
        answerer.answer()
        asker.receive()

    assert (SESSIONS, 0) == (asker.sent, asker.verified)


def _asker(directory, port):
    sessions = tuple(
        RigSession(
            peer="b1",
            group=0,
            is_pinned=True,
            path=0,
            source="127.0.0.1",
            destination=f"127.0.0.{number + 1}",
            port=port,
        )
        for number in range(SESSIONS)
    )
    return Asker(_config(directory, "a1", "b1", sessions=sessions))


def _answerer(directory, port, secret=bytes(32)):
    return Answerer(_config(directory, "b1", "a1", listen=(port,), secret=secret))


def _config(directory, node, peer, *, secret=bytes(32), **fields):
    return RigConfig(
        node=node, peers=(peer,), secret_hex=secret.hex(), events=directory / "e", samples=directory / "s", **fields
    )
