"""Which kernel is taken, and what is needed to make one."""

from __future__ import annotations

import os
import shutil

import pytest

from netnslab.backends import debian_uml
from netnslab.backends.model import BackendError


def _kernel(release: str, *, age_s: int):
    program = debian_uml._cache() / release / "linux.uml"
    program.parent.mkdir(parents=True)
    program.touch()
    os.utime(program, (1_000_000 - age_s, 1_000_000 - age_s))
    return program


def test_the_kernel_made_last_is_taken_and_needs_no_tool(tmp_path, monkeypatch):
    """What is half made has a name of its own, with a dot."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _kernel("6.1.170", age_s=300)
    _kernel(".make-1", age_s=100)
    program = _kernel("6.1.176", age_s=200)
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


def test_a_kernel_of_other_options_is_another_one(tmp_path, monkeypatch):
    """What is not in the one that is there would be missed by whoever asks for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _kernel("6.1.176", age_s=100)
    monkeypatch.setattr(debian_uml, "FEATURES", f"{debian_uml.FEATURES} NET_IPVTI")

    assert debian_uml.cached() is None


def test_an_option_that_the_kernel_has_not_taken_is_named():
    """Kconfig says nothing of an option that is misspelt, or lacks what it depends on."""
    taken = debian_uml.options().replace("CONFIG_VXLAN=y", "# CONFIG_VXLAN is not set").replace("CONFIG_NET=y\n", "")

    assert [] == debian_uml.absent_from(debian_uml.options())
    assert ["NET", "VXLAN"] == sorted(debian_uml.absent_from(taken))


def test_time_can_stand_still_and_nothing_waits_for_it():
    """A kernel that measures itself by the clock would not boot; without modules none has to be installed."""
    lines = debian_uml.options().splitlines()

    assert "CONFIG_UML_TIME_TRAVEL_SUPPORT=y" in lines
    assert not {"CONFIG_RAID6_PQ_BENCHMARK=y", "CONFIG_MODULES=y"} & set(lines)
    assert len(lines) == len(set(lines))


def test_the_source_is_that_of_the_current_kernel():
    """Debian's package of no version depends on it."""
    assert "linux-source-6.1" == debian_uml.source_named("linux-source\n  Depends: linux-source-6.1\n")
    with pytest.raises(BackendError, match="no package with a kernel's source"):
        debian_uml.source_named("linux-source\n")


def test_it_is_made_of_the_source_with_our_options_alone(tmp_path, monkeypatch):
    """With what make(1) left behind: the program, and the lists by which modprobe(8) knows what is built in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ran = []

    def unpack(scratch):
        source = scratch / "source"
        source.mkdir()
        for name in ("vmlinux", "modules.builtin", "modules.builtin.modinfo"):
            (source / name).write_text(name)
        (source / ".config").write_text(taken)
        return source

    def run(command):
        ran.append(command[-1])
        if command[0] == "strip":
            shutil.copy(command[-1], command[-2])
        return "6.1.176\n"

    monkeypatch.setattr(shutil, "which", lambda tool: f"/usr/bin/{tool}")
    monkeypatch.setattr(debian_uml, "_unpack_source", unpack)
    monkeypatch.setattr(debian_uml, "_run_tool", run)
    taken = "CONFIG_NET=y\n"
    with pytest.raises(BackendError, match="takes no such option: 64BIT EXPERT"):
        debian_uml.obtain()
    assert ["kernelversion", "allnoconfig"] == ran
    ran.clear()
    taken = debian_uml.options()
    kernel = debian_uml.obtain()

    assert ["kernelversion", "allnoconfig", "vmlinux", "6.1.176"] == ran[:-1]
    assert ("6.1.176", "vmlinux") == (kernel.release, kernel.program.read_text())
    assert {"modules.builtin", "modules.builtin.modinfo", "modules.order"} == {
        path.name for path in kernel.modules.iterdir()
    }
