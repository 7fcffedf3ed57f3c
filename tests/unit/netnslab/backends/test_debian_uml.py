"""Which kernel is taken, and what is needed to make one."""

from __future__ import annotations

import os
import shutil

import pytest

from netnslab.backends import debian_uml
from netnslab.backends.model import BackendError


def _kernel(cache, release: str, *, age_s: int):
    program = cache / "netnslab" / "uml" / release / "linux.uml"
    program.parent.mkdir(parents=True)
    program.touch()
    os.utime(program, (1_000_000 - age_s, 1_000_000 - age_s))
    return program


def test_the_kernel_made_last_is_taken_and_needs_no_tool(tmp_path, monkeypatch):
    """What is half made has a name of its own, with a dot."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _kernel(tmp_path, "6.1.170", age_s=300)
    _kernel(tmp_path, ".make-1", age_s=100)
    program = _kernel(tmp_path, "6.1.176", age_s=200)
    monkeypatch.setattr(shutil, "which", lambda _tool: None)

    kernel = debian_uml.obtain()
    assert ("6.1.176", program) == (kernel.release, kernel.program)
    assert program.parent / "lib/modules/6.1.176" == kernel.modules
    assert [] == debian_uml.missing()


def test_missing_tools_are_named_with_their_packages(tmp_path, monkeypatch):
    """All at once, and before anything is fetched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool in ("bc", "gcc", "make") else f"/usr/bin/{tool}")

    assert ["apt-get install bc build-essential"] == debian_uml.missing()
    with pytest.raises(BackendError, match="apt-get install bc build-essential"):
        debian_uml.obtain()


def test_the_source_is_that_of_the_kernel():
    """Debian names it after the first two numbers."""
    assert "linux-source-6.1" == debian_uml.source_package("6.1.176")
