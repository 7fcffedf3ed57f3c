"""A secret is used only from a file that nobody else can read or replace."""

from __future__ import annotations

import base64
import os
import stat

import pytest

from meshwatchd.config.keys import _check_access, is_missing, keep, read_mesh_key, read_private_key, read_stamp_key
from meshwatchd.model.errors import ConfigError

SECRET = bytes(range(32))
TEXT = base64.b64encode(SECRET) + b"\n"


@pytest.fixture
def key_file(tmp_path):
    """A good key file."""
    path = tmp_path / "mesh.key"
    path.write_bytes(TEXT)
    path.chmod(0o400)
    return path


def _refusal(path):
    with pytest.raises(ConfigError) as caught:
        read_mesh_key(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: auth.key_file: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: auth.key_file: ")


def test_a_good_key_is_its_32_bytes(key_file):
    """The closing newline of base64 does not belong to it."""
    assert SECRET == read_mesh_key(key_file)


def test_a_link_to_a_good_key_is_followed(key_file, tmp_path):
    """Kubernetes mounts secrets as links; what counts is the file that was opened."""
    link = tmp_path / "link.key"
    link.symlink_to(key_file)
    assert SECRET == read_mesh_key(link)


def test_a_missing_key_says_how_to_make_one(tmp_path):
    """The remedy is the command itself."""
    path = tmp_path / "none.key"
    assert (
        f"there is no such file; run: umask 077; head -c 32 /dev/urandom | base64 > {path}, "
        "and copy it to every node of the mesh"
    ) == _refusal(path)


@pytest.mark.parametrize(
    ("mode", "whom"), [(0o644, "everybody (mode 0644)"), (0o440, "its group (mode 0440)"), (0o402, "everybody")]
)
def test_a_key_open_to_others_is_refused(key_file, mode, whom):
    """What others could read is no secret any more, hence `replace the key`."""
    key_file.chmod(mode)
    line = _refusal(key_file)
    assert line.startswith(f"is open to {whom}")
    assert line.endswith(f"; run: chmod 0400 {key_file}, and replace the key")


def test_a_key_of_another_user_is_refused(key_file):
    """Its owner could replace it."""
    fields = list(key_file.stat())
    fields[stat.ST_UID] = 4242
    with pytest.raises(ConfigError, match="belongs to user 4242, who could read or replace it; run: chown root "):
        _check_access(key_file, "auth.key_file", os.stat_result(fields))


@pytest.mark.parametrize("content", [b"", b"abc", base64.b64encode(bytes(31)), bytes(32), b"\xff" * 44])
def test_a_key_of_the_wrong_length_or_alphabet_is_refused_and_not_repeated(key_file, content):
    """A message ends up in logs; the content must not."""
    key_file.chmod(0o600)
    key_file.write_bytes(content)
    assert (
        "is not base64 of 32 bytes (44 characters); "
        "copy it from another node, or make one: head -c 32 /dev/urandom | base64"
    ) == _refusal(key_file)


def test_a_directory_is_no_key(tmp_path):
    """Opening it succeeds; reading would not."""
    assert "is not a regular file; name the file that holds the key" == _refusal(tmp_path)


def test_a_pipe_does_not_hang_the_start(tmp_path):
    """A pipe without writer blocks an ordinary open for ever."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "is not a regular file; name the file that holds the key" == _refusal(path)


def test_an_absent_private_key_is_no_error(tmp_path):
    """Nodes that relay nothing have none."""
    assert read_private_key(tmp_path / "none.key") is None


def test_a_private_key_that_cannot_be_looked_at_is_not_taken_for_absent(key_file):
    """Else another one would be made, and the peers would know neither."""
    with pytest.raises(ConfigError, match="cannot be opened: Not a directory"):
        read_private_key(key_file / "standby.key")


def test_a_private_key_is_held_to_the_same_rules(key_file):
    """The remedy names WireGuard's own tool."""
    assert SECRET == read_private_key(key_file)
    key_file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"standby\.private_key_file: is open to everybody \(mode 0644\)"):
        read_private_key(key_file)
    key_file.chmod(0o600)
    key_file.write_bytes(b"x")
    with pytest.raises(ConfigError, match=r"; run: umask 077; wg genkey > "):
        read_private_key(key_file)


def test_a_stamp_key_is_the_file_as_it_is(tmp_path):
    """Other makers' keys are no base64; a newline at the end would be part of it."""
    path = tmp_path / "stamp.key"
    path.write_bytes(b"\xff\n sixteen bytes \n")
    path.chmod(0o400)
    assert b"\xff\n sixteen bytes \n" == read_stamp_key(path)


@pytest.mark.parametrize(
    ("content", "problem"), [(b"short", "holds 5 bytes"), (bytes(4096), "holds 4096 bytes or more")]
)
def test_what_is_too_short_or_too_long_for_a_stamp_key_is_refused(tmp_path, content, problem):
    """The line names the setting and the command that makes a good one; a tool that only asks takes a short one."""
    path = tmp_path / "stamp.key"
    path.write_bytes(content)
    path.chmod(0o400)
    with pytest.raises(ConfigError, match=problem) as caught:
        read_stamp_key(path)
    assert f"{path}: stamp.key_file: {problem}; a key has 16 bytes or more: umask 077; " in str(caught.value)
    if len(content) < 16:
        assert content == read_stamp_key(path, least_bytes=1)


def test_a_stamp_key_others_can_read_is_refused(tmp_path):
    """As the mesh key is."""
    path = tmp_path / "stamp.key"
    path.write_bytes(bytes(16))
    path.chmod(0o444)
    with pytest.raises(ConfigError, match="is open to everybody"):
        read_stamp_key(path)


def test_a_copy_that_root_has_made_is_read_instead(key_file, tmp_path, monkeypatch):
    """The daemon's user may not even look at the file: here it is gone."""
    kept = tmp_path / "kept"
    keep(key_file, "auth.key_file", kept)
    assert 0o400 == stat.S_IMODE((kept / "auth.key_file").stat().st_mode)
    key_file.unlink()
    assert is_missing(key_file)

    monkeypatch.setenv("MESHWATCH_KEYS", str(kept))
    assert not is_missing(key_file)
    assert SECRET == read_mesh_key(key_file)
    assert is_missing(key_file, "auth.accepted_key_file")


def test_a_key_that_would_be_refused_is_not_copied(key_file, tmp_path):
    """A copy of mode 0400 must not make a key good that everybody could read."""
    key_file.chmod(0o444)

    with pytest.raises(ConfigError, match="is open to everybody"):
        keep(key_file, "auth.key_file", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
