"""A file that is replaced as a whole and moved aside when it makes no sense; its users' tests have the bad contents."""

from __future__ import annotations

import msgspec

from meshwatchd.adapters.storage.versioned_file import VersionedFile


class Numbers(msgspec.Struct, frozen=True):
    """Any content."""

    version: int
    numbers: tuple[int, ...] = ()


def _file(folder, *, version=1):
    return VersionedFile(folder / "numbers.json", Numbers, version=version, max_bytes=100, mode=0o600)


def test_it_is_written_beside_and_put_in_place(tmp_path):
    """Only its owner reads it, and no draft is left."""
    file = _file(tmp_path / "new folder")

    assert "" == file.save(Numbers(1, (2, 3)), "numbers are lost")
    assert (Numbers(1, (2, 3)), "") == file.load()
    assert ["numbers.json"] == [each.name for each in (tmp_path / "new folder").iterdir()]
    assert 0o600 == (tmp_path / "new folder" / "numbers.json").stat().st_mode & 0o777


def test_what_cannot_be_saved_is_said_with_what_is_lost(tmp_path):
    """A file where the folder should be."""
    (tmp_path / "folder").write_bytes(b"")

    assert _file(tmp_path / "folder").save(Numbers(1), "numbers are lost").endswith("; numbers are lost")


def test_what_could_not_be_loaded_does_not_replace_what_can(tmp_path):
    """The next start would move it aside, and have neither."""
    file = _file(tmp_path)
    file.save(Numbers(1, (2, 3)), "")

    problem = file.save(Numbers(1, tuple(range(100))), "numbers are lost")
    assert f"{tmp_path}/numbers.json: would be larger than 100 bytes; numbers are lost" == problem
    assert (Numbers(1, (2, 3)), "") == file.load()
    assert ["numbers.json"] == [each.name for each in tmp_path.iterdir()]


def test_another_version_is_moved_aside(tmp_path):
    """It is kept for whoever wants to look."""
    _file(tmp_path).save(Numbers(1), "")
    content, problem = _file(tmp_path, version=2).load()

    assert content is None
    assert "version 1, and this is a daemon for version 2; moved aside as numbers.json.bad" in problem
    assert ["numbers.json.bad"] == [each.name for each in tmp_path.iterdir()]
