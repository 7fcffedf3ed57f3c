"""Files of other programs."""

import os

import pytest

from meshwatchd.adapters.sources import files
from meshwatchd.model.errors import DecodeError, KernelError


def test_a_file_is_read_whole(tmp_path):
    """And one that is not there is nothing."""
    (tmp_path / "subnet.env").write_bytes(b"FLANNEL_MTU=1450\n")

    assert b"FLANNEL_MTU=1450\n" == files.read(tmp_path / "subnet.env")
    assert files.read(tmp_path / "none") is None


def test_a_long_file_is_refused(tmp_path):
    """One byte over the limit."""
    (tmp_path / "fits").write_bytes(bytes(files.MAX_BYTES))
    (tmp_path / "long").write_bytes(bytes(files.MAX_BYTES + 1))

    assert files.MAX_BYTES == len(files.read(tmp_path / "fits") or b"")
    with pytest.raises(DecodeError, match="longer than"):
        files.read(tmp_path / "long")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_only_regular_files_are_read(tmp_path, make):
    """A pipe would never end."""
    make(tmp_path / "odd")

    with pytest.raises((DecodeError, KernelError)):
        files.read(tmp_path / "odd")


def test_a_loop_of_links_is_an_error(tmp_path):
    """Translated once, here."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    with pytest.raises(KernelError, match="loop"):
        files.read(tmp_path / "loop")


def test_names_are_bounded_and_sorted(tmp_path):
    """A directory that is not there has none."""
    for name in ("wg1.conf", "wg0.conf", "wg2.conf", "notes.txt"):
        (tmp_path / name).touch()

    assert ["wg0.conf", "wg1.conf"] == [path.name for path in files.names(tmp_path, ".conf", most=2)]
    assert () == files.names(tmp_path / "none", ".conf", most=2)
