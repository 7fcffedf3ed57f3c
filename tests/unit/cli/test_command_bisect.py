"""`meshwatchctl bisect`: over the socket, for people and for programs."""

from __future__ import annotations

import msgspec

from meshwatchd.model.errors import ControlError
from tests.support.example_bisection import RESULT, WELL


def test_the_place_comes_first_and_decides_the_status(room, run):
    """Status 2 where packets die; the node that was named is asked about."""
    code, out, _ = run("bisect", "b1")

    assert (2, ["b1"]) == (code, room.backend.bisected)
    assert "FDB" in out.splitlines()[0]


def test_nothing_dies(room, run):
    """Status 0."""
    room.backend.bisection = WELL

    assert 0 == run("bisect", "b1")[0]


def test_json_is_the_result(room, run):
    """By either option."""
    for words in (("bisect", "b1", "--json"), ("--json", "bisect", "b1")):
        assert msgspec.json.decode(msgspec.json.encode(RESULT)) == msgspec.json.decode(run(*words)[1])


def test_a_refusal_is_told_with_its_reason(room, run):
    """As the daemon gives it."""
    room.backend.bisection = ControlError(3, "there is no node x9 in this mesh")
    code, _, err = run("bisect", "x9")

    assert 3 == code
    assert "no node x9" in err
