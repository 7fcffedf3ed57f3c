"""What the process holds for itself: its lock, its epoch, its limits."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from meshwatchd.adapters.process import (
    NICENESS,
    WANTED_FILES,
    InstanceLock,
    _clean_file_mappings,
    collect_young,
    go_realtime,
    is_locked,
    is_runnable,
    lock_memory,
    next_epoch,
    raise_file_limit,
    read_processor_ns,
    read_resident_bytes,
    read_used_ns,
    release_memory,
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


def test_a_full_file_system_keeps_nobody_from_the_lock(tmp_path):
    """A daemon that has to start while something has filled /run must not be away for that."""
    path = tmp_path / "engine.lock"
    lock, (soft, hard) = InstanceLock(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        assert lock.acquire() is None
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 0 == InstanceLock(path).acquire(), "nobody knows whose it is"
    lock.release()


HOLDER = """
import pathlib, sys, time
from meshwatchd.adapters.process import InstanceLock
lock = InstanceLock(pathlib.Path(sys.argv[1]))
assert lock.acquire() is None
print("has it", flush=True)
sys.stdin.read()
"""
"""Keeps a lock until its standard input ends."""


@pytest.fixture
def holder(tmp_path):
    """A process that has the lock."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "agent.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "has it\n" == process.stdout.readline()
        yield process
        process.kill()


def test_a_lock_is_taken_over_from_a_process_that_hangs(tmp_path, holder):
    """It is stopped, so it would have its sockets for ever."""
    holder.send_signal(signal.SIGSTOP)
    lock = InstanceLock(tmp_path / "agent.lock")

    assert holder.pid == lock.take_over(grace_s=0.1)
    assert -signal.SIGKILL == holder.wait(10)
    assert f"{os.getpid()}\n" == (tmp_path / "agent.lock").read_text()
    lock.release()


def test_a_process_that_ends_in_time_is_not_killed(tmp_path, holder):
    """Its last words are worth a moment."""
    lock = InstanceLock(tmp_path / "agent.lock")
    assert holder.pid == lock.acquire()
    holder.stdin.close()

    assert lock.take_over(grace_s=60) is None
    assert 0 == holder.wait(10)
    assert is_locked(tmp_path / "agent.lock")
    lock.release()


def test_a_lock_can_be_looked_at_without_taking_it(tmp_path):
    """Nothing is made for it, and the holder stays named."""
    path = tmp_path / "engine.lock"
    assert not is_locked(path)
    assert not path.exists()
    lock = InstanceLock(path)
    lock.acquire()
    assert is_locked(path)
    assert f"{os.getpid()}\n" == path.read_text()
    lock.release()
    assert not is_locked(path)


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


@pytest.mark.parametrize("content", ["", "no number\n", "\0\0\0", f"{2**64 - 1}\n", "9" * 30, "9" * 5000])
def test_damaged_epoch_file_is_replaced(tmp_path, content):
    """A torn write must not keep the daemon from starting, nor a number that no packet holds turn to 0."""
    path = tmp_path / "epoch"
    path.write_text(content)
    before_ns = time.time_ns()

    assert before_ns <= next_epoch(path)[0] <= time.time_ns()


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


@pytest.mark.parametrize(("has_right", "niceness"), [(True, NICENESS), (False, 0)])
def test_whoever_gives_way_can_prefer_others(has_right, niceness):
    """Else a wireguard-go that it starts would come last as well."""
    script = (
        "import os, sys\n"
        "from meshwatchd.adapters import process\n"
        "process._has_capability = lambda number: number == 23 and bool(int(sys.argv[1]))\n"
        "process.resource.getrlimit = lambda _number: (0, 0)\n"
        "print(int(process.give_way()), os.nice(0))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(int(has_right))], capture_output=True, text=True, check=True
    )

    assert f"{int(has_right)} {niceness + os.nice(0)}\n" == done.stdout


def test_the_memory_of_a_process_is_read():
    """As much as a Python takes at least; a process that has ended holds none."""
    assert 2**22 < read_resident_bytes(os.getpid()) < 2**33
    child = subprocess.Popen(["true"])
    child.wait()
    assert 0 == read_resident_bytes(child.pid)


