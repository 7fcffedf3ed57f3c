"""The agent's proof: what it is about, and where what it finds goes."""

from __future__ import annotations

import asyncio

import msgspec

from meshwatchd.model.frames import KeysFrame
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import DaemonReady, PathBisected, VerdictChanged
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.runtime.auto_bisect import Prover
from tests.support.example_bisection import RESULT
from tests.support.lab_mesh import declared_mesh, settings_for
from tests.unit.core.diagnosis.test_bisection_trigger import verdict


class Notes:
    """Sinks and a log."""

    def __init__(self) -> None:
        self.facts: list[PathBisected] = []

    def consume(self, frame):
        """Keep the fact."""
        self.facts.append(frame.fact)

    def warning(self, event: str, **fields: object) -> None:
        """Nothing is expected here."""
        raise AssertionError(event)


def prover(notes: Notes, asked: list[str], snapshot: Snapshot | None = None) -> Prover:
    """One whose process answers at once."""

    async def spawn(peer: str, mesh: bytes) -> bytes:
        asked.append(peer)
        return msgspec.json.encode(RESULT)

    return Prover(settings_for("b3"), None, snapshot=lambda: snapshot, sinks=notes, log=notes, spawn=spawn)


def test_verdicts_are_proven_and_other_facts_are_not():
    """What is found goes where facts go."""

    async def scenario() -> tuple[list[PathBisected], list[str]]:
        asked: list[str] = []
        notes = Notes()
        made = prover(notes, asked)
        made.take(DaemonReady(pair=0))
        made.take(VerdictChanged(verdict=verdict(), previous="none"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(duty) for duty in made.duties()]
            for _ in range(20):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
        assert RESULT == await made.bisect("b2")
        return notes.facts, asked

    facts, asked = asyncio.run(scenario())
    assert ["b1", "b2"] == asked
    assert [0, -1] == [fact.pair for fact in facts]


def test_keys_of_pairs_are_for_taps_as_well_and_go_on_to_the_engine():
    """The engine signs probes by them, this process questions for taps."""
    bindings = (PairBinding(peer=NodeName("b1"), shared=bytes(32), signs=True),)
    made = prover(Notes(), [])

    assert KeysFrame(bindings=bindings) == made.bind(list(bindings))
    assert {"b1": bindings[0]} == made._listener._keys._bindings


def test_the_mesh_that_was_found_comes_before_the_declared():
    """Until something is found, the file has it."""
    found = msgspec.structs.replace(declared_mesh(), overlay_device="flannel.7")

    async def scenario() -> list[str]:
        return [
            prover(Notes(), [], snapshot).mesh().overlay_device for snapshot in (None, Snapshot(), Snapshot(mesh=found))
        ]

    assert ["flannel.1", "flannel.1", "flannel.7"] == asyncio.run(scenario())
