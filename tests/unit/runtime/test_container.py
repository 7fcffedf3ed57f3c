"""Process 1 of a container: keys with a mode that is accepted, and a daemon that must say that it lives."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
import time

import pytest

from meshwatchd.config.keys import read_mesh_key
from meshwatchd.model.errors import ConfigError
from meshwatchd.runtime import boot
from meshwatchd.runtime.boot import PYTHON_OPTIONS
from meshwatchd.runtime.container import DAEMON, EXIT_CONFIG, allow_files, keep_keys, main, watch

KEY = "cmVwbGFjZSB0aGlzIGJ5IGEgc2VjcmV0IG9mIHlvdXI="
PATIENCE_S = 30.0

# What plays the daemon: its argument vector ends with what it does.
NOTIFY = """
import os, signal, socket, subprocess, sys, time
def tell(word):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(word, os.environ["NOTIFY_SOCKET"])
"""


@pytest.fixture(autouse=True)
def _unchanged():
    """What a process 1 sets for itself and its children is nothing for the tests that follow."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def play(tmp_path, body, **limits):
    """Run a daemon of a few lines; returns its exit status and how long it took, in seconds."""
    began_s = time.monotonic()
    status = watch([sys.executable, "-c", NOTIFY + body], tmp_path / "notify", **limits)
    return status, time.monotonic() - began_s


def mode_of(path):
    """Permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_key_that_everybody_may_read_is_copied_to_one_that_is_accepted(tmp_path):
    """The daemon refuses the mounted file and takes the copy; other files are left where they are."""
    given, kept = tmp_path / "given", tmp_path / "kept"
    given.mkdir()
    (given / "mesh.key").write_text(KEY + "\n", encoding="ascii")
    (given / "mesh.key").chmod(0o644)
    (given / "readme").write_text("no key\n", encoding="ascii")
    with pytest.raises(ConfigError, match="open to everybody"):
        read_mesh_key(given / "mesh.key")

    keep_keys(given, kept)

    assert ["mesh.key"] == [path.name for path in kept.iterdir()]
    assert (0o700, 0o400) == (mode_of(kept), mode_of(kept / "mesh.key"))
    assert read_mesh_key(kept / "mesh.key")


def test_a_key_of_the_last_start_is_replaced(tmp_path):
    """Its mode forbids writing to it, which is no obstacle."""
    given, kept = tmp_path / "given", tmp_path / "kept"
    given.mkdir()
    for text in ("old", "new"):
        (given / "mesh.key").write_text(text, encoding="ascii")
        keep_keys(given, kept)

    assert "new" == (kept / "mesh.key").read_text(encoding="ascii")


def test_no_keys_are_no_failure(tmp_path):
    """A daemon without a key observes; what it needs it asks for itself."""
    keep_keys(tmp_path / "absent", tmp_path / "kept")

    assert [] == list((tmp_path / "kept").iterdir())


def test_what_the_daemon_is_told_and_returns_is_passed_on(tmp_path, capfd):
    """Options behind --, and its exit status; one that cannot be used is the same as on every machine."""
    folders = ["--given", str(tmp_path / "absent"), "--kept", str(tmp_path / "kept")]
    show = (sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(2)")

    assert 2 == main([*folders, "--", "--config", "a.toml"], command=show)
    assert "['--config', 'a.toml']\n" == capfd.readouterr().out


def test_a_key_that_cannot_be_read_ends_in_one_line_and_status_2(tmp_path, capfd):
    """A folder in a key's place, for instance."""
    (tmp_path / "given" / "mesh.key").mkdir(parents=True)
    folders = ["--given", str(tmp_path / "given"), "--kept", str(tmp_path / "kept")]

    assert boot.EXIT_CONFIG == EXIT_CONFIG == main(folders, command=("/bin/false",))
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{tmp_path}/given/mesh.key: " in line


