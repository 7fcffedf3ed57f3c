"""What a node's kernel holds, of the daemon and of everybody else, and for how long something of the daemon is missing.

    with watched(machine, directory / "samples") as watch:
        machine.sh("ip rule flush")
    assert watch.longest_absence_s(before) < 1

A machine looks at itself, some ten times a second: the kernel drops routes of a device that goes down without a
word, so that listening to it is not enough. While the kernel removes a device it lets nobody look, for a second on a
busy machine; that is nobody's absence.
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from netnslab.waiting import wait_until
from tests.support.systemd_machine import Machine

LOOK = r"printf 'rule\nroute show table all proto 117\nlink show\n' | ip -4 -br -batch -"
OURS = re.compile(r"proto meshwatchd| table 77\d\d\b|^mw\d")
"""Of what LOOK prints: rules, routes by paths, standby links."""
# Whatever a program that shares the network with the daemon may have there; neither counters nor MACs, which udev gives
# to bridges.
THEIRS = """
ip -4 rule | grep -v 'proto meshwatchd'
ip -4 route show table all | grep -v 'proto meshwatchd'
ip -br link show | grep -v ^mw | awk '{ print $1, $2, $NF }'
ip -br -4 addr
bridge fdb show dev flannel.1
ip neigh show dev flannel.1 nud permanent
nft --stateless list ruleset
sysctl net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.ipv4.conf.all.src_valid_mark
"""
FLAG = "/run/kernel-watch"
LOOK_S = 0.2
"""Four times what a look takes on a calm machine."""
SAMPLES = """
touch $1
while test -e $1; do
    read -r now rest </proc/uptime
    echo "@ $now"
    sh -c "$2"
    read -r now rest </proc/uptime
    echo ". $now"
    sleep 0.02
done
"""


class Sample(NamedTuple):
    """What was there.

    Attributes:
        at_s: when the look began, in seconds since the kernel started.
        until_s: when it ended.
        held: the lines that were printed.
    """

    at_s: float
    until_s: float
    held: frozenset[str]


class Watch:
    """The samples of a machine, in the order of time.

    Args:
        path: of the file that gets them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def samples(self) -> list[Sample]:
        """All that are whole."""
        found, block = [], list[str]()
        for line in self._path.read_text(encoding="utf-8").splitlines():
            if line.startswith("@ "):
                block = [line[2:]]
            elif line.startswith(". ") and block:
                found.append(Sample(float(block[0]), float(line[2:]), frozenset(block[1:])))
            else:
                block.append(line.strip())
        return found

    def longest_absence_s(self, wanted: Iterable[str]) -> float:
        """From the last sample that has all of `wanted` to the next one that has, the longest such time."""
        return longest_absence_s(self.samples(), frozenset(wanted))


def longest_absence_s(samples: Sequence[Sample], wanted: frozenset[str]) -> float:
    """The longest time between a sample that has all of `wanted` and the next one that has; 0 where none lacks any.

    A time that has not ended counts up to the last sample. Of the first look that lacks some, LOOK_S count: a longer
    one was kept waiting by the kernel.
    """
    longest, whole_s, since_s = 0.0, samples[0].at_s, math.inf
    for each in samples:
        if wanted <= each.held:
            longest = max(longest, each.at_s - since_s)
            whole_s, since_s = each.at_s, math.inf
        else:
            since_s = min(since_s, max(whole_s, each.until_s - LOOK_S))
            longest = max(longest, each.until_s - since_s)
    return longest


def ours(machine: Machine) -> tuple[str, ...]:
    """What a node's kernel holds of the daemon, one line each."""
    return tuple(line for line in _lines(machine, LOOK) if OURS.search(line))


def theirs(machine: Machine) -> tuple[str, ...]:
    """What a node's kernel holds of everybody else."""
    return _lines(machine, THEIRS)


@contextmanager
def watched(machine: Machine, path: Path, script: str = LOOK) -> Iterator[Watch]:
    """A machine that looks at its kernel, by a script, for as long as the context lasts."""
    watch = Watch(path)
    with path.open("w") as output:
        process = subprocess.Popen(machine.command(["sh", "-uc", SAMPLES, "watch", FLAG, script]), stdout=output)
        try:
            wait_until(watch.samples, timeout_s=10, what="a first sample")
            yield watch
            count = len(watch.samples())
            wait_until(lambda: len(watch.samples()) > count, timeout_s=10, what="a last sample")
        finally:
            machine.read("rm", FLAG)
            process.wait(timeout=10)


def _lines(machine: Machine, script: str) -> tuple[str, ...]:
    return tuple(sorted(line.strip() for line in machine.sh(script).splitlines()))
