"""A plugin of a kubeconfig is run like any other program, but never for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from lightkube.core.exceptions import ConfigError as KubeconfigError

from meshwatchkube.exec_plugin import run
from netnslab.waiting import wait_until


def _run(script, timeout_s=10.0, **environment):
    return run(["/bin/sh", "-c", script], environment, timeout_s)


def test_what_it_prints_comes_back():
    """With the environment of the kubeconfig, and without what it says to people."""
    assert b"x 1\n" == _run('echo "x $NUMBER"; echo "welcome" >&2', NUMBER="1")


def test_one_that_fails_has_its_words():
    """Whatever bytes those are."""
    with pytest.raises(KubeconfigError, match=r"exec plugin /bin/sh returned 3: no login .\n"):
        _run(r'printf "no login \377\n" >&2; exit 3')


def test_one_that_is_not_there_is_an_error_of_the_system():
    """As the caller expects it."""
    with pytest.raises(FileNotFoundError):
        run(["/nowhere/plugin"], {}, 1)


@pytest.mark.parametrize("script", ["sleep 60", "sleep 60; true", "sleep 60 & exit 0"])
def test_one_that_hangs_is_ended_with_all_that_it_has_started(tmp_path, script):
    """A shell that waits for a program, and a program that outlives its shell and keeps the output open, too."""
    began = time.monotonic()
    with pytest.raises(KubeconfigError, match=r"exec plugin /bin/sh has not ended after 0\.3 s"):
        _run(script, 0.3, MARK=str(tmp_path))
    assert time.monotonic() - began < 5
    wait_until(lambda: not _with_mark(str(tmp_path)), what="its programs are gone", timeout_s=5)


def _with_mark(mark):
    """Processes that have a word in their environment."""
    return [each for each in Path("/proc").glob("[0-9]*") if f"MARK={mark}\0" in _environment(each)]


def _environment(process):
    try:
        return (process / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""
