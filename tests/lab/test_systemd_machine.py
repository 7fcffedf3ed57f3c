"""The containers that other tests boot: what is left of them when a run is killed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

from netnslab.waiting import wait_until
from tests.support.systemd_machine import FOLDERS, PREFIX, booted

BOOTS = """
import sys
from pathlib import Path
from tests.support.systemd_machine import booted
with booted("mwkilled", Path(sys.argv[1])) as machine:
    print(machine.leader, flush=True)
    sys.stdin.read()
"""


def folders():
    """The folders of all machines that there are."""
    return set(FOLDERS.glob(f"{PREFIX}*"))


def is_alive(pid):
    """Whether a process runs; one that nobody has asked for its exit status does not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return False


def test_a_killed_run_takes_its_machine_along_and_the_next_one_tidies_up(base):
    """No process outlives the run; a machine of the same name boots, and only its own folder is there."""
    before = folders()
    command = [sys.executable, "-c", BOOTS, base]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        first = int(run.stdout.readline())
        was_alive, left = is_alive(first), folders() - before
        run.kill()
    wait_until(lambda: not is_alive(first), timeout_s=10, what="the end of the container")
    with booted("mwkilled", base) as machine:
        assert "mwkilled\n" == machine.read("hostname")
        during = folders()

    assert was_alive
    assert 1 == len(left)
    assert 1 == len(during - before - left)
    assert not left & during
    assert before == folders()
