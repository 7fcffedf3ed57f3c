"""Events are numbered, kept, followed and written, and a full disk changes none of that but the last."""

from __future__ import annotations

import asyncio
import os

import msgspec
import pytest

from meshwatchd.adapters.storage import policy_file
from meshwatchd.adapters.storage.event_store import EventStore, FollowerTooSlowError
from meshwatchd.model.decoding import refusals


def _line(at_ns: int, **fields: object) -> dict[str, object]:
    return {"at_ns": at_ns, "event": "test.happened", **fields}


def _file_lines(path):
    return [msgspec.json.decode(raw) for raw in path.read_bytes().splitlines()]


def test_events_are_numbered_from_one():
    """The number is how a follower says what it has seen."""
    store = EventStore()
    assert [1, 2] == [store.append(_line(5))["seq"], store.append(_line(6))["seq"]]
    assert 2 == store.last_seq


def test_only_the_latest_are_kept():
    """Memory is bounded whatever the mesh does."""
    store = EventStore(capacity=3)
    for at_ns in range(10):
        store.append(_line(at_ns))
    assert [7, 8, 9] == [line["at_ns"] for line in store.read()]


def test_reading_starts_where_asked():
    """By instant, by number, and no more than wanted."""
    store = EventStore(capacity=5)
    for at_ns in range(10, 20):
        store.append(_line(at_ns))
    assert [17, 18, 19] == [line["at_ns"] for line in store.read(17)]
    assert [9, 10] == [line["seq"] for line in store.read(after=8)]
    assert [6, 7] == [line["seq"] for line in store.read(after=2, limit=2)]
    assert [] == store.read(after=10)


def test_a_follower_waits_for_the_next_event():
    """Nothing is asked twice and nothing is missed."""

    async def scenario():
        store = EventStore()
        store.append(_line(1))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(store.read_next(1, limit=10))
            await asyncio.sleep(0)
            assert not waiting.done()
            store.append(_line(2))
            store.append(_line(3))
        return [line["seq"] for line in waiting.result()]

    assert [2, 3] == asyncio.run(scenario())


def test_a_follower_that_fell_behind_is_told_how_much_it_missed():
    """It costs the store nothing, and it does not silently skip."""

    async def scenario():
        store = EventStore(capacity=3)
        for at_ns in range(10):
            store.append(_line(at_ns))
        with pytest.raises(FollowerTooSlowError) as caught:
            await store.read_next(2, limit=10)
        return caught.value.lost

    assert 5 == asyncio.run(scenario())


def test_events_are_written_as_lines(tmp_path):
    """One JSON object each, in a folder that is made when it is missing."""
    store = EventStore.open(tmp_path / "state")
    store.append(_line(1, because=["a", "b"]))
    store.append(_line(2))
    store.close()
    lines = _file_lines(tmp_path / "state/events.jsonl")
    assert [1, 2] == [line["at_ns"] for line in lines]
    assert 0o640 == (tmp_path / "state/events.jsonl").stat().st_mode & 0o777


def test_the_file_is_rotated_and_three_generations_are_kept(tmp_path):
    """Disk is bounded as well."""
    store = EventStore(tmp_path / "events.jsonl", max_file_bytes=300)
    for at_ns in range(100):
        store.append(_line(at_ns))
    store.close()
    assert ["events.jsonl", "events.jsonl.1", "events.jsonl.2"] == sorted(file.name for file in tmp_path.iterdir())
    assert all(file.stat().st_size <= 300 for file in tmp_path.iterdir())
    assert 99 == _file_lines(tmp_path / "events.jsonl")[-1]["at_ns"]


def test_a_restarted_agent_remembers_this_boot(tmp_path):
    """`explain` must know of the failover that the former agent has told."""
    first = EventStore.open(tmp_path)
    first.append(_line(1))
    first.append(_line(2))
    first.close()
    second = EventStore.open(tmp_path)
    assert 3 == second.append(_line(3))["seq"]
    assert [1, 2, 3] == [line["at_ns"] for line in second.read()]


def test_events_of_another_boot_are_not_taken_over(tmp_path, monkeypatch):
    """Their instants belong to a clock that is gone; they stay in the file."""
    first = EventStore.open(tmp_path)
    first.append(_line(1))
    first.close()
    other = tmp_path / "boot_id"
    other.write_text("0ther-boot")
    monkeypatch.setattr(policy_file, "_BOOT_ID", other)
    assert [] == EventStore.open(tmp_path).read()


