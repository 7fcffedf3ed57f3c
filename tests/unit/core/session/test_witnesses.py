"""Whose evidence it is: one node's, or the leg's."""

from __future__ import annotations

import random

import pytest

from meshwatchd.core.session.cusum import HALF, QUARTER
from meshwatchd.core.session.witnesses import MIN_ACCUSERS, Witnesses


def _heard(**probes):
    """Witnesses after so many probes of each node: `x` was missed, `o` answered."""
    witnesses = Witnesses()
    witnesses.begin()
    for peer, outcomes in probes.items():
        for outcome in outcomes:
            (witnesses.miss if outcome == "x" else witnesses.hit)(peer)
    return witnesses


def test_one_accuser_is_not_enough_where_there_are_two_nodes():
    """The other one may not have been asked yet."""
    assert not _heard(b2="x" * 50).are_unanimous(HALF, 2)
    assert _heard(b2="x", b3="x").are_unanimous(HALF, 2)


def test_a_leg_to_one_node_needs_one_accuser():
    """There is nobody else to ask; and without any node there is no charge."""
    assert _heard(b1="x").are_unanimous(HALF, 1)
    assert not _heard(b1="x").are_unanimous(HALF, 0)


def test_a_few_nodes_speak_for_hundreds():
    """Those that were not asked have no veto, but the word of three is not enough."""
    probes = {f"n{index}": "x" for index in range(MIN_ACCUSERS)}

    assert _heard(**probes).are_unanimous(HALF, 500)
    del probes["n0"]
    assert not _heard(**probes).are_unanimous(HALF, 500)


@pytest.mark.parametrize(("arm", "answers"), [(HALF, 6), (QUARTER, 17)])
def test_a_run_of_answers_refutes_a_charge(arm, answers):
    """Twenty to one: soon for the charge that half is lost, later for a quarter; the next miss withdraws it."""
    hesitant = _heard(b2="x", b3="x" + "o" * (answers - 1))
    sure = _heard(b2="x", b3="x" + "o" * answers)

    assert (True, False) == (hesitant.are_unanimous(arm, 2), sure.are_unanimous(arm, 2))
    sure.miss("b3")
    assert sure.are_unanimous(arm, 2)


def test_answers_from_before_the_doubt_acquit_nobody():
    """A leg that dies has answered a thousand times before."""
    witnesses = _heard(b2="o" * 1_000, b3="o" * 1_000)
    witnesses.begin()
    witnesses.miss("b2")
    witnesses.miss("b3")

    assert witnesses.are_unanimous(HALF, 2)


def test_accusations_from_before_the_doubt_count_no_more():
    """Everyday loss: one miss of each node last hour is not unanimity about this one."""
    witnesses = _heard(b2="x", b3="x")
    witnesses.begin()
    witnesses.miss("b2")

    assert not witnesses.are_unanimous(HALF, 2)


def test_a_late_answer_withdraws_an_accusation():
    """The node was slow, not silent."""
    witnesses = _heard(b2="x", b3="x")
    witnesses.heal("b3")

    assert not witnesses.are_unanimous(HALF, 2)


def test_a_broken_quarter_leaves_moments_of_unanimity():
    """Every node answers three probes in four: at almost any time nobody's answers refute the charge."""
    witnesses, rng = Witnesses(), random.Random(489)
    witnesses.begin()
    unanimous = 0
    for _ in range(2_000):
        for peer in ("b2", "b3", "b4"):
            (witnesses.miss if rng.random() < 0.25 else witnesses.hit)(peer)
        unanimous += witnesses.are_unanimous(QUARTER, 3)

    assert unanimous > 1_500
