"""Journals of whole worlds, replayed."""

from __future__ import annotations

from collections import Counter

import pytest

from meshwatchd.adapters.storage.journal.checkpoint import dump, load
from meshwatchd.adapters.storage.journal.replay import replay, segments
from meshwatchd.adapters.storage.journal.writer import Journal
from meshwatchd.model import outputs as out
from meshwatchd.model.errors import JournalError
from meshwatchd.model.failover_facts import FailoverApplied
from meshwatchd.model.settings import MS, SECOND, PolicySettings
from tests.sim import faults
from tests.sim.healthy import healthy_world


def test_every_node_of_a_world_decides_the_same_once_more(tmp_path):
    """A fault, the agreement of two relays, verification, failback; a new segment in the middle of it."""
    world = healthy_world(seed=5, policy=PolicySettings(hold_down=SECOND, wait_to_restore=500 * MS))
    for name, node in world.nodes.items():
        world.journals[name] = Journal(tmp_path / name, 1 << 20, Counter())
        world.journals[name].begin(node.engine, world.now)
    began = world.now
    world.faults.append(faults.overlay_new_flows("b1"))
    world.run(120 * MS)
    for name, node in world.nodes.items():
        world.journals[name].begin(node.engine, world.now)
    world.run(SECOND)
    world.faults.clear()
    world.run(4 * SECOND)

    for name, journal in world.journals.items():
        journal.close()
        steps = [step for segment in segments(tmp_path / name) for step in replay(segment)]
        assert [] == [step for step in steps if not step.is_same]
        kinds = (FailoverApplied, out.VerdictChanged)
        said = [output for step in steps for output in step.says if isinstance(output, kinds)]
        told = [t.fact for t in world.told if t.node == name and t.at >= began and isinstance(t.fact, kinds)]
        assert told == said
        assert {0, 1} <= {fact.to_rank for fact in said if isinstance(fact, FailoverApplied)} or name in "a1b1a2"


def test_a_folder_without_a_journal_says_how_to_get_one(tmp_path):
    """The setting that writes it."""
    with pytest.raises(JournalError, match="journal_mib"):
        segments(tmp_path)


def test_a_segment_without_its_events_is_named(tmp_path):
    """Both files belong together."""
    world = healthy_world(seed=5)
    journal = Journal(tmp_path, 1 << 20, Counter())
    journal.begin(world.nodes["a1"].engine, world.now)
    journal.close()
    (segment,) = segments(tmp_path)
    assert [segment] == segments(segment.with_suffix(".events"))
    segment.with_suffix(".events").unlink()
    with pytest.raises(JournalError, match="keep both files of a segment together"):
        list(replay(segment))


def _segment(folder):
    """A fault at a leader, in one file."""
    world = healthy_world(seed=5)
    world.journals["a1"] = Journal(folder, 1 << 20, Counter())
    world.journals["a1"].begin(world.nodes["a1"].engine, world.now)
    world.faults.append(faults.overlay_black_hole("b1"))
    world.run(300 * MS)
    world.journals["a1"].close()
    (segment,) = segments(folder)
    return segment


def test_a_file_that_ends_anywhere_shows_no_difference(tmp_path):
    """A crash, or a disk that was full, between an event and what was said to it."""
    segment = _segment(tmp_path)
    events = segment.with_suffix(".events")
    content, whole = events.read_bytes(), sum(1 for _ in replay(segment))
    assert whole > 10
    for end in range(len(content), len(content) - 1500, -10):
        events.write_bytes(content[:end])
        assert [] == [step for step in replay(segment) if not step.is_same]


def test_an_event_that_the_engine_cannot_be_given_is_named(tmp_path):
    """Its number, its kind and its time, whether a damaged event or a bug is the cause."""
    segment = _segment(tmp_path)
    header, engine = load(segment)
    engine.state.by_path = {}
    segment.write_bytes(dump(engine, at_ns=header.at_ns, wall_ns=header.wall_ns))
    with pytest.raises(JournalError, match=r"cannot be given event \d+, (Tick|ReplyReceived) at \d+ ns: KeyError"):
        list(replay(segment))
