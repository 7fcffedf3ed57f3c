"""What is made from the code is as the code would make it, and says nothing that the code does not know."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from typing import Any

import click
import msgspec
import pytest

from meshwatchd.adapters.metrics.families import render
from meshwatchd.cli.main import cli
from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import Settings
from meshwatchd.model.status import CanaryStatus
from scripts.generate.alerts import ALERTS
from scripts.generate.files import FOLDERS, generated
from scripts.generate.manual import SHELLS, VARIABLE
from tests.meta.tree import ROOT
from tests.support.example_incidents import HISTORY_LINES
from tests.support.example_status import MOVED, NOW_NS, TUNNELLED

FILES = generated()
COMMANDS = cli.list_commands(click.Context(cli))
METRIC = re.compile(r"\b(?:meshwatch|vxlan|flannel)_\w+")


@pytest.mark.parametrize("name", list(FILES))
def test_a_made_file_is_up_to_date(name):
    """`make generate` writes it."""
    assert FILES[name] == (ROOT / name).read_text(encoding="utf-8")


def test_no_made_file_has_outlived_its_reason():
    """A page that nothing makes any more is removed by `make generate`."""
    there = {path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).glob("*")}
    assert there <= set(FILES)


def _exported() -> set[str]:
    """The names of all metrics, from a node that has something of everything."""
    incidents = IncidentTracker()
    for line in HISTORY_LINES:
        incidents.take(line)
    counters = dict.fromkeys(("loop-lateness-p99-ns", "loop-busy-percent", "probes-open", "source-ports-open"), 1)
    canary = CanaryStatus(
        name="web",
        node=NodeName("a3"),
        kind="tcp",
        address="10.1.0.9",
        port=80,
        state="up",
        rtt_ns=1,
        sent=1,
        lost=0,
        last_heard_ns=1,
        depends_on="",
    )
    status = msgspec.structs.replace(MOVED, tunnels=TUNNELLED.tunnels, counters=counters, canaries=(canary,))
    text = render(status, OverlayFigures(), incidents, now_ns=NOW_NS).decode()
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def _panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads(FILES["etc/grafana/meshwatchd.json"])["panels"]
    return panels


def test_the_dashboard_asks_for_metrics_that_exist():
    """A renamed metric leaves no empty panel."""
    model = json.loads(FILES["etc/grafana/meshwatchd.json"])
    asked = [target["expr"] for panel in _panels() for target in panel["targets"]]
    asked += [variable["query"] for variable in model["templating"]["list"]]
    names = {name for expression in asked for name in METRIC.findall(expression)}

    assert len(names) > 12
    assert set() == names - _exported()


def test_panels_do_not_overlap():
    """Grafana would move them; 24 columns are a row."""
    taken: set[tuple[int, int]] = set()
    for panel in _panels():
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_alerts_ask_for_metrics_and_faults_that_exist():
    """And each has a section of its own on the page that it links to."""
    expressions = [alert.expression for alert in ALERTS]
    faults = {
        code for text in expressions for value in re.findall(r'fault!?=~?"([^"]*)"', text) for code in value.split("|")
    }

    assert set() == {name for text in expressions for name in METRIC.findall(text)} - _exported()
    assert faults <= {code.value for code in FaultCode}
    assert all(f"\n## {alert.name}\n" in FILES["docs/alerts.md"] for alert in ALERTS)


def test_every_alert_is_tested():
    """tests/promtool has a case in which it fires, and one in which it does not."""
    cases = (ROOT / "tests/promtool/rules_test.yml").read_text(encoding="utf-8")
    for alert in ALERTS:
        of_it = [
            line
            for line in re.split(r"\n      - ", cases)
            if alert.name + '"' in line or f"{alert.name}\n" in line or f"alertname: {alert.name}," in line
        ]
        silent = [case for case in of_it if "exp_alerts: []" in case or "exp_samples: []" in case]
        assert (True, True) == (bool(silent), len(of_it) > len(silent)), alert.name


@pytest.mark.parametrize("code", list(FaultCode))
def test_every_fault_has_a_section_with_symptom_proof_and_cure(code):
    """Whoever adds a fault says how it shows, and how to see it without us."""
    section = re.search(rf"^## {code}\n(.*?)(?=^## |\Z)", FILES["docs/faults.md"], re.DOTALL | re.MULTILINE)

    assert section is not None
    for label in ("Symptom", "Proof", "Cure"):
        told = re.search(rf"^\*\*{label}\.\*\* (.*)$", section[1], re.MULTILINE)
        assert told is not None
        assert len(told[1]) > 12, label
    assert f"$ meshwatchctl explain {code}\n{code}: " in section[1]


DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))
NO_SETTINGS = {"stamp.conf", "stamp.refused", "stamp.unheard"}
"""A file and an event, named as settings are."""


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_only_what_exists(path):
    """Links, commands, settings and metrics."""
    text = path.read_text(encoding="utf-8")
    broken = [link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text) if not (path.parent / link).exists()]
    commands = set(re.findall(r"meshwatchctl ([a-z]+)", text)) - set(COMMANDS)
    sample = tomllib.loads((ROOT / "etc/meshwatchd/meshwatchd.toml").read_text(encoding="utf-8"))
    settings = set(re.findall(rf"`((?:{'|'.join(sample)})\.[a-z_]+)", text))
    unknown = {name for name in settings - NO_SETTINGS if name.split(".")[1] not in _keys(name.split(".")[0])}

    assert ([], set(), set()) == (broken, commands, unknown)
    assert set() == set(re.findall(r"`(meshwatch_\w+)", text)) - _exported()


def _keys(section: str) -> set[str]:
    settings = getattr(Settings(), section)
    return set(settings.__struct_fields__)


def test_the_manual_has_every_command_and_option():
    """As --help has them, since both are read from the same definitions."""
    page = FILES["man/meshwatchctl.1"].replace("\\-", "-").replace("\\&", "")
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        section = page.partition(f"\n.SS {name}\n")[2].partition("\n.SS ")[0]
        assert section, name
        options = {option for each in command.params for option in each.opts if option.startswith("--")}
        assert {option for option in options if f"{option}" not in section} == set(), name


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("man/")])
def test_manual_pages_hold_no_accidental_request(name):
    """A line that begins with a dot or a quote is a request to roff; these are all that the pages use."""
    requests = {line.split()[0] for line in FILES[name].splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".I"}


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith("man/")])
def test_each_paragraph_of_a_manual_page_has_text(name):
    """One that ends at once has mandoc -Tlint warn; the page had one behind each description."""
    assert [] == re.findall(r"^\.PP\n\.(?:SH|SS|TP|PP)\b.*", FILES[name], re.MULTILINE)


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_a_shell_is_given_commands_and_options(shell):
    """What the completion script asks for is answered; in fish and zsh with the commands' purposes."""
    script = FILES[SHELLS[shell]]
    assert f"{VARIABLE}={shell}_complete" in script
    words = {"COMP_WORDS": "meshwatchctl exp", "COMP_CWORD": "exp" if shell == "fish" else "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from meshwatchd.cli.main import main; main()"],
        env={**os.environ, **words, VARIABLE: f"{shell}_complete"},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert "explain" in done.stdout
