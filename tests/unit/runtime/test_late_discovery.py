"""Discovery begins with the first key, whenever that comes."""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec
import pytest

from meshwatchd.model.settings import Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Knowledge
from meshwatchd.runtime.discovery import Discovery
from meshwatchd.runtime.late_discovery import LateDiscovery
from meshwatchd.wire.auth import MeshSecret
from tests.support.discovery_stage import Log
from tests.support.lab_mesh import settings_for

FIRST, SECOND = (MeshSecret(secret=bytes([number]) * 32) for number in (1, 2))
KNOWN = Knowledge(origin="hellos", nodes=6)


class FakeDiscovery:
    """Notes what it is asked."""

    def __init__(self, secrets):
        self.secrets = [secrets]
        self.seen = []
        self.runs = 0

    def use_secrets(self, secrets):
        """Note them."""
        self.secrets.append(secrets)

    def forget(self, node):
        """It remembers b1 alone."""
        return node == "b1"

    def observe(self, snapshot):
        """Note it."""
        self.seen.append(snapshot)

    def knowledge(self):
        """All six."""
        return KNOWN

    def unheard(self):
        """One."""
        return frozenset({"b3"})

    async def run(self):
        """Note that it runs."""
        self.runs += 1


def _late(settings):
    return LateDiscovery(settings, lambda secrets: cast("Discovery", FakeDiscovery(secrets)))


def test_it_waits_for_a_key_and_then_runs():
    """What the kernel shows is told at once: it may not change for hours."""

    async def scenario():
        late = _late(Settings())
        late.use_secrets(())
        running = asyncio.get_running_loop().create_task(late.run())
        await asyncio.sleep(0)
        assert (None, False) == (late.discovery, running.done())
        late.use_secrets((FIRST,), Snapshot())
        await running
        late.use_secrets((SECOND, FIRST), Snapshot())
        return late

    late = asyncio.run(scenario())

    assert (frozenset(), {"b3"}) == (_late(Settings()).unheard(), late.unheard())
    found = late.discovery
    assert (1, [Snapshot()], [(FIRST,), (SECOND, FIRST)]) == (found.runs, found.seen, found.secrets)
    assert KNOWN == late.knowledge()


def test_identities_are_forgotten_where_there_are_any():
    """Without a key nobody was ever heard."""
    late = _late(Settings())
    assert not late.forget("b1")

    late.use_secrets((FIRST,))
    assert (True, False) == (late.forget("b1"), late.forget("b2"))


def test_keys_that_cannot_be_read_again_change_nothing(tmp_path):
    """The engine has just read them: somebody is at work on the file."""
    late, log = _late(Settings()), Log()
    late.reload(tmp_path / "missing.toml", None, log)

    assert late.discovery is None
    assert ["hello.keys_refused"] == [event for _level, event, _fields in log.lines]


def _disabled(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, discovery=msgspec.structs.replace(settings.discovery, enabled=False))


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [(Settings(), "/etc/meshwatchd/mesh.key"), (_disabled(Settings()), "enable discovery")],
    ids=["no key", "disabled"],
)
def test_what_stands_in_the_way_is_named_with_its_remedy(settings, remedy):
    """An operator who asks for the status reads what to do."""
    late = _late(settings)
    if remedy == "enable discovery":
        late.use_secrets((FIRST,))
    knowledge = late.knowledge()

    assert ("nothing", 1) == (knowledge.origin, knowledge.nodes)
    assert remedy in knowledge.problems[0]


def test_of_a_declared_mesh_nothing_is_to_be_found_out():
    """There is nothing to say."""
    assert _late(_disabled(settings_for("a1"))).knowledge() is None
