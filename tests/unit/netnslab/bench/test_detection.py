import pytest

from netnslab.bench.detection import TURNS, lane_count


@pytest.mark.parametrize(("tool", "expected"), [("bird", 1), ("ours", 25), ("ours-fresh-only", 25)])
def test_a_trusted_lane_is_broken_once(tool, expected):
    """It takes a minute to earn trust again; who knows no trust has one lane."""
    assert expected == lane_count(tool, 25)


def test_lanes_without_trust_take_turns():
    """Each has the time to earn the bursts that its last fault has used."""
    assert TURNS == lane_count("ours-untrusted", 25)
