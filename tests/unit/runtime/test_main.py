"""The command line: what is said, and the exit status."""

from __future__ import annotations

import base64
import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from meshwatchd.runtime import main as runtime_main
from meshwatchd.runtime.boot import EXIT_BUG, EXIT_CONFIG, EXIT_OK, Boot, Refusal, decode
from meshwatchd.runtime.main import main, read_boot
from meshwatchd.wire.auth import KeyRole, MeshSecret


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that can be used, with its key, on a machine without the daemon's user."""
    monkeypatch.setattr(runtime_main, "service_user", lambda: None)
    key = tmp_path / "mesh.key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    key.chmod(0o400)
    path = tmp_path / "meshwatchd.toml"
    path.write_text(f'[daemon]\nnode = "a1"\nruntime_dir = "{tmp_path}"\n[auth]\nkey_file = "{key}"\n')
    return path


def test_check_is_silent_when_all_is_well(config, capsys):
    """Exit 0, not a word, and no engine."""
    assert EXIT_OK == main(["--config", str(config), "--check"])
    assert ("", "") == capsys.readouterr()


def test_a_limit_of_bytes_is_described_or_refused(config, capsys):
    """With the detection that it leaves, or with the least that leaves some."""
    text = config.read_text()
    config.write_text(f"{text}[probe]\nwan_kbit = 30\n")
    assert EXIT_OK == main(["--config", str(config), "--check"])
    assert capsys.readouterr().out.startswith("probe.wan_kbit = 30: at rest two locations send each other 30 kbit/s")
    config.write_text(f"{text}[probe]\nwan_kbit = 3\n")

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert "probe.wan_kbit: 3 kbit/s is too little" in capsys.readouterr().err


def test_version_is_one_line(capsys):
    """For packagers."""
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])

    assert 0 == exit_.value.code
    assert capsys.readouterr().out.startswith("meshwatchd 0.")


@pytest.mark.parametrize("option", ["--check", "--dump-config"])
def test_unusable_configuration_is_one_line_and_status_2(tmp_path, capsys, option):
    """The line names the file; nothing is started."""
    path = tmp_path / "missing.toml"

    assert EXIT_CONFIG == main(["--config", str(path), option])
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(str(path))


def test_readable_key_is_refused(config, tmp_path, capsys):
    """A mesh key that others can read is no secret."""
    (tmp_path / "mesh.key").chmod(0o644)

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert "mesh.key" in capsys.readouterr().err


def test_a_stamp_key_that_is_missing_is_found_by_the_check(config, tmp_path, capsys):
    """Only where somebody would be answered with it."""
    section = f'[stamp]\nkey_file = "{tmp_path}/stamp.key"\nmode = "authenticated"\nallow = ["10.0.0.0/8"]\n'
    config.write_text(config.read_text() + section)
    assert EXIT_OK == main(["--config", str(config), "--check"])
    config.write_text(config.read_text() + "listen = 862\n")

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert f"{tmp_path}/stamp.key: stamp.key_file: there is no such file; run: " in capsys.readouterr().err


def test_effective_configuration_is_printed(config, capsys):
    """What was set, and the defaults with it."""
    assert EXIT_OK == main(["--config", str(config), "--dump-config"])
    printed = capsys.readouterr().out

    assert 'node = "a1"' in printed
    assert "priority_base = 5400" in printed


def test_engine_gets_what_was_read(config):
    """Its exit status is ours."""
    boots: list[Boot] = []

    def become(boot: Boot) -> int:
        boots.append(boot)
        return 3

    assert 3 == main(["--config", str(config)], become)
    assert (str(config), "a1") == (boots[0].config, boots[0].settings.daemon.node)
    assert (MeshSecret(secret=bytes(32)),) == boots[0].secrets


