"""What is dear and the same for all: packages, built once in a session, and the roots that they are tried in."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from scripts.packages import rpm
from scripts.packages.__main__ import BUILD, HOSTS, build_for_hosts, version
from scripts.talos_extension import debian
from tests.meta.tree import ROOT
from tests.support.systemd_machine import debian_root


@pytest.fixture(scope="session")
def host_packages():
    """What `make deb`, `make rpm` and `make sysext` make, of one bundle."""
    return build_for_hosts(HOSTS, BUILD)


@pytest.fixture(scope="session")
def package(host_packages):
    """The Debian package."""
    return host_packages["deb"]


@pytest.fixture(scope="session")
def packages(package, tmp_path_factory):
    """A folder with the package as `now.deb`, and its next version as `later.deb`."""
    folder = tmp_path_factory.mktemp("packages")
    shutil.copyfile(package, folder / "now.deb")
    subprocess.run([ROOT / "scripts/later-deb", package, folder / "later.deb"], check=True)
    return folder


@pytest.fixture(scope="session")
def others(host_packages, tmp_path_factory):
    """A folder with the .rpm as `now.rpm`, its next version as `later.rpm`, and what the extension holds."""
    folder = tmp_path_factory.mktemp("others")
    shutil.copyfile(host_packages["rpm"], folder / "now.rpm")
    tree, later = folder / "tree", version("+next")
    shutil.copytree(BUILD / "rpm", tree, symlinks=True)
    subprocess.run([ROOT / "scripts/later-tree", tree, version(), later], check=True)
    rpm.build(folder / "later.rpm", tree, version=later, architecture=debian.architecture(), libc="2")
    shutil.rmtree(tree)
    unpack = ["unsquashfs", "-quiet", "-no-progress", "-dest", folder / "meshwatchd", host_packages["sysext"]]
    subprocess.run(unpack, check=True)
    return folder


@pytest.fixture(scope="session")
def base():
    """The root that machines with systemd are made of."""
    return debian_root()


@pytest.fixture(scope="session")
def base_13():
    """That of Debian 13, with what its own Python and rpm install by."""
    return debian_root("make", "python3", "rpm", suite="trixie")


@pytest.fixture(scope="session")
def kube_wheels(tmp_path_factory):
    """A folder with all that scripts/install-kube needs where there is no network."""
    folder = tmp_path_factory.mktemp("kube-wheels")
    subprocess.run([ROOT / "scripts/wheelhouse", "--kube", folder], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def wheels_313(tmp_path_factory):
    """A folder with all that scripts/install needs on Debian 13."""
    folder = tmp_path_factory.mktemp("wheels-313")
    subprocess.run([ROOT / "scripts/wheelhouse", "--python", "3.13", folder], check=True, capture_output=True)
    return folder
