"""Who has which addresses, against the rule said in the plainest way."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.model.prefixes import Claim, covers, holds, judge, overlap

SIX = tuple(Claim(name, f"10.244.{number}.0/24") for number, name in enumerate(("a1", "a2", "a3", "b1", "b2", "b3"), 1))


@st.composite
def claims(draw, names="pqrstu"):
    """Prefixes that mostly touch each other."""
    found = {}
    for _ in range(draw(st.integers(0, 9))):
        length = draw(st.sampled_from([0, 8, 24, 25, 30, 31, 32]))
        number = draw(st.integers(0, 15)) << 28 if length < 24 else (10 << 24) + draw(st.integers(0, 600))
        first = number >> (32 - length) << (32 - length) if length else 0
        text = f"{first >> 24}.{first >> 16 & 255}.{first >> 8 & 255}.{first & 255}/{length}"
        claim = Claim(draw(st.sampled_from(names)), text, draw(st.booleans()), draw(st.booleans()))
        found[claim.who, claim.prefix] = claim
    return list(found.values())


@given(claims(), claims())
def test_what_is_accepted_contradicts_nothing_and_what_is_left_out_does(believed, told):
    """Each claim is in one of the two, and the reason that is given is true."""
    accepted, contradictions = judge(believed, told)

    assert sorted(told) == sorted([*accepted, *(each.claim for each in contradictions)])
    for one, other in itertools.chain(itertools.product(accepted, believed), itertools.combinations(accepted, 2)):
        assert one.who == other.who or not overlap(one.prefix, other.prefix)
    for each in contradictions:
        assert each.against in [*believed, *accepted]
        assert each.against.who != each.claim.who
        assert overlap(each.claim.prefix, each.against.prefix)
        everybody = {*believed, *told} - {each.claim}
        others = [other for other in [*believed, *told] if other.who != each.claim.who]
        assert everybody
        assert each.others + 1 == sum(overlap(each.claim.prefix, other.prefix) for other in others)


@given(claims(), st.randoms(use_true_random=False))
def test_the_order_in_which_claims_come_decides_nothing(told, rng):
    """Nodes hear each other in any order."""
    shuffled = list(told)
    rng.shuffle(shuffled)

    assert judge((), told) == judge((), shuffled)


def test_a_prefix_that_is_too_wide_puts_out_nobody_but_its_owner():
    """However far from it the others are, whoever of them is silent, and if its kernel has the same mistake."""
    wide = Claim("a0", "10.0.0.0/8", is_shown=True)
    silent = [each._replace(is_alive=False) for each in SIX]

    accepted, (found,) = judge((), [*silent, wide])
    assert (wide, 5) == (found.claim, found.others)
    assert set(silent) == set(accepted)


def test_several_that_are_too_wide_go_together():
    """A whole location gives the network of all pods as each node's own."""
    wide = [Claim(name, "10.244.0.0/16") for name in ("c1", "c2", "c3")]

    assert set(SIX) == set(judge((), [*SIX, *wide]).accepted)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Claim("z", "10.0.0.0/8", is_shown=True), Claim("a", "10.1.0.0/16")),
        (Claim("z", "10.0.0.0/8"), Claim("a", "10.1.0.0/16", is_alive=False)),
        (Claim("z", "10.1.0.0/16"), Claim("a", "10.0.0.0/8")),
        (Claim("a", "10.1.0.0/16"), Claim("z", "10.1.0.0/16")),
    ],
    ids=["its kernel shows it", "it is alive", "it is narrower", "its name is first"],
)
def test_of_two_the_better_founded_stays(one, other):
    """What a kernel shows counts before who is alive, that before the width, and that before names."""
    accepted, (found,) = judge((), [other, one])

    assert ((one,), other, one) == (accepted, found.claim, found.against)


def test_a_contradiction_names_who_what_and_against_whom():
    """An engineer at night knows whom to ask."""
    ((found,),) = (judge([Claim("b3", "10.2.0.13/32")], [Claim("b2", "10.0.0.0/8")]).contradictions,)

    assert "b2 claims 10.0.0.0/8, which overlaps 10.2.0.13/32 of b3" == found.render()
    assert found._replace(others=9).render().endswith(" of b3 and 9 more")


def test_what_covers_overlaps_and_not_the_other_way_round():
    """Of two prefixes that overlap one holds the other."""
    assert covers("10.0.0.0/8", "10.2.0.11/32")
    assert not covers("10.2.0.11/32", "10.0.0.0/8")
    assert overlap("10.2.0.11/32", "10.0.0.0/8")
    assert not overlap("10.2.0.0/24", "10.2.1.0/24")


@pytest.mark.parametrize(
    ("prefix", "address", "expected"),
    [
        ("10.244.1.0/24", "10.244.1.255", True),
        ("10.244.1.0/24", "10.244.2.0", False),
        ("0.0.0.0/0", "203.0.113.1", True),
        ("::/0", "10.244.1.1", False),
        ("0.0.0.0/0", "2001:db8::1", False),
    ],
)
def test_a_prefix_holds_its_addresses_of_ipv4_alone(prefix, address, expected):
    """Audits ask it of whatever the kernel has."""
    assert expected == holds(prefix, address)
