import stat

import pytest

from meshwatchd.adapters.wireguard.files import write_privately
from meshwatchd.model.errors import KernelError


def test_a_file_is_replaced_as_a_whole_and_private(tmp_path):
    """Whatever mode the old one had."""
    path = tmp_path / "links" / "mw0.conf"
    write_privately(path, "one")
    path.chmod(0o644)

    write_privately(path, "two", is_durable=True)

    assert "two" == path.read_text()
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [path] == list(path.parent.iterdir())


def test_a_place_that_cannot_be_written_is_an_error_with_its_name(tmp_path):
    """The old content stays."""
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(KernelError, match=r"write .*file/mw0.conf"):
        write_privately(tmp_path / "file" / "mw0.conf", "text")
