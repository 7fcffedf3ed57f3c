"""A secret is used only from a file that nobody else can read or replace."""

from __future__ import annotations

import base64
import os
import stat

import pytest

from meshwatchd.config.keys import _check_access, read_mesh_key, read_private_key
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
