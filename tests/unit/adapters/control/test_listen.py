"""The socket: its mode, whose it may replace, and where it may not be."""

from __future__ import annotations

import grp
import os
import pwd
import socket

import pytest

from meshwatchd.adapters.control.listen import OPERATORS, is_operator, open_listener
from meshwatchd.model.errors import ControlError


def _refusal(path):
    with pytest.raises(ControlError) as caught:
        open_listener(path)
    return str(caught.value)


def test_the_socket_is_for_owner_and_group(tmp_path):
    """0660, in a folder that is made when it is missing."""
    path = tmp_path / "run/control.sock"
    with open_listener(path):
        assert 0o660 == path.stat().st_mode & 0o777


def test_a_group_that_the_daemon_may_not_give_files_to_is_passed_over(tmp_path, monkeypatch):
    """The unit has no CAP_CHOWN: without the socket nobody could ask anything."""

    def refuse(*_arguments, **_options):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("meshwatchd.adapters.control.listen.GROUP", "root")
    monkeypatch.setattr(os, "chown", refuse)
    path = tmp_path / "control.sock"
    with open_listener(path):
        assert (0o660, os.getegid()) == (path.stat().st_mode & 0o777, path.stat().st_gid)


def test_an_operator_is_a_member_of_a_group_that_need_not_exist(monkeypatch):
    """By name, as group(5) has it; users without a name are no members."""
    groups = {"others": ["root"]}

    def find(name):
        return grp.struct_group((name, "x", 997, groups[name]))

    monkeypatch.setattr(grp, "getgrnam", find)
    known = pwd.getpwuid(0)
    monkeypatch.setattr(pwd, "getpwuid", {0: known}.__getitem__)
    assert not is_operator(0)
    groups[OPERATORS] = ["daemon"]
    assert not is_operator(0)
    groups[OPERATORS] = ["daemon", "root"]
    assert is_operator(0)
    assert not is_operator(4711)


def test_a_path_that_is_too_long_says_so(tmp_path):
    """The error of Python itself has no number."""
    assert "AF_UNIX path too long" in _refusal(tmp_path / ("x" * 120))


def test_the_process_keeps_its_umask(tmp_path):
    """The narrow one is for the socket alone."""
    before = os.umask(0o022)
    try:
        open_listener(tmp_path / "control.sock").close()
        assert 0o022 == os.umask(0o022)
    finally:
        os.umask(before)


def test_a_dead_daemons_socket_is_replaced(tmp_path):
    """Kill -9 leaves one behind."""
    path = tmp_path / "control.sock"
    open_listener(path).close()
    assert path.exists()
    with open_listener(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def test_a_living_daemons_socket_is_left_alone(tmp_path):
    """Its name is still its own afterwards."""
    path = tmp_path / "control.sock"
    with open_listener(path) as living:
        assert f"{path} is in use: another meshwatchd is running" == _refusal(path)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            living.accept()[0].close()


def test_a_link_is_refused(tmp_path):
    """Following it would let its owner choose what root creates or removes."""
    path = tmp_path / "control.sock"
    path.symlink_to(tmp_path / "elsewhere")
    assert f"{path} is a link; remove it if it is not needed: rm {path}" == _refusal(path)
    assert path.is_symlink()


def test_somebodys_file_is_refused(tmp_path):
    """A wrong runtime_dir must not cost anybody a file."""
    path = tmp_path / "control.sock"
    path.write_text("precious")
    assert f"{path} is no socket" in _refusal(path)
    assert "precious" == path.read_text()


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    """As for the socket itself."""
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    assert f"{tmp_path / 'run'} is a link; name the folder itself" in _refusal(tmp_path / "run/control.sock")


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    """They could put a socket of their own in its place."""
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o777)
    assert f"{folder} can be written to by others; run: chown root {folder} && chmod 0755 {folder}" == (
        _refusal(folder / "control.sock")
    )


def test_a_folder_that_cannot_be_made_is_an_error_in_words(tmp_path):
    """No traceback for a typing error."""
    (tmp_path / "file").write_text("")
    assert "cannot listen on " in _refusal(tmp_path / "file/run/control.sock")