@pytest.mark.parametrize(
    ("said", "limits"),
    [
        ("", {"start_s": 0.3}),
        ("tell(b'STATUS=alive')", {"start_s": 0.3}),
        ("tell(b'READY=1')", {"watchdog_s": 0.3}),
        ("tell(b'READY=1'); time.sleep(0.1); tell(b'WATCHDOG=1')", {"watchdog_s": 0.4}),
    ],
)
def test_a_daemon_that_falls_silent_is_killed_and_the_container_ends(tmp_path, capfd, said, limits):
    """Before it was ready and afterwards; whoever runs the container starts it again."""
    status, took_s = play(tmp_path, f"{said}\ntime.sleep({PATIENCE_S})", **limits)

    assert 128 + 9 == status
    assert max(limits.values()) <= took_s < PATIENCE_S
    assert '"event":"watchdog.expired"' in capfd.readouterr().err


def test_a_daemon_that_says_that_it_lives_is_left_alone(tmp_path):
    """For several times the limit."""
    body = "tell(b'READY=1')\nfor _ in range(20): time.sleep(0.1); tell(b'WATCHDOG=1')\nsys.exit(7)"

    assert 7 == play(tmp_path, body, watchdog_s=1.0)[0]


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_who_ends_the_container_ends_the_daemon(tmp_path, number):
    """The signal is passed on, the daemon takes its time, and no watchdog bites one that is on its way out."""
    body = f"""
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.{number}])
tell(b'READY=1')
os.kill(os.getppid(), signal.{number})
signal.sigwait([signal.{number}])
time.sleep(1.5)
sys.exit(0)
"""
    assert 0 == play(tmp_path, body, watchdog_s=1.0)[0]


def test_a_hangup_reaches_the_daemon_and_its_watchdog_goes_on(tmp_path):
    """SIGHUP asks for a reload, not for an end."""
    body = f"""
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
os.kill(os.getppid(), signal.SIGHUP)
signal.sigwait([signal.SIGHUP])
tell(b'READY=1')
time.sleep({PATIENCE_S})
"""
    status, took_s = play(tmp_path, body, watchdog_s=0.3)

    assert 128 + 9 == status
    assert took_s < PATIENCE_S


def test_a_daemon_that_is_killed_is_told_as_a_shell_would(tmp_path):
    """128 and the signal's number."""
    assert 128 + 15 == play(tmp_path, "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(5)")[0]


def test_orphans_are_buried(tmp_path):
    """Process 1 inherits what the daemon's children leave behind; here it is made to by PR_SET_CHILD_SUBREAPER."""
    orphan = "import subprocess; print(subprocess.Popen(['/bin/true']).pid)"
    body = f"""
import ctypes, sys
ctypes.CDLL(None).prctl(36, 1)
from pathlib import Path
from meshwatchd.runtime.container import watch
body = '''{NOTIFY}
orphan = int(subprocess.run([sys.executable, '-c', {orphan!r}], capture_output=True).stdout)
try:
    while True:
        os.kill(orphan, 0)
        time.sleep(0.01)
except ProcessLookupError:
    sys.exit(5)
'''
sys.exit(watch([sys.executable, '-c', body], Path({str(tmp_path / "notify")!r}), start_s={PATIENCE_S}))
"""
    ran = subprocess.run([sys.executable, "-c", body], check=False, timeout=60, capture_output=True, text=True)

    assert 5 == ran.returncode, ran.stderr


def test_a_low_limit_of_files_is_raised_or_told(capfd):
    """As root in a container it is raised, else the daemon goes on with fewer."""
    body = """
import resource
from meshwatchd.runtime.container import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 1024))
allow_files(2048)
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    ran = subprocess.run([sys.executable, "-c", body], check=True, timeout=60, capture_output=True, text=True)

    assert (ran.stdout, "files.limited" in ran.stderr) in {("(512, 2048)\n", False), ("(512, 1024)\n", True)}


def test_a_high_limit_of_files_stays():
    """What is allowed already is not taken away."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_files(1)

    assert before == resource.getrlimit(resource.RLIMIT_NOFILE)


def test_the_daemon_imports_nothing_from_where_it_is_started(tmp_path):
    """The folder may be anybody's, and the process is root's."""
    (tmp_path / "argparse.py").write_text("raise SystemExit('imported from the current folder')")
    for command in (DAEMON, (sys.executable, *PYTHON_OPTIONS, "-c", "import argparse")):
        arguments = ["--help"] if command is DAEMON else []
        ran = subprocess.run([*command, *arguments], check=False, timeout=60, capture_output=True, cwd=tmp_path)
        assert (0, b"") == (ran.returncode, ran.stderr)
