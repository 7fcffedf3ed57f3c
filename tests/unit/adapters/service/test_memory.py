"""Where names have led before."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import msgspec
import pytest

from meshwatchd.adapters.service.memory import MAX_ADDRESSES, MAX_BYTES, MAX_NAMES, Answer, Answers, Memory, find_path
from tests.support.example_services import NAME, OWN_VIP, SERVER, VIP

NO_MORE = Answer(addresses=("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",) * MAX_ADDRESSES, is_local=False, at_s=2**40)


@pytest.fixture
def path(tmp_path):
    """A file in a folder that is not there yet."""
    return tmp_path / "meshwatchctl" / "services.json"


def test_an_answer_is_remembered_with_its_age(path):
    """In a file that its owner alone reads."""
    memory = Memory(NAME, SERVER, path)
    assert (None, "") == memory.recall()
    assert "" == memory.keep((VIP,), is_local=False)
    before, problem = Memory(NAME, SERVER, path).recall()
    assert before is not None
    assert ((VIP,), False, "") == (before.addresses, before.is_local, problem)
    assert before.age_s in range(60)
    assert 0o600 == path.stat().st_mode & 0o777


def test_the_same_name_of_another_server_is_another_name(path):
    """Two clusters name alike; the later answer replaces the earlier one of the same server."""
    Memory(NAME, SERVER, path).keep((VIP,), is_local=False)
    Memory(NAME, "10.43.0.10", path).keep((OWN_VIP,), is_local=True)
    Memory(NAME, SERVER, path).keep((OWN_VIP,), is_local=True)
    found = [Memory(NAME, server, path).recall()[0] for server in (SERVER, "10.43.0.10", "10.0.0.1")]
    assert [(OWN_VIP,), (OWN_VIP,), None] == [each.addresses if each else None for each in found]


def test_no_more_names_are_kept_than_have_room(path):
    """The longest unasked makes room."""
    for number in range(MAX_NAMES + 1):
        Memory(f"s{number}.default", SERVER, path).keep((VIP,), is_local=False)
    assert Memory("s0.default", SERVER, path).recall()[0] is None
    assert Memory("s1.default", SERVER, path).recall()[0] is not None


def test_a_file_that_is_written_can_be_read_back(path):
    """However many addresses and names there are, and however long."""
    full = {f"{number:0>253}@{SERVER}": NO_MORE for number in range(MAX_NAMES)}
    path.parent.mkdir()
    path.write_bytes(msgspec.json.encode(Answers(answers=full)))
    memory = Memory(NAME, SERVER, path)
    assert "" == memory.keep(tuple(f"fd00::{number:x}" for number in range(60_000)), is_local=False)
    before, problem = memory.recall()
    assert before is not None
    assert (MAX_ADDRESSES, "") == (len(before.addresses), problem)
    assert path.stat().st_size < MAX_BYTES


def test_two_runs_do_not_write_the_same_draft(path):
    """Where another one has left its own."""
    path.parent.mkdir()
    path.with_suffix(".new").mkdir()
    assert "" == Memory(NAME, SERVER, path).keep((VIP,), is_local=False)


def test_a_file_that_makes_no_sense_is_moved_aside(path):
    """And said so; what is learnt next is kept again."""
    path.parent.mkdir()
    path.write_text('{"version": 2}')
    memory = Memory(NAME, SERVER, path)
    before, problem = memory.recall()
    assert before is None
    assert "moved aside as services.json.bad" in problem
    assert "" == memory.keep((VIP,), is_local=False)


def test_a_folder_that_cannot_be_written_is_a_reason(tmp_path):
    """A file is in its place."""
    (tmp_path / "blocked").touch()
    problem = Memory(NAME, SERVER, tmp_path / "blocked" / "services.json").keep((VIP,), is_local=False)
    assert problem.endswith("; the answer is not remembered")


def test_the_file_is_the_users_own(monkeypatch):
    """By the user database: under sudo, $HOME may be somebody else's."""
    monkeypatch.setenv("HOME", "/nonexistent/somebody")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert Path(home, ".local/state/meshwatchctl/services.json") == find_path()
    monkeypatch.setenv("XDG_STATE_HOME", "/var/tmp/state")
    assert Path("/var/tmp/state/meshwatchctl/services.json") == find_path()
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert Path(home, ".local/state/meshwatchctl/services.json") == find_path()


def test_a_user_without_an_entry_has_the_home_of_the_environment(monkeypatch):
    """As in a container; and nobody is asked where the folder is given."""
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 5)
    monkeypatch.setenv("HOME", "/var/tmp/somebody")
    monkeypatch.setenv("XDG_STATE_HOME", "/var/tmp/state")
    assert Path("/var/tmp/state/meshwatchctl/services.json") == find_path()
    monkeypatch.delenv("XDG_STATE_HOME")
    assert Path("/var/tmp/somebody/.local/state/meshwatchctl/services.json") == find_path()
