"""What is dear and the same for all: packages, built once in a session, and the roots that they are tried in."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from scripts.packages.__main__ import BUILD, build
from tests.meta.tree import ROOT
from tests.support.systemd_machine import debian_root


@pytest.fixture(scope="session")
def package():
    """The Debian package of `make deb`."""
    return build("deb", BUILD)


@pytest.fixture(scope="session")
def packages(package, tmp_path_factory):
    """A folder with the package as `now.deb`, and its next version as `later.deb`."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copyfile(package, folder / "now.deb")
    subprocess.run([ROOT / "scripts/later-deb", package, folder / "later.deb"], check=True)
    return folder


@pytest.fixture(scope="session")
def base():
    """The root that machines with systemd are made of."""
    return debian_root()


@pytest.fixture(scope="session")
def kube_wheels(tmp_path_factory):
    """A folder with all that scripts/install-kube needs where there is no network."""
    folder = tmp_path_factory.mktemp("kube-wheels")
    subprocess.run([ROOT / "scripts/wheelhouse", "--kube", folder], check=True, capture_output=True)
    return folder
