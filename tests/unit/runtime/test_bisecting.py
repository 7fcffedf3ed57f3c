"""Runs of the agent: one at a time, rarely by themselves, and never anything left of their processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import msgspec
import pytest

from meshwatchd.model.bisection import BisectSettings, Place
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.outputs import PathBisected
from meshwatchd.model.settings import MINUTE, SECOND, Settings
from meshwatchd.runtime.bisecting import RETRY_S, BisectError, Bisections, fact_of, make_spawn, run_process
from tests.support.example_bisection import RESULT
from tests.support.lab_mesh import settings_for
from tests.unit.core.diagnosis.test_bisection_trigger import verdict


class Desk:
    """Bisections whose process is a function, with a clock that a test turns."""

    def __init__(self, settings: Settings | None = None, output: bytes | None = None) -> None:
        self.now_ns = 0
        self.asked: list[str] = []
        self.told: list[PathBisected] = []
        self.warned: list[str] = []
        self.busy = 0
        self.most_busy = 0
        self.output = msgspec.json.encode(RESULT) if output is None else output
        self.rests: list[float] = []
        self.while_resting: Callable[[], None] = lambda: None
        chosen = settings or settings_for("b3")
        self.bisections = Bisections(
            self.spawn,
            chosen,
            mesh=lambda: chosen.mesh,
            tell=self.told.append,
            log=self,
            clock=lambda: self.now_ns,
            rest=self.rest,
        )

    async def rest(self, seconds: float) -> None:
        """Turn the clock, and let a test do something meanwhile."""
        self.rests.append(seconds)
        self.now_ns += int(seconds * SECOND)
        self.while_resting()

    async def spawn(self, peer: str, mesh: bytes) -> bytes:
        """Take two turns of the loop."""
        self.asked.append(peer)
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.busy -= 1
        assert b'"b1"' in mesh
        return self.output

    def warning(self, event: str, **fields: object) -> None:
        """Keep it."""
        self.warned.append(f"{event} {fields}")

    async def settle(self) -> None:
        """Let the duty run until nothing moves."""
        async with asyncio.TaskGroup() as group:
            duty = group.create_task(self.bisections.prove_verdicts())
            for _ in range(20):
                await asyncio.sleep(0)
            duty.cancel()


def test_a_verdict_is_proven_and_told_with_its_fault():
    """The fact names the pair and the fault, so that `explain` finds it."""

    async def scenario() -> Desk:
        desk = Desk()
        desk.bisections.consider(verdict())
        await desk.settle()
        return desk

    desk = asyncio.run(scenario())
    assert ["b1"] == desk.asked
    assert [(0, FaultCode.OVERLAY_NEW_FLOWS.value, Place.LOCAL_FDB)] == [
        (fact.pair, fact.fault, fact.place) for fact in desk.told
    ]


def test_verdicts_in_a_row_are_proven_once_in_a_while():
    """A flapping verdict asks for one run, and for the next after the pause."""

    async def scenario() -> list[int]:
        desk, counts = Desk(), []
        for now_ns in (0, 1, MINUTE - 1, MINUTE):
            desk.now_ns = now_ns
            desk.bisections.consider(verdict())
            desk.bisections.consider(verdict())
            await desk.settle()
            counts.append(len(desk.asked))
        return counts

    assert [1, 1, 1, 2] == asyncio.run(scenario())


def test_switched_off_nothing_runs_by_itself():
    """An operator still may ask."""

    async def scenario() -> Desk:
        settings = msgspec.structs.replace(settings_for("b3"), bisect=BisectSettings(on_verdict=False))
        desk = Desk(settings)
        desk.bisections.consider(verdict())
        await desk.settle()
        assert [] == desk.asked
        assert RESULT == await desk.bisections.run("b1")
        return desk

    assert [-1] == [fact.pair for fact in asyncio.run(scenario()).told]


def test_two_runs_follow_each_other():
    """Their probes would be told apart, the counters of devices would not."""

    async def scenario() -> Desk:
        desk = Desk()
        await asyncio.gather(desk.bisections.run("b1"), desk.bisections.run("b2"))
        return desk

    desk = asyncio.run(scenario())
    assert (["b1", "b2"], 1) == (desk.asked, desk.most_busy)


def _fail_once(desk: Desk) -> None:
    """The first run tells nothing, those after a rest tell all."""
    good, desk.output = desk.output, b"no json"

    def recover() -> None:
        desk.output = good

    desk.while_resting = recover


def test_a_run_that_failed_is_tried_again_while_its_verdict_stands():
    """A node short of cores ends a run without a result, and the verdict will not change to ask a second time."""

    async def scenario() -> Desk:
        desk = Desk()
        _fail_once(desk)
        desk.bisections.consider(verdict())
        await desk.settle()
        return desk

    desk = asyncio.run(scenario())
    assert (["b1", "b1"], [RETRY_S[0]], 1) == (desk.asked, desk.rests, len(desk.told))
    assert ["'again_in_s': 5.0" in line for line in desk.warned] == [True]


def test_a_run_that_goes_on_failing_is_given_up():
    """After growing rests, and the next verdict gets its chance after the pause."""

    async def scenario() -> Desk:
        desk = Desk(output=b"no json")
        desk.bisections.consider(verdict())
        await desk.settle()
        with pytest.raises(BisectError, match=r"b1.*no result"):
            await desk.bisections.run("b1")
        asked = len(desk.asked)
        desk.bisections.consider(verdict())
        await desk.settle()
        assert asked == len(desk.asked)
        desk.now_ns += MINUTE
        desk.bisections.consider(verdict())
        await desk.settle()
        assert asked < len(desk.asked)
        return desk

    desk = asyncio.run(scenario())
    assert [] == desk.told
    assert [*RETRY_S, *RETRY_S] == desk.rests
    assert 2 * (len(RETRY_S) + 1) == len(desk.warned)


def test_a_run_that_failed_is_not_tried_again_for_a_verdict_that_is_gone():
    """All is well again: nothing is left to be proven; a fault that comes back is, without the whole pause."""

    async def scenario() -> Desk:
        desk = Desk()
        _fail_once(desk)
        recover = desk.while_resting

        def withdraw() -> None:
            recover()
            desk.bisections.consider(msgspec.structs.replace(verdict(), severity=Severity.OK))

        desk.while_resting = withdraw
        desk.bisections.consider(verdict())
        await desk.settle()
        assert ["b1"] == desk.asked
        desk.bisections.consider(verdict())
        await desk.settle()
        return desk

    desk = asyncio.run(scenario())
    assert (["b1", "b1"], 1) == (desk.asked, len(desk.told))


def test_a_fact_without_a_verdict_belongs_to_no_pair():
    """It is an operator's."""
    assert (-1, "") == (fact_of(RESULT).pair, fact_of(RESULT).fault)


