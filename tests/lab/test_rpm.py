"""The package for Fedora: what rpm knows of it. tests/lab/test_debian_13.py installs it."""

from __future__ import annotations

import subprocess

import pytest

from tests.meta.tree import ROOT


@pytest.fixture(scope="module")
def rpm(host_packages):
    """The file."""
    return host_packages["rpm"]


def asked(rpm, *what):
    """What a query of the file prints, line by line."""
    # Debian's rpm would make a database in the home of who asks.
    command = ["rpm", "--dbpath", rpm.with_name("database"), "--query", "--package", *what, rpm]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.timeout(900)
def test_it_wants_a_c_library_and_systemd_and_nothing_that_it_brings(rpm):
    """No library and no interpreter is looked for in other packages, nor offered to them.

    What has userdel is called differently by Fedora and by SUSE, and is in another folder since /usr/sbin is /usr/bin.
    """
    wanted = {line for line in asked(rpm, "--requires") if not line.startswith("rpmlib(")}

    assert {"/bin/sh", "(shadow-utils or shadow)", "glibc >= 2.36", "systemd"} == wanted
    assert {"meshwatchd"} == {line.partition(" ")[0].partition("(")[0] for line in asked(rpm, "--provides")}


def test_a_changed_configuration_is_kept(rpm):
    """By an upgrade as it is, and when the package is erased under another name."""
    configuration = ["/etc/iproute2/rt_protos.d/meshwatchd.conf", "/etc/meshwatchd/meshwatchd.toml"]

    assert configuration == asked(rpm, "--configfiles")
    flags = dict(
        line.split() for line in asked(rpm, "--queryformat", "[%{FILENAMES} %{FILEFLAGS:fflags}\n]") if " c" in line
    )
    assert dict.fromkeys(configuration, "cn") == flags


def test_rpmlint_finds_no_error(rpm):
    """Nor a warning that rpm/rpmlint.toml does not leave out, with a reason."""
    command = ["rpmlint", "--config", ROOT / "rpm/rpmlint.toml", rpm]
    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert 0 == said.returncode, said.stdout + said.stderr
    assert [] == [line for line in said.stdout.splitlines() if ": W: " in line or ": E: " in line]
