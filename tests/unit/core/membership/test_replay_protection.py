"""Recorded hellos change nothing, and a node that restarts or loses its files is believed again."""

from __future__ import annotations

from meshwatchd.core.membership.replay_protection import (
    ALIVE_NS,
    MAX_KNOWN,
    MAX_OPEN,
    OPEN_NS,
    Acquaintances,
    Judgement,
)

EPOCH = 100


def _met(sender="b1", stamp=(7, 1)):
    """Somebody who has answered one hello of ours."""
    known = Acquaintances(EPOCH)
    asked = known.next_stamp(0)
    assert Judgement.NEWS is known.judge(sender, stamp, answers=asked, now=1)
    return known


def test_a_stranger_is_asked_before_it_is_believed():
    """Anybody can repeat what was recorded a month ago."""
    assert Judgement.UNPROVEN is Acquaintances(EPOCH).judge("b1", (7, 1), answers=None, now=0)


def test_an_answer_proves_the_epoch_and_later_hellos_are_believed_once():
    """The counter only grows."""
    known = _met()

    assert Judgement.NEWS is known.judge("b1", (7, 2), answers=None, now=2)
    assert Judgement.REPEATED is known.judge("b1", (7, 2), answers=None, now=3)
    assert Judgement.REPEATED is known.judge("b1", (7, 1), answers=None, now=3)


def test_an_answer_counts_once_and_for_a_short_time():
    """What was recorded from the wire is no proof a minute later."""
    known = Acquaintances(EPOCH)
    first, second = known.next_stamp(0), known.next_stamp(0)
    known.judge("b1", (7, 1), answers=first, now=1)

    assert Judgement.OLD_EPOCH is known.judge("b1", (6, 9), answers=first, now=2)
    assert Judgement.UNPROVEN is known.judge("b2", (6, 9), answers=second, now=OPEN_NS + 1)


def test_answers_to_an_earlier_process_prove_nothing():
    """Its counters began at one as ours do; the epoch tells them apart."""
    known = Acquaintances(EPOCH)
    known.next_stamp(0)

    assert Judgement.UNPROVEN is known.judge("b1", (7, 1), answers=(EPOCH - 1, 1), now=1)


def test_a_restarted_node_is_asked_and_then_believed():
    """Its epoch is new; the old one is refused from then on."""
    known = _met()
    assert Judgement.UNPROVEN is known.judge("b1", (8, 1), answers=None, now=2)
    assert Judgement.NEWS is known.judge("b1", (8, 2), answers=known.next_stamp(3), now=4)

    assert Judgement.OLD_EPOCH is known.judge("b1", (7, 50), answers=None, now=5)


def test_a_node_that_lost_its_clock_and_its_files_comes_back_by_answering():
    """A smaller epoch is believed from somebody who provably lives."""
    known = _met(stamp=(700, 1))
    assert Judgement.OLD_EPOCH is known.judge("b1", (3, 1), answers=None, now=2)

    assert Judgement.NEWS is known.judge("b1", (3, 2), answers=known.next_stamp(3), now=4)


def test_what_was_proven_outlives_a_restart():
    """An old epoch is refused by the next process too, and the present one needs no new proof."""
    known, later = _met(), Acquaintances(EPOCH + 1)
    for sender, epoch, counter in known.proven():
        later.restore(sender, epoch, counter)

    assert Judgement.OLD_EPOCH is later.judge("b1", (6, 99), answers=None, now=0)
    assert Judgement.NEWS is later.judge("b1", (7, 2), answers=None, now=0)


def test_a_forgotten_node_is_a_stranger():
    """Its name may come back with new hardware."""
    known = _met()
    known.retain({"b2"})

    assert Judgement.UNPROVEN is known.judge("b1", (7, 2), answers=None, now=0)


def test_what_an_unproven_epoch_has_said_counts_as_heard():
    """A living node is always ahead of what was recorded from it, so that nothing is used up in its name."""
    known = Acquaintances(EPOCH)
    assert Judgement.UNPROVEN is known.judge("b1", (7, 5), answers=None, now=0)
    assert Judgement.REPEATED is known.judge("b1", (7, 5), answers=None, now=1)
    assert Judgement.REPEATED is known.judge("b1", (7, 4), answers=None, now=1)

    assert Judgement.UNPROVEN is known.judge("b1", (7, 6), answers=None, now=2)
    assert Judgement.UNPROVEN is known.judge("b1", (8, 1), answers=None, now=2)


def test_an_answer_may_be_overtaken():
    """What was sent after it has been heard before; it proves the epoch all the same."""
    known = Acquaintances(EPOCH)
    asked = known.next_stamp(0)
    known.judge("b1", (7, 2), answers=None, now=1)

    assert Judgement.NEWS is known.judge("b1", (7, 1), answers=asked, now=2)
    assert Judgement.NEWS is known.judge("b1", (7, 3), answers=None, now=3)