def test_a_torn_line_is_passed_over(tmp_path):
    """Power may fail in the middle of a write."""
    first = EventStore.open(tmp_path)
    first.append(_line(1))
    first.close()
    with (tmp_path / "events.jsonl").open("ab") as file:
        file.write(b'{"at_ns": 2, "ev\n[1]\n')
    assert [1] == [line["at_ns"] for line in EventStore.open(tmp_path).read()]


@pytest.mark.parametrize("torn", [b'{"at_ns": 2, "ev', bytes(9)])
def test_the_first_event_after_a_power_cut_is_not_lost_with_the_line_that_was_cut_off(tmp_path, torn):
    """It says that the machine was started; file systems may leave zeros in the place of what was to come."""
    (tmp_path / "events.jsonl").write_bytes(torn)
    store = EventStore.open(tmp_path)
    store.append(_line(3))
    store.close()
    assert [3] == [line["at_ns"] for line in EventStore.open(tmp_path).read()]


def test_a_full_disk_costs_only_the_file(tmp_path):
    """Events stay in memory and the loss is counted (/dev/full refuses every write)."""
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    store = EventStore(tmp_path / "events.jsonl")
    store.append(_line(1))
    assert (1, 1) == (store.unwritten, len(store.read()))


def test_a_disk_that_has_room_again_is_used_again(tmp_path, monkeypatch):
    """A line that was cut by the full disk is closed first, so that the next one can be read."""
    store = EventStore(tmp_path / "events.jsonl")
    store.append(_line(1))
    really_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: really_write(descriptor, data[:9]))
    store.append(_line(2))
    monkeypatch.undo()
    store.append(_line(3))
    store.close()
    assert 1 == store.unwritten
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert [1, 3] == [msgspec.json.decode(lines[0])["at_ns"], msgspec.json.decode(lines[2])["at_ns"]]


@pytest.mark.parametrize(
    "spoiled",
    [
        *(b"\xff", b"[" * 100_000, b'{"event":"x","at_ns":%s}' % (b"9" * 400), b'{"event":"x","at_ns":"y"}', b"7"),
        *(
            b'{"event":"fault.raised","at_ns":5,"incident":1,"%s":[]}' % key
            for key in (b"fault", b"device", b"subject")
        ),
        *(b'{"event":"session.changed","at_ns":5,"incident":1,"%s":{}}' % key for key in (b"pair", b"session")),
    ],
)
def test_no_byte_in_the_file_keeps_a_daemon_from_starting(tmp_path, spoiled):
    """Lines that are none are passed over and counted; those around them are kept."""
    store = EventStore.open(tmp_path)
    store.append({"event": "first", "at_ns": 1})
    store.append({"event": "second", "at_ns": 2})
    store.close()
    path = tmp_path / "events.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + spoiled + b"\n" + second)

    assert ["first", "second"] == [line["event"] for line in EventStore.open(tmp_path).read()]
    assert 1 == refusals.counts["events.jsonl"]


def test_history_is_of_all_files_and_boots_and_passes_over_what_is_broken(tmp_path):
    """Rotated files as well; events of no incident are not even decoded."""
    store = EventStore(tmp_path / "events.jsonl", max_file_bytes=300)
    for number in range(1, 9):
        store.append(_line(number, incident=number))
        store.append(_line(number))
    (tmp_path / "events.jsonl.2").write_bytes(
        b'{"incident":1,\n{"event":"x","at_ns":0,"incident":77,"boot":"earlier"}\n'
    )

    numbers = [line["incident"] for line in store.history()]
    assert 77 == numbers[0]
    assert numbers[1:] == [1, 2, 3, 4, 5, 6, 7, 8][-len(numbers[1:]) :]
    assert len(numbers) > 3
    assert [3] == [line["incident"] for line in _in_memory(3).history()]


def test_history_has_the_starts_of_engines(tmp_path):
    """They belong to no incident, and end all that go on."""
    store = EventStore(tmp_path / "events.jsonl")
    store.append({**_line(1), "event": "daemon.started"})
    store.append({**_line(2), "event": "daemon.ready"})

    assert ["daemon.started"] == [line["event"] for line in store.history()]


def _in_memory(incident):
    store = EventStore()
    store.append(_line(1))
    store.append(_line(1, incident=incident))
    return store
