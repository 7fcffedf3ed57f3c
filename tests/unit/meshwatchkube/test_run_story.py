"""The whole story over a real API, by three processes with a clock of their own: promotion, way back, APIs in trouble.

The mesh is told: what its daemons would show when b1's overlay breaks, when relays pin traffic, and when Kilo, played
by the annotations, has another leader. The kernels' side of it is tests/lab/test_kube.py.
"""

from __future__ import annotations

from functools import partial

import pytest

from meshwatchkube.actions import Drain, Pin, Unpin
from meshwatchkube.api import Api, Clocks
from meshwatchkube.http import connect
from meshwatchkube.run import Loop
from meshwatchkube.settings import (
    ApiSettings,
    GatingSettings,
    LeaseSettings,
    Mode,
    PromotionSettings,
    Settings,
)
from netnslab.kilo_follower import leader_of
from netnslab.kube_api.objects import name_of, part
from netnslab.kube_api.resources import NODES
from tests.support.kube import CUT, NOW_S, PATHS, PLACES, SECOND, Log, eventually, mesh, report, served

SETTINGS = Settings(
    # Hours pass here between two bookmarks; how a picture gets old is tests/unit/meshwatchkube/test_watch.py.
    api=ApiSettings(timeout=SECOND // 4, stale_after=24 * 3600 * SECOND),
    lease=LeaseSettings(duration=30 * SECOND),
    promotion=PromotionSettings(mode=Mode.ENFORCE, promote_after=60 * SECOND, demote_after=120 * SECOND),
    gating=GatingSettings(mode=Mode.ENFORCE, taint_after=60 * SECOND, untaint_after=60 * SECOND),
)
LEADER = "kilo.squat.ai/leader"


class _World:
    """The mesh as all daemons show it, and the processes on three of its nodes."""

    def __init__(self, cluster, log):
        self.cluster, self.now_s, self.is_broken = cluster, 0, False
        self.pins: dict[str, int] = {}
        self.moves: list[str] = []
        self.loops = {name: self._process(name, log) for name in ("a2", "b2", "b3")}

    def _process(self, name, log):
        clocks = Clocks(monotonic=lambda: self.now_s * SECOND, unix=lambda: (NOW_S + self.now_s) * SECOND)
        reach = partial(connect, str(self.cluster.kubeconfig), SETTINGS.api.timeout / 1e9)
        api = Api(SETTINGS, reach, identity=name, node=name, say=log, clocks=clocks)
        return Loop(SETTINGS, _Daemon(self, name), api, say=log, clocks=clocks), api

    @property
    def leader(self):
        """Whom Kilo has lead the cloud."""
        nodes, _ = self.cluster.store.list(NODES, lambda node: PLACES[name_of(node)] == "cloud")
        return leader_of(nodes)

    def seen_by(self, name):
        """Traffic goes where it is pinned; else around a leader that is broken; else by the leaders."""
        leader = self.leader
        other = "b2" if leader == "b1" else "b1"
        paths = PATHS if leader == "b1" else ("a1-b2", "a2-b2", "a1-b1", "a2-b1", "a1-b2")
        is_hit = self.is_broken and leader == "b1"
        active = f"a1-{other}" if is_hit else paths[0]
        if self.pins:
            active = paths[next(iter(self.pins.values()))]
        return mesh(
            at=name,
            active=active,
            paths=paths,
            bad=("a1-b1", "a2-b1") if self.is_broken else (),
            leaders=("a1", leader),
            reports=[report("b1", by=by) for by in ("b2", "b3")] if is_hit else [],
            troubled=tuple(PLACES) if is_hit else (),
            pins=[("cloud" if PLACES[name] == "onprem" else "onprem")] if name in self.pins else (),
        )

    def run(self, seconds, *, until=lambda: False):
        """Let time pass in steps of the interval between two looks; returns whether the predicate came true."""
        for _ in range(0, seconds, 5):
            self.now_s += 5
            for loop, _ in self.loops.values():
                loop.turn()
            if until():
                return True
        return False

    def close(self):
        for _, api in self.loops.values():
            api.close()


class _Daemon:
    def __init__(self, world, name):
        self._world, self._name = world, name

    def look(self):
        return self._world.seen_by(self._name)

    def steer(self, action):
        match action:
            case Pin(rank=rank):
                self._world.pins[self._name] = rank
                self._world.moves.append(f"{self._name} pins {rank} while {self._world.leader} leads")
            case Unpin():
                del self._world.pins[self._name]
                self._world.moves.append(f"{self._name} unpins while {self._world.leader} leads")
            case Drain():
                raise AssertionError("nobody drains")


@pytest.fixture
def log():
    """What is logged."""
    return Log()


@pytest.fixture
def world(tmp_path, log):
    """All well; one of the processes holds the Lease and has the picture of all Nodes."""
    with served(tmp_path) as cluster:
        made = _World(cluster, log)
        eventually(lambda: made.run(5) or _is_ready(made), "a writer with a picture")
        yield made
        made.close()


def _is_ready(world):
    return any(api.look()[0].is_fresh and api.is_writer for _, api in world.loops.values())


def _knows(world, address):
    """Whether the writer has nothing but this address of any node."""
    pictures = [api.look()[0] for _, api in world.loops.values()]
    return any(each.is_writer and all({address} == node.addresses for node in each.nodes.values()) for each in pictures)


def _tainted(world):
    nodes, _ = world.cluster.store.list(NODES, lambda node: bool(part(node, "spec").get("taints")))
    return [name_of(node) for node in nodes]


def test_a_failover_lasts_and_the_way_back_too(world):
    """Relays pin before the mark is set, and let go long after; Events tell it; the taint goes in the end."""
    world.is_broken = True
    assert not world.run(55, until=lambda: world.leader != "b1")
    assert world.run(200, until=lambda: world.leader == "b2")
    assert {"b2"} == set(world.pins), "of the relays of the path in use a1 has no process here"
    assert "true" == world.cluster.annotations("b2")[LEADER]
    began_s = world.now_s
    assert world.run(200, until=lambda: not world.pins)
    assert world.now_s - began_s >= 30, "settle_wait"
    assert ["b1"] == _tainted(world)

    assert not world.run(400, until=lambda: world.leader != "b2"), "b1 is not well yet: standbys by way of it are bad"
    world.is_broken = False
    assert world.run(400, until=lambda: world.leader == "b1")
    assert world.run(200, until=lambda: not world.pins)
    assert LEADER not in world.cluster.annotations("b2")
    assert [] == _tainted(world)
    assert sorted(
        [
            "b2 pins 2 while b1 leads",
            "b2 unpins while b2 leads",
            *(f"{each} pins 1 while b2 leads" for each in ("a2", "b2")),
            *(f"{each} unpins while b1 leads" for each in ("a2", "b2")),
        ]
    ) == sorted(world.moves)
    told = [reason for reason, _ in world.cluster.events()]
    for reason in ("OverlayNewFlows", "MeshPromotion", "MeshPromoted", "MeshPromotionReturned", "MeshHealthy"):
        assert reason in told
    assert 1 == told.count("MeshPromoted")


@pytest.mark.parametrize("trouble", ["cut", "500", "slow", "another cluster"])
def test_ten_minutes_of_an_api_in_trouble_around_a_failover(world, log, trouble):
    """No promotion, no taint, no pin, one line for each process and each thing; afterwards the waits begin anew."""
    match trouble:
        case "cut":
            world.cluster.failing["*", "*"] = CUT
        case "500":
            world.cluster.failing["*", "*"] = 500
        case "slow":
            world.cluster.delay_s = 5.0
        case _:
            _move(world, "172.31.0.1")
    world.is_broken = True
    before = len(log.lines)
    world.run(600)
    assert ("b1", [], []) == (world.leader, _tainted(world), world.moves)
    said = [(event, fields.get("what")) for event, fields in log.lines[before:] if event.startswith("api.")]
    assert max(map(said.count, said), default=0) <= len(world.loops), said
    if trouble == "another cluster":
        assert 1 == log.events().count("cluster.mistaken")
    else:
        assert ("api.failed", "lease") in said

    world.cluster.failing.clear()
    world.cluster.delay_s = 0.0
    if trouble == "another cluster":
        _move(world, None)
    assert not world.run(50, until=lambda: world.leader != "b1"), "what stood meanwhile is no wait"
    eventually(lambda: world.run(5) or world.leader == "b2", "promotion on fresh knowledge")


def _move(world, address):
    """Give a3's namesake the address of another cluster's node, or the right one."""
    for name in PLACES:
        kept = str(world.cluster.annotations(name)["kilo.squat.ai/internal-ip"])

        def moved(before, name=name, kept=kept):
            metadata = part(before, "metadata")
            right = f"10.2.{ord(name[0])}.{name[1:]}"
            notes = {**part(metadata, "annotations"), "kilo.squat.ai/internal-ip": f"{address or right}/24"}
            assert kept
            return {
                **before,
                "metadata": {**metadata, "annotations": notes},
                "status": {"addresses": [{"type": "InternalIP", "address": address or right}]},
            }

        def annotated(before, moved=moved):
            return {**moved(before), "status": before["status"]}

        world.cluster.store.edit(NODES, name, "", annotated)
        world.cluster.store.edit(NODES, name, "", moved, subresource="status")
