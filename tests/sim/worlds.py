"""Random worlds, many of them: `python -m tests.sim.worlds --count 10000` on every core there is.

Whatever the story of a world (`tests.sim.stories`), the properties of `tests.sim.properties` hold in it. One in which
some does not is printed with its number and the line that tells it again. A run that proved nothing, because hardly
anything moved in it, fails as well, and so does one that the limit of time has cut short. One that took longer than
`--within` says so and passes: a slow or busy machine proves as much as a fast one.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tests.sim.properties import LEAST, Violation, check_home, check_moves, happened
from tests.sim.stories import Story

ENOUGH_WORLDS = 200
"""Of fewer, shares say nothing."""

BATCH = 20
PROGRESS_S = 30.0
GARBAGE_WORLDS = 50


class Ended(NamedTuple):
    """A world that was told to its end.

    Attributes:
        digest: of everything that was decided in it; empty where a property does not hold.
        problem: which, with the story; empty where all hold.
        seen: what came to pass in it.
        probes: that were sent.
    """

    number: int
    digest: str
    problem: str
    seen: Counter[str]
    probes: int


def attempt(number: int) -> Ended:
    """Tell one world and look whether every property holds."""
    seen: Counter[str] = Counter()
    lines: list[str] = []
    try:
        story = Story(number)
        lines, world = story.lines, story.world
        before, sent = world.rules(), world.sent
        story.tell()
        check_home(world, before)
        check_moves(world)
    except Violation as violation:
        return Ended(number, "", "\n".join([violation.name, *lines, violation.text]), seen, 0)
    except AssertionError as error:
        return Ended(number, "", "\n".join(["an assertion", *lines, repr(error)]), seen, 0)
    seen += happened(world)
    seen["several faults at once"] = story.most_at_once > 1
    seen["a restart"] = "restart" in story.kinds
    seen["loss or delay"] = any(kind in story.kinds for kind in ("loss", "random-loss", "delay"))
    said = repr([(told.at, told.node, told.fact) for told in world.told]) + repr(world.switches)
    return Ended(number, hashlib.sha256(said.encode()).hexdigest(), "", seen, world.sent - sent)


def _attempt_batch(numbers: range) -> list[Ended]:
    """In a process of its own: garbage is collected between worlds, and what was warmed up is never looked at."""
    gc.disable()
    ended = []
    for number in numbers:
        ended.append(attempt(number))
        if number % GARBAGE_WORLDS == 0:
            gc.collect()
            gc.freeze()
    return ended


def _batches(first: int, count: int) -> list[range]:
    end = first + count
    return [range(at, min(at + BATCH, end)) for at in range(first, end, BATCH)]


def run(first: int, count: int, *, jobs: int, limit_s: float) -> Iterator[Ended]:
    """The worlds of a range, in order.

    Args:
        first: number of the first.
        count: how many.
        jobs: processes.
        limit_s: what has not ended by then is left out.
    """
    end = time.monotonic() + limit_s
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for batch in pool.imap(_attempt_batch, _batches(first, count)):
            yield from batch
            if time.monotonic() > end:
                pool.terminate()
                return


class Report:
    """What a run comes to.

    Args:
        wanted: how many worlds were asked for.
        within_s: what they should take on two calm cores.
    """

    def __init__(self, wanted: int, within_s: float = float("inf")) -> None:
        self.wanted, self.worlds, self.failures, self.probes = wanted, 0, 0, 0
        self._within_s = within_s
        self.seen: Counter[str] = Counter()
        self._began = self._told = time.monotonic()
        self._whole = hashlib.sha256()

    def note(self, ended: Ended) -> None:
        """One more world; a failure is printed at once, and progress now and then."""
        self.worlds += 1
        self.probes += ended.probes
        self.seen += ended.seen
        self._whole.update(ended.digest.encode())
        if ended.problem:
            self.failures += 1
            again = f"PYTHONPATH=.:netns-lab .venv/bin/python -m tests.sim.worlds --first {ended.number} --count 1"
            _print(f"world {ended.number}: {ended.problem}\nagain: {again}\n")
        elapsed_s = time.monotonic() - self._began
        if time.monotonic() - self._told >= PROGRESS_S:
            self._told = time.monotonic()
            _print(f"{self.worlds} of {self.wanted} worlds after {elapsed_s:.0f} s")

    def lacking(self) -> list[str]:
        """What came to pass in too few worlds to prove anything."""
        if self.worlds < ENOUGH_WORLDS:
            return []
        return [
            f"{name} in {self.seen[name]}" for name, least in LEAST.items() if self.seen[name] < least * self.worlds
        ]

    def conclude(self, *, with_digest: bool) -> int:
        """Print the sum of it; returns the exit status."""
        took_s = time.monotonic() - self._began
        _print(f"{self.worlds} of {self.wanted} worlds in {took_s:.0f} s, {self.probes} probes")
        _print("; ".join(f"{name} in {times}" for name, times in self.seen.most_common()))
        if with_digest:
            _print(f"digest {self._whole.hexdigest()}")
        lacking = self.lacking()
        if lacking:
            _print(f"too little happened: {', '.join(lacking)}")
        if took_s > self._within_s:
            _print(
                f"SLOW: {self.wanted} worlds should take {self._within_s:.0f} s at most; this run took {took_s:.0f} s"
            )
        if self.worlds < self.wanted:
            _print(f"CUT SHORT: {self.wanted - self.worlds} worlds of {self.wanted} were not told, which is a failure")
        _print(f"{self.failures} worlds with a property that does not hold")
        return int(bool(self.failures or lacking or self.worlds < self.wanted))


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run a range of worlds; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after so long and fail, saying how far it came"
    )
    parser.add_argument("--within", type=float, default=float("inf"), help="say so where it takes longer")
    parser.add_argument("--digest", action="store_true", help="print one digest of all decisions")
    options = parser.parse_args()
    _print(f"worlds {options.first} to {options.first + options.count - 1}, in {options.jobs} processes")
    report = Report(options.count, options.within)
    for ended in run(options.first, options.count, jobs=options.jobs, limit_s=options.seconds):
        report.note(ended)
    return report.conclude(with_digest=options.digest)


if __name__ == "__main__":
    sys.exit(main())
