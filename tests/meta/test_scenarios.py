"""The table of scenarios is complete, and what it names is there."""

from __future__ import annotations

import ast

import pytest

from tests.meta.tree import ROOT
from tests.scenarios.table import SCENARIOS, Scenario


def test_no_scenario_is_missing_silently():
    """One to seventy-five, each with a test or a reason."""
    assert list(range(1, 76)) == [scenario.number for scenario in SCENARIOS]
    assert [] == [scenario.number for scenario in SCENARIOS if not (scenario.tests or scenario.open)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: str(scenario.number))
def test_the_tests_of_a_scenario_exist(scenario: Scenario):
    """A file, and in it the function."""
    for place in scenario.tests:
        path, _, name = place.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not name or name in names, place
