"""A lab leaves nothing behind, however it ends, and touches nothing that is not its own."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from netnslab import Lab, LabError, ownership, process
from netnslab.waiting import wait_until

pytestmark = pytest.mark.lab

UP_AND_WAIT = """
import signal, sys
from netnslab import Lab
# A shell starts its background jobs with SIGINT ignored, and Python leaves that so.
signal.signal(signal.SIGINT, signal.default_int_handler)
with Lab.up("kilo-flannel") as lab:
    print(lab.lab_id, flush=True)
    signal.pause()
"""

HOST_COMMANDS = ("ip address", "ip route show table all", "ip rule", "ip link", "sysctl -a -r ip_forward|rp_filter")


def command_line(root, *argv, **options):
    """`python -m netnslab ...` from the repository."""
    environment = os.environ | {"PYTHONPATH": str(root / "netns-lab")}
    return subprocess.run(
        [sys.executable, "-m", "netnslab", *argv],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        **options,
    )


@contextmanager
def other_program(root):
    """A program that keeps a lab up until it is ended; gives the process and the lab's record."""
    environment = os.environ | {"PYTHONPATH": str(root / "netns-lab")}
    with subprocess.Popen(
        [sys.executable, "-c", UP_AND_WAIT], stdout=subprocess.PIPE, text=True, env=environment
    ) as program:
        try:
            assert program.stdout is not None
            yield program, ownership.read(program.stdout.readline().strip())
        finally:
            program.kill()


def networks(record):
    """The network namespaces of a lab, by inode number."""
    return [each.inode for each in record.namespaces if each.kind == "net"]


def is_gone(record):
    """No process, no namespace file, no mount, no record."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return (
        not record.directory.exists()
        and str(record.directory) not in mounts
        and not process.inside_network(networks(record))
        and not any(map(process.is_alive, record.processes))
    )


def host_state():
    """What the machine's own network looks like; counters and lifetimes left out."""
    texts = (
        subprocess.run(command.split(), capture_output=True, text=True, check=False).stdout for command in HOST_COMMANDS
    )
    return [line for text in texts for line in text.splitlines() if "valid_lft" not in line]


def test_leaving_the_block_removes_everything_and_the_host_is_untouched():
    """Processes that nobody ended go with the lab."""
    before = host_state()
    with Lab.up("kilo-flannel") as lab:
        record = ownership.read(lab.lab_id)
        assert before == host_state()
        with lab.pod("b3").popen(["sleep", "600"]) as forgotten:
            lab.down()

    assert -signal.SIGTERM == forgotten.returncode
    assert is_gone(record)
    assert before == host_state()


def test_an_exception_in_the_block_removes_everything():
    """A failing test leaves no lab."""
    records = []

    def fail_inside_a_lab():
        with Lab.up("kilo-flannel") as lab:
            records.append(ownership.read(lab.lab_id))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside_a_lab()

    assert is_gone(records[0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_removes_everything(root, number):
    """Ctrl-C and a service manager's stop end the program in good order."""
    with other_program(root) as (program, record):
        program.send_signal(number)
        program.wait(timeout=20)

        assert is_gone(record)


def test_leftovers_of_a_killed_run_are_removed_by_the_next_and_nothing_else_is(root, tmp_path):
    """SIGKILL leaves a whole lab; the next `up` removes it by its record and spares a look-alike."""
    foreign = subprocess.Popen(["unshare", "--net", "--uts", "--", "sh", "-c", "hostname b3; exec sleep 600"])
    try:
        with other_program(root) as (program, record):
            program.kill()
            program.wait(timeout=10)
        assert record.is_abandoned()

        with Lab.up("kilo-flannel") as lab:
            assert is_gone(record)
            assert lab.lab_id != record.lab_id
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


def test_a_lab_in_use_is_not_cleaned_up_by_another(root):
    """Two programs have a lab each at the same time; the second's start and end leave the first's alone."""
    with other_program(root) as (program, record):
        with Lab.up("kilo-flannel"):
            assert process.is_alive(record.owner)
        assert all(map(process.is_alive, record.processes))
        assert program.poll() is None
        program.send_signal(signal.SIGTERM)
        program.wait(timeout=20)
        wait_until(lambda: is_gone(record), timeout_s=5, what="the first lab to go")


def test_a_failure_while_building_leaves_nothing(tmp_path):
    """The last step fails, with processes running: the kernel refuses kilo0 an MTU below 68."""
    source = Path(ownership.__file__).parent / "topologies" / "kilo-flannel.toml"
    broken = tmp_path / "broken.toml"
    broken.write_text(
        source.read_text(encoding="utf-8").replace("mtu_bytes = 1420", "mtu_bytes = 20"), encoding="utf-8"
    )

    with pytest.raises(LabError, match=r"ip -batch in a1: 'link set kilo0 mtu 20': \w+"):
        Lab.up(str(broken), lab_id="broken-lab")

    assert not (ownership.ROOT / "broken-lab").exists()


def test_command_line_from_up_to_down(root):
    """up, list, draw, enter, inject, heal, down: each in a process of its own."""
    name = f"cli-{os.getpid()}"

    def lab(*argv):
        result = command_line(root, *argv, timeout=40)
        assert 0 == result.returncode, result.stderr
        return result.stdout

    assert "is up" in lab("up", "kilo-flannel", "--lab", name)
    try:
        assert name in lab("list")
        assert "b3\n" == lab("enter", "--lab", name, "b3", "--", "hostname")
        assert "10.244.6.2" in lab("enter", "--lab", name, "pod/b3", "ip", "-br", "address")
        assert "injected" in lab("inject", "--lab", name, "leader-dead")
        assert "FAULT leader-dead" in lab("draw", "--lab", name)
        assert "leader-dead at b1: healed" in lab("heal", "--lab", name)
        assert "FAULT" not in lab("draw", "--lab", name)
    finally:
        lab("down", name)
    assert name not in lab("list")


def test_command_line_refuses_in_one_line(root):
    """An unknown lab, an unknown node: status 2 and a sentence, no traceback."""
    result = command_line(root, "draw", "--lab", "nowhere", timeout=20)

    assert 2 == result.returncode
    assert "netnslab: there is no lab nowhere" in result.stderr
    assert 1 == len(result.stderr.splitlines())
