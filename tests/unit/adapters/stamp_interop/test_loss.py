"""On which way packets were lost, where the reflector's count is not one for each packet."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.stamp_interop.loss import Counted, Loss, find_loss


def _loss(*answers, sent):
    """Answers as sequence and number; they left the reflector in this order unless a time says otherwise."""
    found = find_loss([Counted(*(*answer, at)[:3]) for at, answer in enumerate(answers)], sent)
    lost = sent - len({answer[0] for answer in answers})
    assert lost == found.forward + found.reverse + found.undetermined
    return found.forward, found.reverse, found.undetermined


def test_packets_that_arrive_twice_do_not_make_forward_losses_backward():
    """Of 1 000 packets 100 are lost on the way there and 100 others arrive twice: the last number is 999 as ever."""
    arrived = [sequence for sequence in range(1000) if sequence % 10 != 5]
    counted = [sequence for sequence in arrived for _ in range(1 + (sequence % 10 == 7))]

    assert (100, 0, 0) == _loss(*((sequence, number) for number, sequence in enumerate(counted)), sent=1000)


def test_numbers_that_copies_may_have_used_are_no_losses_on_the_way_back():
    """Packet 1 arrives twice and packet 3 not at all; or the second copy's answer is lost and so is packet 3's."""
    assert (0, 0, 1) == _loss((0, 0), (1, 1), (1, 2), (2, 3), (4, 5), sent=5)
    assert (1, 0, 0) == _loss((0, 0), (1, 1), (1, 2), (2, 3), (4, 4), sent=5)


def test_copies_that_get_no_answer_are_noticed_by_numbers_without_a_lost_packet():
    """Number 1 is missing between packets 0 and 1, of which neither is lost; packet 3 may have died on either way."""
    assert (0, 0, 1) == _loss((0, 0), (1, 2), (2, 3), (4, 4), sent=5)


def test_a_count_that_begins_again_leaves_what_lies_between_undetermined():
    """Packet 1 is lost there; packets 3 to 5 before the reflector starts anew, or behind that, on either way."""
    for number in (0, 1):
        assert (1, 0, 3) == _loss((0, 0), (2, 1), (6, number), (7, number + 1), (8, number + 2), sent=9)
    assert (2, 0, 3) == _loss((0, 0), (2, 1), (6, 0), (8, 1), sent=9)
    assert (0, 1, 0) == _loss((0, 0), (1, 1), (2, 0), (4, 2), sent=5)


def test_a_last_packet_that_was_overtaken_is_no_loss():
    """Packet 3 arrives before packet 2, and nothing but packet 1 is lost: on the way there."""
    assert (1, 0, 0) == _loss((0, 0), (3, 1), (2, 2), sent=4)
    assert (1, 0, 0) == _loss((0, 0), (3, 2), (2, 1, 0), sent=4)
    assert (0, 1, 0) == _loss((0, 0), (3, 2), (2, 3), sent=4)


def test_answers_that_overtook_one_another_are_ordered_by_the_reflectors_time():
    """Arriving in the order 2, 0, 3: no count has begun again. Without a time the order of arrival is all there is."""
    assert (0, 1, 0) == _loss((2, 2, 20), (0, 0, 10), (3, 3, 30), sent=4)
    assert (0, 0, 1) == _loss((2, 2, 0), (0, 0, 0), (3, 3, 0), sent=4)


def test_the_reflectors_clock_may_be_set_back():
    """Then the order of arrival has fewer breaks than its times."""
    assert (1, 0, 0) == _loss((0, 0, 50), (1, 1, 51), (2, 2, 1), (4, 3, 2), sent=5)


def test_times_and_numbers_wrap():
    """NTP's era in 2036, and a count of 32 bits."""
    last = (1 << 32) - 1
    assert (1, 0, 0) == _loss((0, last, (1 << 64) - 1), (1, 0, 0), (3, 1, 1), sent=4)


@pytest.mark.parametrize(
    ("answers", "loss"),
    [
        ([(2, 1)], (1, 1, 1)),
        ([(2, 5)], (0, 0, 3)),
        ([(2, 5), (3, 6)], (0, 0, 2)),
        ([(0, 7), (2, 9)], (0, 1, 1)),
    ],
)
def test_losses_before_the_first_answer_count_if_the_count_begins_there(answers, loss):
    """A number that is ahead of ours has counted others before: what it says of packets 0 and 1 is unknown."""
    assert loss == _loss(*answers, sent=4)


def test_a_loss_is_a_record():
    """For JSON."""
    assert Loss(forward=0, reverse=0, undetermined=2) == find_loss([Counted(0, 0, 0)], 3)