def test_a_second_node_of_a_name_is_refused_while_the_first_is_alive():
    """It answers as truly as the first one, from another address; however often it does, the first stays."""
    known = Acquaintances(EPOCH)
    known.judge("b1", (7, 1), place="10.0.0.1", answers=known.next_stamp(0), now=0)
    for count in range(1, 9):
        now = count * (ALIVE_NS // 2)
        second = known.judge("b1", (8, count), place="10.0.0.2", answers=known.next_stamp(now), now=now)
        assert Judgement.RIVAL is second
        assert Judgement.NEWS is known.judge("b1", (7, 1 + count), place="10.0.0.1", answers=None, now=now)


def test_a_node_that_moved_is_believed_when_its_old_address_is_silent():
    """It may have been given another address and started again."""
    known = Acquaintances(EPOCH)
    known.judge("b1", (7, 1), place="10.0.0.1", answers=known.next_stamp(0), now=0)
    early = known.judge("b1", (8, 1), place="10.0.0.2", answers=known.next_stamp(ALIVE_NS - 1), now=ALIVE_NS - 1)
    late = known.judge("b1", (8, 2), place="10.0.0.2", answers=known.next_stamp(ALIVE_NS), now=ALIVE_NS + 1)

    assert (Judgement.RIVAL, Judgement.NEWS) == (early, late)


def test_a_node_that_neighbours_hear_at_its_address_is_alive():
    """A second one of its name stays out, for as long as the first may be silent."""
    known = Acquaintances(EPOCH, lambda _name: 2 * ALIVE_NS)
    known.judge("b1", (7, 1), place="10.0.0.1", answers=known.next_stamp(0), now=0)
    known.hear_of("b1", "10.0.0.1", ALIVE_NS)
    known.hear_of("b1", "10.0.0.1", 5)
    known.hear_of("b1", "10.0.0.2", 9 * ALIVE_NS)
    instants = 3 * ALIVE_NS - 1, 3 * ALIVE_NS
    early, late = (
        known.judge("b1", (8, count), place="10.0.0.2", answers=known.next_stamp(now), now=now)
        for count, now in enumerate(instants, 1)
    )

    assert (Judgement.RIVAL, Judgement.NEWS) == (early, late)


def test_a_node_that_restarts_at_its_address_is_believed_at_once():
    """A new epoch alone is no second node."""
    known = Acquaintances(EPOCH)
    known.judge("b1", (7, 1), place="10.0.0.1", answers=known.next_stamp(0), now=0)

    assert Judgement.NEWS is known.judge("b1", (8, 1), place="10.0.0.1", answers=known.next_stamp(1), now=1)


def test_a_second_node_is_named_for_as_long_as_it_is_heard():
    """With both addresses."""
    known = Acquaintances(EPOCH)
    known.judge("b1", (7, 1), place="10.0.0.1", answers=known.next_stamp(0), now=0)
    known.judge("b1", (8, 1), place="10.0.0.2", answers=known.next_stamp(0), now=1)

    assert [("b1", "10.0.0.1", "10.0.0.2")] == list(known.rivals(ALIVE_NS))
    assert () == known.rivals(ALIVE_NS + 1)


def test_who_uses_this_nodes_name_is_told_from_what_it_said_itself():
    """Its own hellos may be replayed to it; none of them has a later epoch."""
    known = Acquaintances(EPOCH)
    known.hear_own_name("a1", EPOCH, place="10.0.0.1", now=0)
    known.hear_own_name("a1", EPOCH - 1, place="10.0.0.1", now=0)
    assert () == known.rivals(0)

    known.hear_own_name("a1", EPOCH + 1, place="10.0.0.2", now=0)
    assert [("a1", "", "10.0.0.2")] == list(known.rivals(0))


def test_under_another_epoch_this_process_begins_anew():
    """What answers the one before proves nothing."""
    known = Acquaintances(EPOCH)
    asked = known.next_stamp(0)
    known.renew(EPOCH + 5)

    assert Judgement.UNPROVEN is known.judge("b1", (7, 1), answers=asked, now=1)
    assert (EPOCH + 5, 1) == known.next_stamp(1)


def test_memory_is_bounded():
    """Neither unanswered hellos nor made-up names fill it."""
    known = Acquaintances(EPOCH)
    first = known.next_stamp(0)
    for _ in range(MAX_OPEN):
        known.next_stamp(0)
    assert Judgement.UNPROVEN is known.judge("b1", (7, 1), answers=first, now=1)

    for number in range(MAX_KNOWN):
        known.judge(f"n{number}", (7, 1), answers=known.next_stamp(1), now=1)
    assert Judgement.TOO_MANY is known.judge("last", (7, 1), answers=known.next_stamp(1), now=1)

    for epoch in range(2 * MAX_KNOWN):
        known.judge("n0", (1000 + epoch, 1), answers=None, now=1)
    assert MAX_KNOWN == len(known._unproven)

    known.retain({"n0", "n1"})
    assert ["n0", "n1"] == [sender for sender, _, _ in known.proven()]
    assert Judgement.NEWS is known.judge("last", (7, 2), answers=known.next_stamp(1), now=1)
