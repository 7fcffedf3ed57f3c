"""A process is its id and its start time; ids alone are recycled."""

import os
import signal
import subprocess
import sys

from netnslab import process
from netnslab.process import ProcessId


def test_this_process_is_alive():
    """And its identity is stable."""
    myself = process.identify(os.getpid())

    assert myself is not None
    assert process.is_alive(myself)


def test_another_start_time_is_another_process():
    """Somebody got our old id: not ours, never signalled."""
    with subprocess.Popen(["sleep", "60"]) as child:
        known = process.identify(child.pid)
        assert known is not None
        stranger = ProcessId(pid=child.pid, start_ticks=known.start_ticks - 1)

        process.end([stranger])
        assert not process.is_alive(stranger)
        assert child.poll() is None

        process.end([known])
        assert -signal.SIGTERM == child.wait(timeout=5)


def test_who_ignores_sigterm_is_killed():
    """After the grace time, and not before it has been asked."""
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        assert child.stdout is not None
        assert "ready\n" == child.stdout.readline()
        known = process.identify(child.pid)
        assert known is not None

        process.end([known], grace_s=0.1)

        assert -signal.SIGKILL == child.wait(timeout=5)


def test_a_process_that_is_gone_is_no_error():
    """Ending what has ended is done."""
    with subprocess.Popen(["true"]) as child:
        child.wait()

    process.end([ProcessId(pid=child.pid, start_ticks=1)])

    assert process.identify(child.pid) is None


def test_what_a_process_starts_keeps_to_its_cpus():
    """As an agent that is started anew does."""
    chosen = min(os.sched_getaffinity(0))
    script = "echo ready; read line; sh -c 'echo $$; read line'"
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", script], stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert "ready\n" == child.stdout.readline()

        process.keep_to(child.pid, [chosen])

        assert {chosen} == os.sched_getaffinity(child.pid)
        print("go", file=child.stdin, flush=True)
        assert {chosen} == os.sched_getaffinity(int(child.stdout.readline()))


def test_an_ended_process_keeps_to_nothing():
    """It may end at any moment, and that is no error."""
    with subprocess.Popen(["true"]) as child:
        child.wait()

    process.keep_to(child.pid, os.sched_getaffinity(0))


def test_who_is_first_meanwhile_starts_others_that_are():
    """And is an ordinary thread again afterwards; without the privilege nothing changes."""
    asked = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]
    with process.being_first():
        own = os.sched_getscheduler(0)
        child = int(subprocess.run(asked, capture_output=True, check=True).stdout)

    assert own == child
    assert own == os.SCHED_RR or os.geteuid() != 0
    assert os.SCHED_OTHER == os.sched_getscheduler(0)


def test_children_are_found_with_the_kernels_list_and_without():
    """Both ways name a process that this one has started, and neither knows any of one that is gone."""
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child.pid in process.children_of(os.getpid())
        assert child.pid in process._children_by_parent(os.getpid())
        child.kill()
    assert [] == process.children_of(child.pid)
