"""Every way to get the configuration file wrong, and the line that says how to get it right."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from meshwatchd.config.load import load, read
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import Mode


def _refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path)
    return str(caught.value)


def test_a_good_file_loads_with_what_it_says_and_defaults_for_the_rest(tmp_path, mesh_toml):
    """What is written is taken, what is not written is the default."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(mesh_toml)
    settings = load(path)
    assert ("b3", Mode.ENFORCE) == (settings.daemon.node, settings.daemon.mode)
    assert "/var/lib/meshwatchd" == settings.daemon.state_dir
    assert 6 == len(settings.mesh.node)


def test_an_empty_file_only_watches(tmp_path):
    """No mesh declared is no error: the daemon observes."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text("")
    assert Mode.OBSERVE is load(path).daemon.mode


@pytest.mark.parametrize(("host", "node"), [("b3", "b3"), ("b3.example.net", "b3"), ("elsewhere.net", "elsewhere.net")])
def test_an_empty_node_name_stands_for_the_host_name(tmp_path, monkeypatch, host, node):
    """A host that knows its domain still finds the node that is named without it."""
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    path = tmp_path / "meshwatchd.toml"
    location = f'[[mesh.location]]\nname = "x"\nleader = "{node}"\n'
    member = f'[[mesh.node]]\nname = "{node}"\nlocation = "x"\nnode_ip = "10.2.0.1"\n'
    addresses = 'pod_cidr = "10.244.1.0/24"\noverlay_ip = "10.244.1.0"\n'
    path.write_text(location + member + addresses)
    assert node == load(path).daemon.node


def test_a_missing_file_names_itself(tmp_path):
    """The first thing a person gets wrong is the path."""
    path = tmp_path / "none.toml"
    assert f"{path}: there is no such file; write it (see the sample meshwatchd.toml) or give --config" == (
        _refusal(path)
    )


def test_a_directory_is_not_read(tmp_path):
    """The system's own words say why."""
    assert f"{tmp_path}: cannot be read: Is a directory" in _refusal(tmp_path)


def test_a_byte_order_mark_is_passed_over(tmp_path):
    """Some editors write one, and nobody sees it."""
    path = tmp_path / "meshwatchd.toml"
    path.write_bytes(b'\xef\xbb\xbf[daemon]\nmode = "advise"\n')
    assert Mode.ADVISE is load(path).daemon.mode


def test_a_file_of_another_kind_is_not_read_through(tmp_path):
    """Ten megabytes are no configuration, and a message as long would help nobody."""
    path = tmp_path / "meshwatchd.toml"
    path.write_bytes(b'[daemon]\nnode = "' + b"x" * 10_000_000 + b'"\n')
    assert f"{path}: is longer than 4194304 bytes; name the configuration file with --config" == _refusal(path)


def test_lists_without_end_are_refused(tmp_path):
    """Not a crash of the parser."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text("a = " + "[" * 100_000)
    assert f"{path}: lists are nested too deeply; close the brackets of each list" == _refusal(path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    """The offset tells where the editor went wrong."""
    path = tmp_path / "meshwatchd.toml"
    path.write_bytes(b"[probe]\n\xff")
    assert f"{path}: byte 8 is not UTF-8; save the file in UTF-8" == _refusal(path)


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        ('mode = "enforce"', "mode = enforce", "line 3, column 8: invalid value in `mode = enforce`; correct it"),
        ("[kernel]", "[kernel", "line 8, column 8: expected ']' at the end of a table declaration in `[kernel`"),
        ("port = 18618", "port = 1\nport = 2", "cannot overwrite a value in `port = 2`; write each key once"),
        ('"kilo"', '"kilo', "line 18, column 16: illegal character '\\n' in `profile = \"kilo`"),
    ],
)
def test_broken_toml_names_the_line(spoil, good, bad, line):
    """The line is shown, because counting lines at night is error-prone."""
    assert line in spoil(good, bad)


def test_a_file_cut_short_names_its_last_line(tmp_path):
    """The parser only says that the document ended."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text('[daemon]\nnode = "b3"\nmode =')
    assert f"{path}: line 3: invalid value in `mode =`; " in _refusal(path)


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        ("[probe]", "[prob]", "prob: unknown key; did you mean probe?"),
        ("port = 18618", "prot = 18618", "probe.prot: unknown key; did you mean port?"),
        ('leader = "b1"', 'leeder = "b1"', "mesh.location[1] (cloud).leeder: unknown key; did you mean leader?"),
        ("port = 18618", 'hold_down = "3s"', "probe.hold_down: unknown key; hold_down belongs in [policy]"),
        (
            "port = 18618",
            "xyzzy = 3",
            (
                "probe.xyzzy: unknown key; remove it; known here: "
                "profile, port, source_ports, flow_memory, packets_per_second, wan_kbit, lan_kbit, canary"
            ),
        ),
    ],
)
def test_an_unknown_key_gets_a_hint(spoil, good, bad, line):
    """A misspelt key never silently means the default."""
    assert line == spoil(good, bad)


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        ("18618", '"18618"', "probe.port: must be a whole number, not '18618'; write it without quotes or decimal"),
        (
            '"30s"',
            "30",
            "policy.hold_down: must be a duration, not 30; write a number and a unit (us, ms, s, min, h),",
        ),
        ('hold_down = "30s"', "revertive = 1", "policy.revertive: must be true or false, not 1; write true or"),
        ('standbys = ["b2"]', 'standbys = "b2"', "mesh.location[1] (cloud).standbys: must be a list, not 'b2'"),
        ('["b2"]', '["b2", 3]', "mesh.location[1] (cloud).standbys[1]: must be a string, not 3; put it in quotes"),
        ('"10.244.5.0/24"', "5", "mesh.node[4] (b2).pod_cidr: must be a string, not 5; put it in quotes"),
        ('"enforce"', '"enforced"', "daemon.mode: 'enforced' is none of the choices; write one of observe, advise,"),
        ('leader = "b1"\n', "", "mesh.location[1] (cloud): leader is missing; add leader = ..."),
    ],
)
def test_a_value_of_the_wrong_kind_says_what_to_write(spoil, good, bad, line):
    """The converter's own words never reach the operator."""
    assert line in spoil(good, bad)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mesh = 3", "mesh: must be a table, not 3; write it as a section in brackets"),
        ("[mesh.location]", "mesh.location: must be a list, not a table; write [[mesh.location]] with two brackets"),
    ],
)
def test_a_section_of_the_wrong_kind_says_which_brackets(tmp_path, text, line):
    """One bracket or two is TOML's commonest trap."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(text)
    assert f"{path}: {line}" in _refusal(path)


def test_loading_does_not_drag_in_heavy_libraries():
    """The engine process loads its configuration with this module and must stay small."""
    code = (
        "import sys, meshwatchd.config.load, meshwatchd.config.keys, meshwatchd.config.dump;"
        "print([name for name in ('click', 'pyroute2', 'structlog', 'rich', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert "[]" == done.stdout.strip()


class _Pace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    steps: int = 3


class _Walk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pace: _Pace = _Pace()


def test_settings_of_another_program_are_read_with_the_same_complaints(tmp_path):
    """What stands beside the daemon has a file of its own, and its keys are named as the daemon's are."""
    path = tmp_path / "walk.toml"
    path.write_text("[pace]\nsteps = 5\n")
    assert _Walk(pace=_Pace(steps=5)) == read(path, _Walk)

    path.write_text("[pace]\nstep = 5\n")
    with pytest.raises(ConfigError) as caught:
        read(path, _Walk)
    assert f"{path}: pace.step: unknown key; did you mean steps?" == str(caught.value)
