"""How a kernel that is a program is started, and what its first process does."""

from __future__ import annotations

import subprocess

import pytest

from netnslab.backends.debian_uml import UserModeKernel
from netnslab.backends.user_mode import command_line, write_init


@pytest.fixture
def kernel(tmp_path):
    """One that is nowhere; nothing is started."""
    return UserModeKernel(release="6.1.176", program=tmp_path / "cache/6.1.176/linux.uml")


def test_the_guest_knows_that_it_is_one_and_reads_our_files_alone(kernel, tmp_path):
    """It is root here as well as inside, so its own root is read-only from the first moment."""
    command = command_line(kernel, tmp_path)

    assert str(kernel.program) == command[0]
    assert {"netnslab.guest=1", "rootfstype=hostfs", "ro", f"init={tmp_path}/init"} <= set(command)
    assert "time-travel=inf-cpu" in command


def test_its_first_process_is_understood_by_a_shell(tmp_path):
    """It is text in Python; a syntax error in it would only show in a booted guest."""
    write_init(tmp_path)

    assert 0o755 == (tmp_path / "init").stat().st_mode & 0o777
    assert 0 == subprocess.run(["sh", "-n", tmp_path / "init"], check=False).returncode
