"""The Debian package, on a machine that has nothing: installed, upgraded, removed, and nothing left of it."""

from __future__ import annotations

import subprocess

import pytest

from scripts.packages.__main__ import MIB
from tests.meta.tree import ROOT

MOST_BYTES = 120 * MIB
"""What an installation may take, as README says."""


@pytest.mark.timeout(900)
def test_the_package_comes_and_goes_without_a_trace(package):
    """Its own Python runs there, and the list of files before and after is the same."""
    size_kib = subprocess.run(
        ["dpkg-deb", "--field", package, "Installed-Size"], capture_output=True, text=True, check=True
    ).stdout
    assert int(size_kib) * 1024 < MOST_BYTES

    tried = subprocess.run([ROOT / "scripts/try-deb", package], capture_output=True, text=True, check=False)
    assert 0 == tried.returncode, tried.stdout + tried.stderr


def test_lintian_finds_no_error(package):
    """Nor a warning that is not overridden, with a reason, by the package itself."""
    said = subprocess.run(
        ["lintian", "--fail-on=error,warning", "--allow-root", package], capture_output=True, text=True, check=False
    )

    assert (0, "") == (said.returncode, said.stdout), said.stderr
