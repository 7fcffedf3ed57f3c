"""One daemon for each port and mark of a network namespace, and nobody else keeps it from starting."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from meshwatchd.adapters import namespace_lock
from meshwatchd.adapters.namespace_lock import Holder, NamespaceLock, daemons, names_of


@pytest.fixture
def name() -> str:
    """Of this test run alone."""
    return f"meshwatchd/test/{os.getpid()}"


@contextmanager
def taken(name: str, backlog: int | None) -> Iterator[socket.socket]:
    """Somebody else's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(f"\0{name}")
        if backlog is not None:
            other.listen(backlog)
        yield other


def test_the_second_is_told_who_the_first_is(name):
    """By process and user; when that one ends the name is free."""
    first, second = NamespaceLock((name,)), NamespaceLock((f"{name}/other", name))

    assert () == first.acquire()
    [holder] = second.acquire()
    assert Holder(name, os.getpid(), os.geteuid()) == holder
    assert holder is daemons((holder,))
    first.release()
    second.release()
    assert () == second.acquire()
    second.release()


@pytest.mark.parametrize("backlog", [None, 0])
def test_who_only_sits_on_a_name_is_no_daemon(name, backlog):
    """It does not listen, or lets nobody in: nothing blocks."""
    lock = NamespaceLock((name,))
    with taken(name, backlog):
        fillers = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) for _ in range(4)]
        for each in fillers:
            each.connect_ex(f"\0{name}")
        [holder] = lock.acquire()
        for each in fillers:
            each.close()

    assert Holder(name, 0, -1) == holder
    assert daemons((holder,)) is None


@pytest.mark.parametrize(("uid", "is_one"), [(0, True), (os.geteuid(), True), (65534, False), (-1, False)])
def test_a_process_of_another_user_is_no_daemon(uid, is_one):
    """Any local user can take a name."""
    assert is_one is Holder("x", 7, uid).is_a_daemon


def test_the_services_user_runs_daemons(monkeypatch):
    """Root starts one by hand beside it."""
    monkeypatch.setattr(namespace_lock, "SERVICE_USER", "daemon")

    assert Holder("x", 7, pwd.getpwnam("daemon").pw_uid).is_a_daemon


def test_the_names_are_those_of_port_and_mark():
    """Daemons that share neither may run beside each other."""
    assert not set(names_of(port=1, protocol=117)) & set(names_of(port=2, protocol=118))
    assert set(names_of(port=1, protocol=117)) & set(names_of(port=2, protocol=117))
    assert set(names_of(port=1, protocol=117)) & set(names_of(port=1, protocol=118))
