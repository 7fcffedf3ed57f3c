"""Rules of others."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.doctor.policy_rules import check_rules, judge_rules
from meshwatchd.adapters.netlink.rule_text import RuleText, dump_rules
from meshwatchd.model.settings import Settings


def _rule(priority, protocol):
    return RuleText(priority=priority, table=52, protocol=protocol, text=f"{priority}: from all lookup 52", body=b"")


@pytest.mark.parametrize(
    ("rules", "states"),
    [
        ([_rule(0, 2), _rule(5410, 117), _rule(32766, 2)], ["ok"]),
        ([_rule(5210, 0)], ["note", "ok"]),
        ([_rule(5450, 0)], ["error"]),
    ],
)
def test_rules_of_others_among_ours_are_errors_and_before_ours_are_told(rules, states):
    """Tailscale's are at 5210: what they take, ours never see."""
    checks = list(judge_rules(Settings(), rules))
    assert states == [check.state for check in checks]
    if "error" in states:
        assert checks[0].remedy.startswith("ip rule del pref 5450")


def test_the_kernels_own_rules_are_read():
    """Local comes first, main is there; nothing needs root."""
    rules = dump_rules()
    assert (0, 255, "0: from all lookup local") == (rules[0].priority, rules[0].table, rules[0].text)
    assert "rules" == next(check_rules(Settings())).area