def _run(script: str, *, limit_s: float = 30) -> bytes:
    return asyncio.run(run_process((sys.executable, "-c", script), b"mesh", limit_s=limit_s, what="b1"))


def test_a_process_gets_its_input_and_gives_its_output():
    """To the end of both."""
    assert b"MESH" == _run("import sys; print(sys.stdin.read().upper(), end='')")


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("import sys; sys.exit('first\\nno such node')", "no such node"),
        ("import sys; sys.exit(3)", "without a word"),
    ],
)
def test_a_process_that_fails_says_why(script, complaint):
    """Its last line, which is the reason of a refusal and of a crash."""
    with pytest.raises(BisectError, match=complaint):
        _run(script)


def test_a_process_that_hangs_is_ended(tmp_path):
    """At its limit, and gone for good."""
    file = tmp_path / "pid"
    script = f"import os, pathlib, time; pathlib.Path({str(file)!r}).write_text(str(os.getpid())); time.sleep(600)"
    with pytest.raises(BisectError, match="no result within"):
        _run(script, limit_s=3)

    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)


def test_a_command_that_is_not_there_is_no_crash():
    """A venv that was removed under a running daemon."""
    with pytest.raises(BisectError, match="No such file"):
        asyncio.run(run_process(("/nonexistent/python",), b"", limit_s=1, what="b1"))


def test_the_real_process_is_started_with_the_daemons_file(tmp_path):
    """Its complaint about the file comes back as the reason."""
    spawn = make_spawn(tmp_path / "missing.toml", BisectSettings())

    async def scenario() -> bytes:
        return await spawn("b1", b"")

    with pytest.raises(BisectError, match=r"missing\.toml"):
        asyncio.run(scenario())
