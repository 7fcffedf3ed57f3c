"""What the process holds for itself: its lock, its epoch, its limits."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import time

import pytest

from meshwatchd.adapters.process import (
    WANTED_FILES,
    InstanceLock,
    collect_young,
    go_realtime,
    next_epoch,
    raise_file_limit,
    settle_memory,
)


def test_second_instance_learns_the_first_one_s_pid(tmp_path):
    """The lock file names its holder, until it is released."""
    path = tmp_path / "run" / "engine.lock"
    first, second = InstanceLock(path), InstanceLock(path)

    assert first.acquire() is None
    assert os.getpid() == second.acquire()
    first.release()
    assert second.acquire() is None
    second.release()


def test_lock_of_a_dead_process_is_free(tmp_path):
    """A pid left in the file by a crash stops nobody."""
    path = tmp_path / "engine.lock"
    path.write_text("12345\n")
    lock = InstanceLock(path)

    assert lock.acquire() is None
    assert f"{os.getpid()}\n" == path.read_text()
    lock.release()


def test_epoch_is_the_time_of_day_and_recorded(tmp_path):
    """The first start of a node."""
    path = tmp_path / "state" / "epoch"
    before_ns = time.time_ns()

    epoch, is_recorded = next_epoch(path)

    assert before_ns <= epoch <= time.time_ns()
    assert is_recorded
    assert f"{epoch}\n" == path.read_text()
    assert [path] == list(path.parent.iterdir())


def test_epoch_grows_when_the_clock_is_set_back(tmp_path):
    """An epoch from the future is outbid by one."""
    path = tmp_path / "epoch"
    path.write_text(f"{2**62}\n")

    assert (2**62 + 1, True) == next_epoch(path)
    assert (2**62 + 2, True) == next_epoch(path)


@pytest.mark.parametrize("content", ["", "no number\n", "\0\0\0"])
def test_damaged_epoch_file_is_replaced(tmp_path, content):
    """A torn write must not keep the daemon from starting."""
    path = tmp_path / "epoch"
    path.write_text(content)
    before_ns = time.time_ns()

    assert next_epoch(path)[0] >= before_ns


def test_unwritable_epoch_is_said(tmp_path):
    """The epoch is still usable; the caller counts it."""
    (tmp_path / "file").write_text("")
    epoch, is_recorded = next_epoch(tmp_path / "file" / "epoch")

    assert not is_recorded
    assert epoch > 0


def test_file_limit_is_raised_as_far_as_it_goes():
    """What is returned is what may be used."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = raise_file_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert min(WANTED_FILES, hard) == limit
    assert soft >= limit


def test_realtime_is_for_this_process_only():
    """A child starts as an ordinary process; without the privilege nothing changes and that is said."""
    script = (
        "import os, subprocess, sys\n"
        "from meshwatchd.adapters.process import go_realtime\n"
        "allowed = go_realtime()\n"
        "own = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK\n"
        "child = [sys.executable, '-c', 'import os; print(os.sched_getscheduler(0))']\n"
        "other = int(subprocess.run(child, capture_output=True, check=True).stdout)\n"
        "assert own == (os.SCHED_RR if allowed else os.SCHED_OTHER), own\n"
        "assert other == os.SCHED_OTHER, other\n"
        "assert go_realtime() is allowed\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert callable(go_realtime)


def test_settled_memory_is_not_collected():
    """The collector stands still, what lives is frozen, and young garbage can still be taken away."""
    settle_memory()
    try:
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        cycle: list[object] = []
        cycle.append(cycle)
        del cycle
        collect_young()
    finally:
        gc.unfreeze()
        gc.enable()
