"""Which foreign rules answer in place of ours, and where ours have to stand for that."""

from ipaddress import IPv4Network

import pytest

from meshwatchd.core.routes.placement import first_shadow, place, remember
from meshwatchd.model.rule_window import ForeignRule, Prefix, RuleWindow

USUAL = RuleWindow(first=5400)


def prefix(text):
    """As the core has it."""
    network = IPv4Network(text)
    return Prefix(int(network.network_address), network.prefixlen)


WANTED = [prefix("10.244.5.0/24"), prefix("10.2.0.12/32")]


def rule(priority=100, table=100, **more):
    """Somebody's."""
    return ForeignRule(priority=priority, text=f"rule {priority}", table=table, **more)


@pytest.mark.parametrize(
    ("foreign", "routes", "is_shadow"),
    [
        (rule(), {"10.244.0.0/16": True}, True),
        (rule(), {"10.244.5.128/25": True}, True),
        (rule(), {"10.2.0.12/32": True}, True),
        (rule(), {"10.244.4.0/24": True, "10.2.0.0/29": True}, False),
        (rule(), {"0.0.0.0/0": True}, True),
        (rule(suppressed=0), {"0.0.0.0/0": True}, False),
        (rule(suppressed=0), {"0.0.0.0/0": True, "10.244.5.0/24": True}, True),
        (rule(), {"10.244.0.0/16": True, "10.244.5.0/24": False, "10.2.0.0/16": False}, False),
        (rule(), {"10.244.0.0/16": False, "10.244.5.7/32": True}, True),
        (rule(to=prefix("10.99.0.0/16")), {"0.0.0.0/0": True}, False),
        (rule(to=prefix("10.244.5.9/32")), {"0.0.0.0/0": True}, True),
        (rule(to=prefix("10.244.0.0/16")), {"10.244.5.0/24": True}, True),
        (rule(table=None), {}, True),
        (rule(table=None, to=prefix("10.99.0.0/16")), {}, False),
    ],
)
def test_a_rule_matters_if_its_table_answers_for_what_a_failover_moves(foreign, routes, is_shadow):
    """Longest prefix first, and a throw is no answer."""
    table = {prefix(text): ends for text, ends in routes.items()}

    assert (foreign if is_shadow else None) == first_shadow([foreign], WANTED, lambda _table: table)


def test_the_first_that_matters_decides():
    """Those before it lead nowhere."""
    tables = {100: {}, 150: {WANTED[0]: True}, 200: {WANTED[0]: True}}
    foreign = [rule(100, 100), rule(150, 150), rule(160, 200)]

    assert foreign[1] == first_shadow(foreign, WANTED, tables.__getitem__)


@pytest.mark.parametrize(
    ("taken", "shadow", "first"),
    [
        ((), None, 5400),
        ((9, 10, 100), None, 5400),
        ((5270,), 5270, 5266),
        ((100, 150), 150, 146),
        ((100, 150), 100, 96),
        ((9, 10, 98, 99, 100), 99, 94),
        ((100, 105, 110), 105, 101),
        ((6000,), 6000, 5400),
        ((5480,), 5480, 5406),
    ],
)
def test_the_window_is_as_late_as_possible_before_the_rule_that_answers(taken, shadow, first):
    """And holds nobody else's rule."""
    window = place(taken, None if shadow is None else rule(shadow), candidates=[USUAL])

    assert RuleWindow(first=first, is_narrow=first != USUAL.first) == window


def test_a_window_in_use_stays_while_it_will_do():
    """One move, not one for each rule that comes and goes."""
    low = RuleWindow(first=96, is_narrow=True)

    assert low == place((), None, candidates=[low, USUAL])
    assert low == place((150,), rule(150), candidates=[low, USUAL])
    assert RuleWindow(first=92, is_narrow=True) == place((96,), rule(96), candidates=[low, USUAL])
    assert USUAL == place((97, 32000), rule(32000), candidates=[low, USUAL])


def test_where_there_is_no_room_that_is_said_with_the_remedy():
    """Priority 4 leaves three before it."""
    answer = place((4,), rule(4), candidates=[USUAL])

    assert isinstance(answer, str)
    assert "rule 4 is asked before any rule of ours could be" in answer
    assert "give it a priority above 4" in answer


@pytest.mark.parametrize("offset", [-1, 0, 3])
def test_no_priority_belongs_to_two_windows(offset):
    """wg-quick has the kernel choose priorities for two rules, each before the first of ours as they stand by then."""
    known = [USUAL]
    for _ in range(8):
        shadow = rule(known[0].first + offset)
        window = place((shadow.priority,), shadow, candidates=known)
        assert isinstance(window, RuleWindow)
        known.insert(0, window)

    assert sum(len(window.used) for window in known) == len(frozenset().union(*(window.used for window in known)))


def test_a_window_that_the_kernel_has_put_a_rule_before_moves_clear_of_it():
    """Right before it are four priorities, the first of which is that of the configured window's delivery."""
    first = RuleWindow(first=5405, is_narrow=True)

    assert first == place((5409,), rule(5409), candidates=[USUAL])
    assert RuleWindow(first=5396, is_narrow=True) == place((5404, 5409), rule(5404), candidates=[first, USUAL])


def test_nothing_new_has_a_priority_where_rules_of_ours_have_stood():
    """Rules of another base may still be there; they are no place to go back to."""
    former = RuleWindow(first=5300)
    window = place((5384,), rule(5384), candidates=[USUAL], former=[former])

    assert RuleWindow(first=5306, is_narrow=True) == window, "one to nine are free in each window"


NARROW_ONE = RuleWindow(first=146, is_narrow=True)


@pytest.mark.parametrize(
    ("recorded", "base", "windows", "unclear"),
    [
        ((), 5400, (5400,), ()),
        ((USUAL,), 5400, (5400,), ()),
        ((USUAL,), 6000, (6000, 5400), ()),
        ((RuleWindow(first=6000), USUAL), 5400, (5400, 6000), ()),
        ((NARROW_ONE, USUAL), 5400, (146, 5400), ()),
        ((NARROW_ONE, USUAL), 6000, (6000, 146, 5400), ()),
        ((USUAL,), 5450, (5450,), (5400,)),
        ((NARROW_ONE, USUAL), 120, (120, 5400), (146,)),
        ((USUAL,), 5481, (5481, 5400), ()),
    ],
)
def test_what_was_recorded_is_remembered_beside_the_configured_window(recorded, base, windows, unclear):
    """That one is used, unless rules of others made an earlier process leave it."""
    found = remember(recorded, RuleWindow(first=base))

    assert windows == tuple(each.first for each in found.windows)
    assert unclear == tuple(each.first for each in found.unclear)
