"""Policy rules of others where ours go, and before ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from meshwatchd.adapters.netlink import message
from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.provision import BAND
from meshwatchd.adapters.netlink.rule_text import RuleText, read_rule
from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.settings import Settings

_HEADER_BYTES: Final = 12
"""struct fib_rule_hdr."""


def dump_rules() -> tuple[RuleText, ...]:
    """All IPv4 policy rules in the kernel's order.

    Raises:
        KernelError: the kernel does not tell.
        DecodeError: what it tells is cut short.
    """

    async def dump() -> list[tuple[bytes, tuple[bytes, ...]]]:
        dumper = Dumper()
        try:
            header = bytes([2]) + bytes(_HEADER_BYTES - 1)
            return await dumper.dump(message.RTM_GETRULE, header, "rules", lambda body: (body, ()))
        finally:
            dumper.close()

    return tuple(read_rule(body) for body, _ in asyncio.run(dump()))


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
    inside = [rule for rule in listed if base <= rule.priority < base + BAND and rule.protocol != protocol]
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
        text = f"no other program uses rule priorities {base} to {base + BAND - 1}"
        yield Check(area="rules", state=CheckState.OK, text=text)
