"""What every test shares: the repository's root, and two options that keep a green run honest.

A suite that skips everything is green as well. `--forbid-skips` fails the run on any skip (the quick
suites have no excuse for one); `--require-passes` fails it unless something passed, and is for the lab,
where a kernel without a feature may skip a test with the reason printed, but not all of them.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from meshwatchd.model.decoding import refusals
from tests.support.stage import Stage

ROOT = Path(__file__).resolve().parent.parent
LAB_FOLDER = ROOT / "tests" / "lab"

# A busy machine is slow, which is no property of what is tested.
hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options that turn a silently empty run into a failed one."""
    group = parser.getgroup("meshwatchd")
    group.addoption("--forbid-skips", action="store_true", help="a skipped test fails the run")
    group.addoption("--require-passes", action="store_true", help="the run fails unless a test passed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything below tests/lab, so that no lab test can be run by forgetting its marker."""
    for item in items:
        if LAB_FOLDER in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure on a mesh with daemons tells what they did, for it may not happen again."""
    report = yield
    mesh = getattr(item, "funcargs", {}).get("mesh")
    if report.failed and isinstance(mesh, Stage):
        report.sections.append(("what the daemons told last", mesh.story()))
    return report


def _outcomes(session: pytest.Session, outcome: str) -> int:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    return len(reporter.stats.get(outcome, ())) if reporter else 0


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn the exit status of a run that proved nothing into a failure."""
    if exitstatus != pytest.ExitCode.OK or session.config.option.collectonly:
        return
    skipped_in_spite = session.config.option.forbid_skips and _outcomes(session, "skipped")
    proved_nothing = session.config.option.require_passes and not _outcomes(session, "passed")
    if skipped_in_spite or proved_nothing:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say why a run without a failing test failed."""
    if config.option.forbid_skips and terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("failed: tests were skipped, and --forbid-skips was given", red=True)
    if config.option.require_passes and not terminalreporter.stats.get("passed"):
        terminalreporter.write_line("failed: no test passed, and --require-passes was given", red=True)


@pytest.fixture(autouse=True)
def nothing_refused() -> None:
    """What one test has had refused is not in another one's counters."""
    refusals.counts.clear()
    refusals.report = lambda _error: None


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root folder."""
    return ROOT
