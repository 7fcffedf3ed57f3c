"""Where rules of ours must stand to be asked: before the first rule of somebody else that answers in their place.

    Submariner's gateway   100, 150: lookup 100, 150 (remote pods)        window 5400 is never reached
    Calico's WireGuard     99: not fwmark M lookup T (other nodes' pods)  likewise
    NetBird                105: lookup main suppress_prefixlength 0       likewise: main has all routes but the default
    Cilium                 100: lookup local; 9, 10: by mark              5400 is as good as any

The kernel asks rules in the order of their priorities and takes the first route that any of them leads to. So a
foreign rule matters if its table has a route for what a failover moves, and if it is asked earlier. A `throw` in its
table sends the search on to the next rule, and the longest prefix of a table wins.

Source: fib_rules_lookup() in net/core/fib_rules.c, fib_table_lookup() in net/ipv4/fib_trie.c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from meshwatchd.model.rule_window import NARROW, ForeignRule, Prefix, RuleWindow

Routes = Mapping[Prefix, bool]
"""Routes of one table: whether each ends the search there; a `throw` does not."""


class Remembered(NamedTuple):
    """What a process begins with.

    Attributes:
        windows: the one in use first; behind it those where rules of ours may still stand.
        unclear: earlier ones in which a priority means something else than in the configured window.
    """

    windows: tuple[RuleWindow, ...]
    unclear: tuple[RuleWindow, ...]


def remember(recorded: Iterable[RuleWindow], configured: RuleWindow) -> Remembered:
    """The windows of an earlier process beside the configured one.

    That is used, unless rules of others have made a process with the same configuration leave it.
    """
    known = tuple(dict.fromkeys(recorded))
    clear = [each for each in known if each == configured or each.used.isdisjoint(configured.used)]
    has_moved = configured in clear and clear[0].is_narrow
    windows = tuple(clear) if has_moved else tuple(dict.fromkeys((configured, *clear)))
    return Remembered(windows, tuple(each for each in known if each not in clear))


def place(
    taken: Iterable[int],
    shadow: ForeignRule | None,
    *,
    candidates: Sequence[RuleWindow],
    former: Iterable[RuleWindow] = (),
) -> RuleWindow | str:
    """The window that the rules of this node have to be in.

    Args:
        taken: priorities of all rules of others.
        shadow: the first of them that would answer in place of ours, or None.
        candidates: windows that are kept if they do, the best first: the one in use, earlier ones, the configured one.
        former: windows of other configurations, where rules of ours may still stand; none of them is used again.

    Returns:
        the window, or why there is none, with the remedy.
    """
    if shadow is None:
        return candidates[0]
    held = set(taken)
    # What a priority means must not depend on the window: where the landing of one is the override of another, the
    # agent would take the first for the second, and neither expect nor remove it.
    ours = frozenset[int]().union(*(each.used for each in (*candidates, *former)))
    # As late as possible: what others have put first for a reason stays first.
    fresh = (RuleWindow(first=each, is_narrow=True) for each in range(shadow.priority - NARROW, 0, -1))
    apart = (each for each in fresh if ours.isdisjoint(each.used))
    for window in (*candidates, *apart):
        is_free = not window.is_narrow or held.isdisjoint(window.used)
        if window.landing < shadow.priority and is_free:
            return window
    return (
        f"{shadow.text} is asked before any rule of ours could be, and answers for the mesh's prefixes: a failover"
        f" would move nothing; give it a priority above {NARROW}, with {NARROW} free ones in a row before it"
    )


def first_shadow(
    foreign: Iterable[ForeignRule], wanted: Iterable[Prefix], routes_of: Callable[[int], Routes]
) -> ForeignRule | None:
    """The first foreign rule that answers for a prefix whose traffic a failover moves; None where none does."""
    prefixes = frozenset(wanted)
    return next((rule for rule in foreign if _answers(rule, prefixes, routes_of)), None)


def _answers(rule: ForeignRule, wanted: frozenset[Prefix], routes_of: Callable[[int], Routes]) -> bool:
    taken = wanted if rule.to is None else frozenset(_overlaps(wanted, rule.to))
    if rule.table is None or not taken:
        return bool(taken)
    routes = {each: ends for each, ends in routes_of(rule.table).items() if each.length > rule.suppressed}
    if any(ends and _is_covered(each, taken) for each, ends in routes.items()):
        return True
    return any(_longest(routes, each) for each in taken)


def _overlaps(wanted: Iterable[Prefix], to: Prefix) -> Iterator[Prefix]:
    for each in wanted:
        if each.length >= to.length and each.within(to.length) == to:
            yield each
        elif each.length < to.length and to.within(each.length) == each:
            yield to


def _is_covered(inner: Prefix, outer: frozenset[Prefix]) -> bool:
    return any(inner.within(length) in outer for length in range(inner.length + 1))


def _longest(routes: Routes, wanted: Prefix) -> bool:
    """What the longest route that covers a prefix does; False where none does."""
    lengths = range(wanted.length, -1, -1)
    return next((routes[each] for length in lengths if (each := wanted.within(length)) in routes), False)
