"""What a kernel without time is made of, and that one is made once."""

from __future__ import annotations

from netnslab.backends import debian_uml, timeless_kernel


def test_time_stands_still_and_nothing_waits_for_it():
    """A kernel that measures itself by the clock would not boot; without modules none has to be installed."""
    lines = timeless_kernel.options().splitlines()

    assert "CONFIG_UML_TIME_TRAVEL_SUPPORT=y" in lines
    assert {"# CONFIG_RAID6_PQ_BENCHMARK is not set", "# CONFIG_MODULES is not set"} <= set(lines)
    assert len(lines) == len(set(lines))


def test_a_kernel_that_is_there_is_taken(tmp_path, monkeypatch):
    """It takes ten minutes to make one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for kind in ("uml", "timeless"):
        program = tmp_path / "netnslab" / kind / "6.1.176" / "linux.uml"
        program.parent.mkdir(parents=True)
        program.touch()

    assert program == timeless_kernel.obtain().program


def test_it_is_made_of_the_other_kernels_source(tmp_path, monkeypatch):
    """With what make(1) left behind: the program, and the lists by which modprobe(8) knows what is built in."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = tmp_path / "netnslab" / "uml" / "6.1.176" / "linux.uml"
    program.parent.mkdir(parents=True)
    program.touch()
    commands = []

    def unpack(release, scratch):
        assert "6.1.176" == release
        source = scratch / "source"
        source.mkdir()
        for name in ("vmlinux", "modules.builtin", "modules.builtin.modinfo"):
            (source / name).write_text(name)
        return source

    monkeypatch.setattr(debian_uml, "unpack_source", unpack)
    monkeypatch.setattr(debian_uml, "run_tool", lambda command: commands.append(command[-1]))
    kernel = timeless_kernel.obtain()

    assert ["defconfig", "olddefconfig", "vmlinux", "6.1.176"] == commands
    assert "vmlinux" == kernel.program.read_text()
    assert {"modules.builtin", "modules.builtin.modinfo", "modules.order"} == {
        path.name for path in kernel.modules.iterdir()
    }
