"""`meshwatchctl version`: of both, and never a failure."""

from __future__ import annotations

import msgspec

import meshwatchd
from meshwatchd.cli.main import main


def test_both_versions_are_shown(run):
    """An upgrade without restart is seen at a glance."""
    assert (0, f"meshwatchctl {meshwatchd.__version__}\nmeshwatchd {meshwatchd.__version__}\n", "") == run("version")


def test_without_daemon_it_says_so(tmp_path, capsys):
    """The program's own version is still an answer."""
    assert 0 == main(["--json", "--socket", str(tmp_path / "none"), "version"])
    versions = msgspec.json.decode(capsys.readouterr().out)
    assert {"meshwatchctl": meshwatchd.__version__, "meshwatchd": None} == versions

    assert 0 == main(["--socket", str(tmp_path / "none"), "version"])
    assert f"meshwatchd unknown: there is no socket {tmp_path}/none" in capsys.readouterr().out