def test_the_processor_time_of_processes_is_read():
    """Of all of them together, and of none where one has ended."""
    own = read_processor_ns([os.getpid()])
    twice = read_processor_ns([os.getpid()] * 2)
    assert own is not None
    assert twice is not None
    assert 0 < own <= twice / 2
    child = subprocess.Popen(["true"])
    child.wait()
    assert read_processor_ns([os.getpid(), child.pid]) is None


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


SMAPS = """\
00400000-00500000 r-xp 00000000 08:01 1234                       /usr/bin/python3
Rss:                 900 kB
Anonymous:             0 kB
00500000-00600000 r--p 00100000 08:01 1234                       /usr/bin/python3
Anonymous:             4 kB
00600000-00700000 rw-p 00200000 08:01 1234                       /usr/bin/python3
Anonymous:             0 kB
00700000-00800000 r--p 00000000 00:00 0
Anonymous:             0 kB
00800000-00900000 r-xp 00000000 00:00 0                          [vdso]
Anonymous:             0 kB
00900000-00a00000 r--p 00000000 08:01 99                         /usr/lib/a file.so
Anonymous:             0 kB
""".splitlines()


def test_only_pages_that_the_file_still_has_are_dropped():
    """Not what was written to, not relocated data, not memory without a file."""
    assert [(0x400000, 0x500000), (0x900000, 0xA00000)] == list(_clean_file_mappings(SMAPS))


def test_where_the_kernel_does_not_tell_its_pages_none_is_dropped(tmp_path, monkeypatch):
    """A kernel without CONFIG_PROC_PAGE_MONITOR: the engine goes on."""
    monkeypatch.setattr("meshwatchd.adapters.process.SMAPS", tmp_path / "smaps")

    assert 0 == release_memory()


def test_released_and_locked_memory_still_works():
    """A process that has dropped its own text goes on, is smaller, and loads what it has not loaded before."""
    script = (
        "import hashlib\n"
        "from pathlib import Path\n"
        "from meshwatchd.adapters.process import lock_memory, release_memory, unlock_memory\n"
        "def resident(): return int(Path('/proc/self/statm').read_text().split()[1])\n"
        "before = resident()\n"
        "assert release_memory() > 0\n"
        "assert resident() < before\n"
        "allowed = lock_memory()\n"
        "locked = 'VmLck:\\t       0 kB' not in Path('/proc/self/status').read_text()\n"
        "assert allowed is locked\n"
        "assert not allowed or release_memory() == 0\n"
        "unlock_memory()\n"
        "assert 'VmLck:\\t       0 kB' in Path('/proc/self/status').read_text()\n"
        "assert release_memory() > 0\n"
        "assert allowed is lock_memory()\n"
        "import decimal, json\n"
        "bytearray(50_000_000)\n"
        "assert '5feceb66' == hashlib.sha256(b'0').hexdigest()[:8]\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert callable(release_memory)
    assert callable(lock_memory)


def _wait_until(is_so: Callable[[], bool]) -> None:
    """Fails after ten seconds."""
    limit_s = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < limit_s


def test_a_process_that_spins_is_runnable_and_one_that_is_stopped_is_not():
    """The CPU time of what has not been waited for can be read to the end."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        _wait_until(lambda: is_runnable(child.pid))
        before_ns = read_used_ns(child.pid)
        _wait_until(lambda: read_used_ns(child.pid) > before_ns + 50_000_000)
        child.send_signal(signal.SIGSTOP)
        _wait_until(lambda: not is_runnable(child.pid))
        stopped_ns = read_used_ns(child.pid)
        assert stopped_ns == read_used_ns(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_runnable(child.pid)
        assert stopped_ns <= read_used_ns(child.pid) < stopped_ns + 50_000_000
    finally:
        child.kill()
        child.wait()


def test_a_process_is_runnable_while_one_of_its_threads_is():
    """The main thread waits for the interpreter's lock, which a thread without a CPU has."""
    spin = "import threading; threading.Thread(target=lambda: sum(iter(int, 1)), daemon=True).start()"
    child = subprocess.Popen([sys.executable, "-c", f"{spin}; threading.Event().wait()"])
    try:
        _wait_until(lambda: is_runnable(child.pid) and read_used_ns(child.pid) > 300_000_000)
    finally:
        child.kill()
        child.wait()
