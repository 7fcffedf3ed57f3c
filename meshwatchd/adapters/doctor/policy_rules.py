"""Policy rules of others where ours go, and before ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.adapters.netlink.rule_text import RuleText, dump_rules
from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.rule_window import WIDE
from meshwatchd.model.settings import Settings


def check_rules(settings: Settings) -> Iterator[Check]:
    """As the kernel has them; a note where it does not tell."""
    try:
        rules = dump_rules()
    except (MeshwatchError, OSError) as error:
        yield Check(area="rules", state=CheckState.NOTE, text=f"policy rules cannot be read: {error}")
        return
    yield from judge_rules(settings, rules)


def judge_rules(settings: Settings, rules: Iterable[RuleText]) -> Iterator[Check]:
    """Rules of others among our priorities are errors; those before ours decide first, which is a note."""
    base, protocol = settings.kernel.priority_base, settings.kernel.protocol
    listed = list(rules)
    inside = [rule for rule in listed if base <= rule.priority < base + WIDE and rule.protocol != protocol]
    for rule in inside:
        yield Check(
            area="rules",
            state=CheckState.ERROR,
            text=f"a rule of another program is among ours: {rule.text}",
            remedy=f"ip rule del pref {rule.priority}, or set kernel.priority_base to 100 numbers that are free",
        )
    before = [rule for rule in listed if 0 < rule.priority < base and rule.protocol != protocol]
    for rule in before:
        yield Check(
            area="rules",
            state=CheckState.NOTE,
            text=f"a rule of another program decides before ours: {rule.text}",
        )
    if not inside:
        text = f"no other program uses rule priorities {base} to {base + WIDE - 1}"
        yield Check(area="rules", state=CheckState.OK, text=text)
