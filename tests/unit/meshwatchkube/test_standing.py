"""Claims last from the first look at which they were made, without a break."""

from __future__ import annotations

from meshwatchkube.standing import Standing


def test_a_claim_lasts_while_it_is_made_at_each_look():
    """One look without it is a break."""
    standing = Standing()
    standing.note(["b1", "b2"], 10)
    standing.note(["b1"], 20)
    standing.note(["b1", "b2"], 30)
    assert standing.has_lasted("b1", 20, 30)
    assert not standing.has_lasted("b1", 21, 30)
    assert not standing.has_lasted("b2", 1, 30)
    assert not standing.has_lasted("b3", 0, 30)


def test_forgotten_claims_begin_anew():
    """As when nothing was known for a while."""
    standing = Standing()
    standing.note(["b1"], 10)
    standing.forget()
    standing.note(["b1"], 20)
    assert not standing.has_lasted("b1", 10, 20)