def test_error_nobody_expected_is_one_line_of_json_and_status_70(config, capsys):
    """With the trace inside, for whoever has to mend it."""

    def break_down(_boot: Boot) -> int:
        raise RuntimeError("unheard of")

    assert EXIT_BUG == main(["--config", str(config)], break_down)
    [line] = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert ("engine.crashed", "RuntimeError('unheard of')") == (said["event"], said["error"])
    assert "break_down" in said["trace"]


def _add_accepted_key(config: Path, secret: bytes) -> Path:
    path = config.parent / "next.key"
    path.write_text(base64.b64encode(secret).decode())
    path.chmod(0o400)
    with config.open("a") as file:
        file.write(f'accepted_key_file = "{path}"\n')
    return path


def test_second_key_is_accepted_and_never_signs(config):
    """The first step of a rotation."""
    _add_accepted_key(config, bytes(range(32)))

    [_, accepted] = read_boot(config).secrets
    assert MeshSecret(secret=bytes(range(32)), role=KeyRole.RECEIVE_ONLY) == accepted


@pytest.mark.parametrize(
    ("mode", "secret", "complaint"),
    [
        (0o644, bytes(range(32)), "auth.accepted_key_file: is open to everybody"),
        (0o400, bytes(16), "auth.accepted_key_file: is not base64 of 32 bytes"),
        (0o400, bytes(32), "auth: both mesh secrets have the same key id; make another one"),
    ],
)
def test_second_key_is_held_to_the_rules_of_the_first(config, capsys, *, mode, secret, complaint):
    """Readable by others, short, or the same again: refused with file, key and remedy."""
    _add_accepted_key(config, secret).chmod(mode)

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x" * 5000, "mesh.key/below-a-file"])
def test_a_key_that_cannot_be_looked_at_is_no_missing_one(config, tmp_path, capsys, name):
    """A fresh daemon may have no key; one whose name leads nowhere is a mistake, and no crash."""
    config.write_text(f'[daemon]\nnode = "a1"\n[auth]\nkey_file = "{tmp_path}/{name}"\n')

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert "auth.key_file: cannot be opened: " in capsys.readouterr().err


def test_missing_key_is_refused_where_there_is_a_mesh(config, capsys):
    """Fail closed: no key, no daemon, and the remedy is a command."""
    with config.open("a") as file:
        file.write(MESH)
    assert EXIT_OK == main(["--config", str(config), "--check"]), capsys.readouterr().err
    (config.parent / "mesh.key").unlink()

    assert EXIT_CONFIG == main(["--config", str(config), "--check"])
    assert "auth.key_file: there is no such file; run: " in capsys.readouterr().err


MESH = """
[[mesh.location]]
name = "onprem"
leader = "a1"
[[mesh.location]]
name = "cloud"
leader = "b1"
[[mesh.node]]
name = "a1"
location = "onprem"
node_ip = "192.168.100.11"
pod_cidr = "10.244.1.0/24"
overlay_ip = "10.244.1.0"
wireguard_ip = "10.4.0.2"
[[mesh.node]]
name = "b1"
location = "cloud"
node_ip = "10.2.0.11"
pod_cidr = "10.244.4.0/24"
overlay_ip = "10.244.4.0"
wireguard_ip = "10.4.0.1"
"""


def _handed_over(config: Path, path: Path) -> Boot | Refusal:
    with path.open("wb") as file:
        main(["--config", str(config), "--hand-over", str(os.dup(file.fileno()))])
    return decode(path.read_bytes())


def test_running_engine_is_handed_what_the_file_says(config, tmp_path):
    """The same as at a start, but for who takes it."""
    assert read_boot(config) == _handed_over(config, tmp_path / "pipe")


def test_running_engine_is_told_why_a_file_cannot_be_used(config, tmp_path):
    """Place and remedy travel with it."""
    config.write_text("[probe]\nprot = 1\n")

    word = _handed_over(config, tmp_path / "pipe")
    assert isinstance(word, Refusal)
    assert "probe.prot" in word.reason


