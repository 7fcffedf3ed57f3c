"""Whose socket it is that answers for an agent."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from meshwatchd.adapters.sources import http, owner
from meshwatchd.model.errors import KernelError
from tests.support.local_server import Answers, ok, serving

ME, SOMEBODY_ELSE = os.geteuid(), os.geteuid() + 1


def _asked(uids, path=None):
    """What a program of this user answers to one who believes those users, and what it was asked."""
    answers = Answers(ok(b"digraph"))

    async def run():
        async with serving(answers, path) as address:
            try:
                return await http.get(path or address, "/graph", "kilo graph", uids=uids)
            except KernelError as error:
                return error
            finally:
                await answers.ended.wait()

    return asyncio.run(run()), answers.asked


@pytest.mark.parametrize("name", ["", "sock"])
def test_a_program_of_a_user_who_is_believed_is_asked(tmp_path, name):
    """By TCP and by a UNIX socket."""
    body, asked = _asked([ME], tmp_path / name if name else None)

    assert (b"digraph", 1) == (body, len(asked))


@pytest.mark.parametrize("name", ["", "sock"])
def test_a_program_of_anybody_else_is_not_asked_and_that_is_said(tmp_path, name):
    """The line names the place, the user and the key that would allow it."""
    error, asked = _asked([SOMEBODY_ELSE], tmp_path / name if name else None)

    assert isinstance(error, KernelError)
    assert (errno.EPERM, []) == (error.errno, asked)
    for word in (name or "127.0.0.1:", f"belongs to user {ME}", "discovery.source_uids"):
        assert word in error.text


def test_root_and_the_own_user_are_believed_and_those_that_are_configured():
    """The daemon runs as root."""
    assert {0, ME, 12345} == owner.believed((12345,))


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_whoever_listens_at_the_port_at_any_address_counts(family):
    """Kilo listens at all addresses of both families, and so may anybody where it does not."""
    with socket.socket(family) as listener:
        listener.bind(("", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            check = owner.check_owner(("127.0.0.1", port), connection, "kilo graph", [SOMEBODY_ELSE])
            with pytest.raises(KernelError, match=f"belongs to user {ME}"):
                asyncio.run(check)


def test_a_socket_that_is_closed_already_is_nobodys():
    """It may have been anybody's."""

    async def run():
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = server.getsockname()
            connection = socket.create_connection(address)
        with connection:
            await owner.check_owner(address, connection, "kilo graph", [ME])

    with pytest.raises(KernelError, match="is nobody's that listens"):
        asyncio.run(run())
