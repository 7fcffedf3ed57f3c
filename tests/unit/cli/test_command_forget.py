"""`meshwatchctl forget`: over the socket, for people and for programs."""

from __future__ import annotations

import msgspec


def test_a_remembered_identity_is_forgotten(room, run):
    """Status 0; the sentence says what comes next."""
    code, out, _ = run("forget", "b1")

    assert (0, True) == (code, "identity of b1 is forgotten" in out)


def test_a_name_without_an_identity_is_told(room, run):
    """Status 1: a misspelt name must not look like success."""
    code, out, _ = run("forget", "x9")

    assert (1, True) == (code, "no identity of x9" in out)


def test_json_is_the_reply(room, run):
    """For programs that do it on all nodes."""
    assert {"was_known": True} == msgspec.json.decode(run("--json", "forget", "b1")[1])