def test_keys_are_kept_for_the_daemons_user_and_forgotten(config, tmp_path, capsys):
    """Those that the settings name, at each start and reload; what cannot be used is told and left out."""
    kept = tmp_path / "kept"
    accepted = _add_accepted_key(config, bytes(range(32)))
    assert EXIT_OK == main(["--config", str(config), "--keep-keys", str(kept)])
    assert {"auth.key_file", "auth.accepted_key_file"} == {path.name for path in kept.iterdir()}

    accepted.chmod(0o444)
    assert EXIT_CONFIG == main(["--config", str(config), "--keep-keys", str(kept)])
    assert {"auth.key_file"} == {path.name for path in kept.iterdir()}
    assert f"{accepted}: auth.accepted_key_file: is open to everybody" in capsys.readouterr().err

    config.write_text("nonsense")
    assert EXIT_CONFIG == main(["--config", str(config), "--keep-keys", str(kept)])
    assert "" == capsys.readouterr().err, "the daemon reports it"


def test_a_reload_copies_the_new_key_and_checks_no_old_copy(config, tmp_path, monkeypatch):
    """The unit's environment names the folder of copies for each of its commands."""
    kept = tmp_path / "kept"
    assert EXIT_OK == main(["--config", str(config), "--keep-keys", str(kept)])
    new = base64.b64encode(bytes(range(32))).decode()
    key = tmp_path / "mesh.key"
    key.chmod(0o600)
    key.write_text(new)

    monkeypatch.setenv("MESHWATCH_KEYS", str(kept))
    assert EXIT_OK == main(["--config", str(config), "--check", "--keep-keys", str(kept)])
    assert new == (kept / "auth.key_file").read_text()

    key.write_text("nonsense")
    monkeypatch.setenv("MESHWATCH_KEYS", str(kept))
    assert EXIT_CONFIG == main(["--config", str(config), "--check", "--keep-keys", str(kept)])
    assert new == (kept / "auth.key_file").read_text(), "what runs keeps its key"


def test_the_check_says_that_there_is_no_key(config, tmp_path, capsys):
    """All is well, and nothing will be watched."""
    config.write_text(f'[auth]\nkey_file = "{tmp_path}/none.key"\n')

    assert EXIT_OK == main(["--config", str(config), "--check"])
    assert f"no mesh key: {tmp_path}/none.key is missing, so the daemon will watch nothing\n" in capsys.readouterr().out


def test_the_check_of_root_looks_with_the_services_eyes(config, monkeypatch, capsys):
    """A configuration that the daemon's user cannot read would be refused by the service alone.

    Whoever is not root has no eyes but his own, and is told nothing.
    """
    monkeypatch.setattr(runtime_main, "service_user", lambda: pwd.getpwnam("nobody"))
    config.chmod(0o600)
    is_root = os.geteuid() == 0

    assert (EXIT_CONFIG if is_root else EXIT_OK) == main(["--config", str(config), "--check"])
    assert is_root == ("cannot be read: Permission denied; run: chmod a+r" in capsys.readouterr().err)


@pytest.mark.parametrize("path", ["/var/lib/node_exporter/textfile/m.prom", "/run/meshwatchd/m.prom"])
def test_the_check_says_what_the_service_may_not_write(config, monkeypatch, capsys, path):
    """The unit's sandbox would keep the figures from the disk, and one line in the log is easily missed."""
    monkeypatch.setattr(runtime_main, "service_user", lambda: pwd.getpwnam("nobody"))
    config.chmod(0o644)
    config.parent.chmod(0o755)
    config.write_text(config.read_text() + f'[metrics]\ntextfile = "{path}"\n')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(subprocess, "run", lambda *_arguments, **_more: subprocess.CompletedProcess([], 0))

    assert EXIT_OK == main(["--config", str(config), "--check"])
    told = f"metrics.textfile: the service may not write {path}; write a path below /run/meshwatchd or "
    assert path.startswith("/var") is (told in capsys.readouterr().out)
