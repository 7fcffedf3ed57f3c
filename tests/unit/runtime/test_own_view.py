"""A node's view of itself as time goes on."""

from __future__ import annotations

import asyncio
import importlib

from meshwatchd.adapters.sources import SourceReader
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import DaemonSettings, MeshSettings, Settings
from meshwatchd.profiles.compose import LOOKS
from meshwatchd.profiles.steady import HOLD_NS
from meshwatchd.runtime.own_view import OwnView
from tests.support.local_server import serving
from tests.support.node_states import kilo_flannel
from tests.unit.adapters.sources.test_reader import Clock, kilo, places_in


def test_names_come_with_kilos_agent_and_stay_without_it(tmp_path):
    """Each change is told once, and so is each rejection."""
    clock = Clock()

    async def run():
        answers = kilo()
        async with serving(answers) as address:
            own = OwnView(
                MeshSettings(),
                NodeName("a1"),
                reader=SourceReader(places_in(tmp_path, address), clock=clock),
                looks=LOOKS,
                clock=clock,
            )
            told = [own.look(kilo_flannel("a1")).location]
            outcomes = [await own.refresh(), await own.refresh(is_urgent=True)]
            answers.answer = b"nonsense"
            outcomes += [await own.refresh(is_urgent=True), await own.refresh(is_urgent=True)]
            return [*told, own.look(kilo_flannel("a1")).location], outcomes

    told, outcomes = asyncio.run(run())

    assert ["", "onprem"] == told
    assert [True, False, True, False] == [has_changed for has_changed, _ in outcomes]
    assert [[], [], ["kilo graph", "kilo metrics"], []] == [[each.source for each in new] for _, new in outcomes]


def test_a_new_role_is_held_back(tmp_path):
    """a1 as seen by its kernel while a2's state is what it was: leadership moved, or Kilo restarts."""
    clock = Clock()
    own = OwnView(
        MeshSettings(), NodeName("a2"), reader=SourceReader(places_in(tmp_path), clock=clock), looks=LOOKS, clock=clock
    )

    assert not own.look(kilo_flannel("a2")).is_leader
    assert own.deadline() is None
    assert not own.look(kilo_flannel("a1")).is_leader
    clock.now = own.deadline() or 0
    assert clock.now == HOLD_NS
    assert own.look(kilo_flannel("a1")).is_leader


COUNTING = """ASKED = []


def __getattr__(name):
    ASKED.append(name)
    raise AttributeError(name)
"""


def test_installed_packages_are_asked_once(tmp_path, monkeypatch):
    """What one offers may be slow to load; and what cannot be used is said once."""
    (tmp_path / "counting_kind.py").write_text(COUNTING, encoding="ascii")
    offered = tmp_path / "counting_kind-1.0.dist-info"
    offered.mkdir()
    (offered / "METADATA").write_text("Metadata-Version: 2.1\nName: counting-kind\nVersion: 1.0\n", encoding="ascii")
    entry = "[meshwatchd.profiles]\ncounting = counting_kind:LOOK\n"
    (offered / "entry_points.txt").write_text(entry, encoding="ascii")
    monkeypatch.syspath_prepend(str(tmp_path))
    refused = []

    own = OwnView.open(Settings(daemon=DaemonSettings(node="a1")), lambda **fields: refused.append(fields))

    (told,) = refused
    assert told["source"].startswith("profile counting (counting_kind:LOOK of counting-kind 1.0 in ")
    assert told["source"] in [each.source for each in own.look(kilo_flannel("a1")).why]
    assert 1 == importlib.import_module("counting_kind").ASKED.count("LOOK")
