"""Policy's file: replaced as a whole, understood or moved aside, as of this boot's clock."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.storage.policy_file import FILE_NAME, MAX_BYTES, StateFile
from meshwatchd.model.policy_state import Order, OrderKind, PolicyState

STATE = PolicyState(orders=(Order(kind=OrderKind.PAUSE, name="ann", until_ns=1_000, reason="new switch"),))


def _file(folder, *, boot="one", monotonic_ns=100, wall_ns=5_000):
    return StateFile(folder, boot=boot, monotonic_ns=lambda: monotonic_ns, wall_ns=lambda: wall_ns)


def test_what_is_saved_is_loaded(tmp_path):
    """Within a boot to the nanosecond; the folder is made."""
    folder = tmp_path / "state"
    assert "" == _file(folder).save(STATE)
    assert (STATE, "") == _file(folder, monotonic_ns=777).load()
    assert [FILE_NAME] == [path.name for path in folder.iterdir()]


def test_without_a_file_there_is_nothing_to_say(tmp_path):
    """The first start."""
    assert (None, "") == _file(tmp_path).load()


def test_after_a_reboot_the_wall_clock_tells_what_is_left(tmp_path):
    """300 ns later by the wall, on a clock that began anew at 40: 600 of 900 ns are left."""
    _file(tmp_path).save(STATE)
    loaded = _file(tmp_path, boot="two", monotonic_ns=40, wall_ns=5_300).load()
    assert loaded.state is not None
    assert 40 + 600 == loaded.state.orders[0].until_ns


def test_a_wall_clock_that_was_set_back_counts_as_no_time(tmp_path):
    """Rather an order that lasts too long than one that ends a year early."""
    _file(tmp_path).save(STATE)
    loaded = _file(tmp_path, boot="two", monotonic_ns=40, wall_ns=10).load()
    assert loaded.state is not None
    assert 40 + 900 == loaded.state.orders[0].until_ns


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not understood"),
        (b"{", "not understood"),
        (b"\xff\xfe", "not understood"),
        (b"[" * 100_000, "not understood"),
        (b'{"version": 2}', "version 2, and this is a daemon for version 1"),
        (b'{"version": 0, "orders": []}', "version 0, and this is a daemon for version 1"),
        (b'{"version": 1, "boot": "one"}', "not understood"),
        (b" " * (MAX_BYTES + 1), "larger than"),
    ],
)
def test_what_makes_no_sense_is_moved_aside_and_named(tmp_path, content, why):
    """The daemon starts without it, and whoever wants to look still can."""
    (tmp_path / FILE_NAME).write_bytes(content)
    state, problem = _file(tmp_path).load()

    assert state is None
    assert why in problem
    assert "moved aside as policy.json.bad" in problem
    assert content == (tmp_path / "policy.json.bad").read_bytes()
    assert (None, "") == _file(tmp_path).load()


def test_numbers_that_no_engine_can_be_told_are_no_state(tmp_path):
    """JSON has them; the agent would crash over them at each of its starts."""
    _file(tmp_path).save(STATE)
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes().replace(b'"until_ns":1000', b'"until_ns":1' + b"0" * 25))
    state, problem = _file(tmp_path).load()

    assert state is None
    assert "moved aside as policy.json.bad" in problem


def test_a_disk_that_takes_nothing_is_named_and_leaves_the_old_file(tmp_path):
    """A directory in the place of the new file stands for a full disk."""
    _file(tmp_path).save(STATE)
    (tmp_path / "policy.new").mkdir()
    problem = _file(tmp_path).save(PolicyState())

    assert "moves and orders are forgotten at the next restart" in problem
    assert STATE == _file(tmp_path).load().state


def test_a_half_written_file_never_takes_the_place_of_a_whole_one(tmp_path):
    """Kill -9 between writing and renaming: the new file lies beside the old one."""
    _file(tmp_path).save(STATE)
    (tmp_path / "policy.new").write_bytes(msgspec.json.encode({"version": 1})[:5])
    assert STATE == _file(tmp_path).load().state
    assert "" == _file(tmp_path).save(PolicyState())
    assert PolicyState() == _file(tmp_path).load().state
