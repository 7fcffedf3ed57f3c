"""SIGHUP: keys are taken over, the rest waits for a restart, and what cannot be used changes nothing."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from meshwatchd.adapters.poller import Poller
from meshwatchd.model.outputs import Fact
from meshwatchd.model.process_facts import ConfigRefused, ConfigReloaded
from meshwatchd.model.settings import AuthSettings, ProbeSettings, Settings
from meshwatchd.runtime.boot import Boot, Refusal, encode
from meshwatchd.runtime.reload import READER_FD, Reloader, spawn_reader
from meshwatchd.wire.auth import KeyRole, MeshSecret
from tests.support.pump import pump

OLD = MeshSecret(secret=bytes(32))
NEW = MeshSecret(secret=bytes(range(32)))
BOOT = Boot(config="/x.toml", settings=Settings(), secrets=(OLD,))


class Stage:
    """A reloader whose readers are a few lines of Python.

    Attributes:
        told: the facts.
        used: the secrets that were taken over.
        shared: what later agents run on.
    """

    def __init__(self) -> None:
        self.told: list[Fact] = []
        self.used: list[tuple[MeshSecret, ...]] = []
        self.shared: list[Boot] = []
        self.pids: list[int] = []
        self.script = ""
        self.poller = Poller()
        self.reloader = Reloader(
            poller=self.poller,
            boot=BOOT,
            spawn=self._spawn,
            use_secrets=self._use,
            share=self.shared.append,
            tell=self.told.append,
        )

    def reader_says(self, data: bytes) -> None:
        """What the next reader writes."""
        self.script = f"import os; os.write({READER_FD}, {data!r})"

    def reload(self) -> None:
        """Reload and wait for what is told."""
        count = len(self.told)
        self.reloader.start()
        pump(self.poller, lambda: len(self.told) > count)

    def _spawn(self, fd: int) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, fd, READER_FD)]
        command = [sys.executable, "-S", "-c", self.script]
        self.pids.append(os.posix_spawn(sys.executable, command, os.environ, file_actions=actions))
        return self.pids[-1]

    def _use(self, secrets) -> tuple[int, tuple[int, ...]]:
        self.used.append(tuple(secrets))
        return 7, (7, 9)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Closed at the end."""
    made = Stage()
    yield made
    made.reloader.close()
    made.poller.close()


def test_new_keys_are_taken_over(stage):
    """With the ids told that are in use from here on."""
    secrets = (NEW, MeshSecret(secret=OLD.secret, role=KeyRole.RECEIVE_ONLY))
    stage.reader_says(encode(msgspec.structs.replace(BOOT, secrets=secrets)))
    stage.reload()

    assert [secrets] == stage.used
    assert [ConfigReloaded(signing_key_id=7, accepted_key_ids=(7, 9), needs_restart=())] == stage.told


def test_later_agents_run_on_the_new_keys_and_on_nothing_else_that_is_new(stage):
    """An agent that is started anew must not be of another configuration than its engine."""
    auth = AuthSettings(key_file="/etc/meshwatchd/new.key")
    written = Settings(auth=auth, probe=ProbeSettings(port=20_000))
    stage.reader_says(encode(msgspec.structs.replace(BOOT, settings=written, secrets=(NEW,))))
    stage.reload()

    settings = msgspec.structs.replace(BOOT.settings, auth=auth)
    assert [msgspec.structs.replace(BOOT, settings=settings, secrets=(NEW,))] == stage.shared


def test_other_changes_are_told_each_time_until_the_restart(stage):
    """What runs is compared with what is written, not with what was written last."""
    changed = msgspec.structs.replace(BOOT, settings=Settings(probe=ProbeSettings(port=20_000)))
    stage.reader_says(encode(changed))
    stage.reload()
    stage.reload()

    assert [("probe.port",)] * 2 == [fact.needs_restart for fact in stage.told if isinstance(fact, ConfigReloaded)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [(encode(Refusal(reason="/x.toml: probe.port: no")), "/x.toml: probe.port: no"), (b"", "ended early")],
)
def test_file_that_cannot_be_used_changes_nothing(stage, data, reason):
    """Neither keys nor anything else; the reason has place and remedy."""
    stage.reader_says(data)
    stage.reload()

    assert [] == stage.used == stage.shared
    [fact] = stage.told
    assert isinstance(fact, ConfigRefused)
    assert reason in fact.reason


def test_long_configuration_comes_in_pieces(stage, tmp_path: Path):
    """A pipe holds 64 KiB."""
    path = tmp_path / "said"
    path.write_bytes(encode(msgspec.structs.replace(BOOT, config="/" + "x" * 300_000)))
    stage.script = f"f = open({READER_FD}, 'wb'); f.write(open({str(path)!r}, 'rb').read()); f.close()"
    stage.reload()

    assert [ConfigReloaded] == [type(fact) for fact in stage.told]


def test_reader_that_hangs_is_ended_by_the_next_reload(stage):
    """Nobody waits for it, and it does not stay behind."""
    stage.script = "import time; time.sleep(60)"
    stage.reloader.start()
    stage.reader_says(encode(BOOT))
    stage.reload()

    assert [ConfigReloaded] == [type(fact) for fact in stage.told]
    for pid in stage.pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_reader_that_cannot_be_started_is_told(stage):
    """The engine goes on with what it has."""

    def spawn(_fd: int) -> int:
        raise OSError("no more processes")

    stage.reloader._spawn = spawn
    before = len(list(Path("/proc/self/fd").iterdir()))
    stage.reloader.start()

    assert [ConfigRefused(reason="/x.toml cannot be read again: no more processes")] == stage.told
    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_real_reader_reads_the_real_file(stage, tmp_path: Path):
    """The daemon's own program, with a key that another user could read."""
    key = tmp_path / "mesh.key"
    key.write_text(base64.b64encode(NEW.secret).decode())
    key.chmod(0o400)
    config = tmp_path / "meshwatchd.toml"
    config.write_text(f'[daemon]\nnode = "a1"\n[auth]\nkey_file = "{key}"\n')
    stage.reloader._spawn = spawn_reader(str(config))
    stage.reload()
    key.chmod(0o644)
    stage.reload()

    assert [(NEW,)] == stage.used
    refused = stage.told[1]
    assert isinstance(refused, ConfigRefused)
    assert f"{key}: auth.key_file: is open to everybody" in refused.reason
