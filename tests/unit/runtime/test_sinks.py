"""Facts become events: none without a name, all flat, each logged at its level."""

from __future__ import annotations

import time
from typing import get_args

import msgspec
import pytest

from meshwatchd.adapters.storage.event_store import EventStore
from meshwatchd.model.failover_facts import FailoverApplied
from meshwatchd.model.faults import Direction, FaultCode, Severity, Verdict
from meshwatchd.model.frames import FactFrame
from meshwatchd.model.ids import FlowClass, Layer, LocationName, NodeName, SessionId
from meshwatchd.model.outputs import Fact, SessionChanged, TopologyRejected, VerdictChanged
from meshwatchd.model.process_facts import ClockStalled
from meshwatchd.model.settings import DaemonSettings, MeshSettings, Settings
from meshwatchd.model.topology import Location, Node
from meshwatchd.runtime.sinks import _LEVELS, EVENTS, Sinks, classify, flatten


def _node(name: str, location: str) -> Node:
    return Node(
        name=NodeName(name),
        location=LocationName(location),
        node_ip="10.2.0.1",
        pod_cidr="10.1.0.0/24",
        overlay_ip="10.1.0.0",
    )


def _location(name: str, leader: str) -> Location:
    return Location(name=LocationName(name), leader=NodeName(leader))


SETTINGS = Settings(
    daemon=DaemonSettings(node="b3"),
    mesh=MeshSettings(
        location=(_location("onprem", "a1"), _location("cloud", "b1"), _location("edge", "c1")),
        node=(_node("b3", "cloud"),),
    ),
)


class Recording:
    """A logger that remembers."""

    def __init__(self):
        self.lines = []

    def __getattr__(self, level):
        """Each level is a method."""
        return lambda event, **fields: self.lines.append((level, event, fields))


@pytest.fixture
def log():
    """What was logged."""
    return Recording()


@pytest.fixture
def sinks(log):
    """Sinks that keep events in memory only."""
    return Sinks(SETTINGS, EventStore(), log)


def applied(to_rank: int, pair: int = 0) -> FailoverApplied:
    """A switch."""
    return FailoverApplied(
        pair=pair,
        from_rank=1 - min(to_rank, 1),
        to_rank=to_rank,
        generation=3,
        relays=(NodeName("b2"), NodeName("a1")),
        operations=("ip rule add pref 5460",),
        because=("fresh flows die",),
    )


def verdict(fault: FaultCode, severity: Severity) -> VerdictChanged:
    """A change of verdict."""
    return VerdictChanged(
        verdict=Verdict(
            fault=fault,
            layer=Layer.OVERLAY,
            severity=severity,
            pair=0,
            culprit="b1",
            direction=Direction.BOTH,
            because=("one", "two"),
            log_likelihood=12.5,
        ),
        previous="none",
    )


def test_every_fact_has_an_event():
    """A fact without a name would be lost; a name without a fact is dead."""
    named = [name for names in _LEVELS.values() for name in names.split()]

    assert set(get_args(Fact)) == set(EVENTS)
    assert sorted(named) == sorted(kind.name for kind in EVENTS.values())


def test_event_names_are_noun_and_participle():
    """`noun.past_participle`, lower case, no two alike."""
    names = [kind.name for kind in EVENTS.values()]
    assert len(names) == len(set(names))
    assert all(name.count(".") == 1 and name == name.lower() for name in names if name != "daemon.ready")


@pytest.mark.parametrize(
    ("to_rank", "name"), [(1, "failover.applied"), (3, "failover.applied"), (0, "failback.applied")]
)
def test_a_switch_to_the_meshs_own_path_is_a_failback(to_rank, name):
    """One class of fact, two events."""
    assert name == classify(applied(to_rank)).name


@pytest.mark.parametrize(
    ("fault", "severity", "level"),
    [
        (FaultCode.NONE, Severity.OK, "info"),
        (FaultCode.STANDBY_DOWN, Severity.WARNING, "warning"),
        (FaultCode.OVERLAY_NEW_FLOWS, Severity.CRITICAL, "warning"),
        (FaultCode.ALL_PATHS_DOWN, Severity.CRITICAL, "error"),
    ],
)
def test_a_verdict_is_as_loud_as_its_fault(fault, severity, level):
    """What a standby can bridge breaks no promise; having no way left does."""
    assert level == classify(verdict(fault, severity)).level


def test_a_verdict_is_flattened_with_its_layer_by_name():
    """An operator greps for fault=, not for a nested object."""
    assert {
        "fault": "overlay-new-flows",
        "layer": "overlay",
        "severity": "critical",
        "pair": 0,
        "culprit": "b1",
        "direction": "both",
        "because": ["one", "two"],
        "log_likelihood": 12.5,
        "told_by": "",
        "previous": "none",
    } == flatten(verdict(FaultCode.OVERLAY_NEW_FLOWS, Severity.CRITICAL))


def test_an_event_says_where_when_and_what(sinks):
    """The line that programs read."""
    at_ns = time.monotonic_ns()
    line = sinks.consume(FactFrame(at_ns=at_ns, fact=applied(1)))
    assert ("b3", "failover.applied", "FailoverApplied", at_ns) == tuple(
        line[key] for key in ("node", "event", "fact", "at_ns")
    )
    assert (1, ["b2", "a1"], "edge") == (line["to_rank"], line["relays"], line["location"])
    assert [line] == sinks.events.read()
    msgspec.json.encode(line)


def test_an_event_tells_the_wall_time_of_the_fact(sinks):
    """Not that of the writing: the link between the processes may have been slow."""
    hour_ns = 3_600_000_000_000
    now = time.strftime("%Y-%m-%dT%H", time.gmtime((time.time_ns() - hour_ns) // 1_000_000_000))
    line = sinks.consume(FactFrame(at_ns=time.monotonic_ns() - hour_ns, fact=ClockStalled(late_ns=5)))
    assert line["time"].startswith(now)
    assert line["time"].endswith("Z")


@pytest.mark.parametrize(("pair", "location"), [(0, "edge"), (1, "onprem"), (2, None)])
def test_an_event_names_the_location_at_the_far_end(log, pair, location):
    """Pairs are numbered over the sorted names: cloud-edge, cloud-onprem, edge-onprem."""
    line = Sinks(SETTINGS, EventStore(), log).consume(FactFrame(at_ns=1, fact=applied(1, pair)))
    assert location == line.get("location")


def test_a_sessions_location_follows_from_its_path(log):
    """Path 8 is the first of pair 1; sessions of no path have no location."""

    def changed(path: int) -> SessionChanged:
        return SessionChanged(
            session=SessionId(1),
            peer=NodeName("a3"),
            layer=Layer.RELAY,
            path=path,
            flow=FlowClass.FRESH,
            state="up",
            rtt_ns=5,
        )

    sinks = Sinks(SETTINGS, EventStore(), log)
    assert "onprem" == sinks.consume(FactFrame(at_ns=1, fact=changed(8))).get("location")
    assert sinks.consume(FactFrame(at_ns=1, fact=changed(0xFFFF))).get("location") is None


def test_a_fact_is_logged_at_its_level_without_what_the_log_adds(sinks, log):
    """The logger writes event and level itself."""
    sinks.consume(FactFrame(at_ns=7, fact=applied(1)))
    ((level, event, fields),) = log.lines
    assert ("warning", "failover.applied", 7) == (level, event, fields["at_ns"])
    assert not {"event", "level", "fact", "boot"} & set(fields)


def test_no_topology_is_an_error_only_where_a_mesh_is_declared(log):
    """The untouched sample starts quietly."""
    fact = FactFrame(at_ns=1, fact=TopologyRejected(reason="no location is declared"))
    Sinks(SETTINGS, EventStore(), log).consume(fact)
    Sinks(Settings(daemon=DaemonSettings(node="b3")), EventStore(), log).consume(fact)
    assert ["error", "info"] == [level for level, _, _ in log.lines]


def test_sinks_write_into_the_state_directory(tmp_path, log):
    """events.jsonl is what remains after the processes."""
    settings = Settings(daemon=DaemonSettings(node="b3", state_dir=str(tmp_path)))
    sinks = Sinks.open(settings, log)
    sinks.consume(FactFrame(at_ns=7, fact=ClockStalled(late_ns=5)))
    sinks.events.close()
    (raw,) = (tmp_path / "events.jsonl").read_bytes().splitlines()
    assert "clock.stalled" == msgspec.json.decode(raw)["event"]


def test_events_of_an_incident_have_its_number_after_a_restart_too(tmp_path):
    """The history on disk is nothing but these events."""
    broken = Verdict(fault=FaultCode.LEADER_DEAD, layer=Layer.UNDERLAY, severity=Severity.CRITICAL, pair=0)
    well = Verdict(fault=FaultCode.NONE, layer=Layer.SELF, severity=Severity.OK, pair=0)

    def consumed(*verdicts):
        sinks = Sinks(SETTINGS, EventStore.open(tmp_path), Recording())
        lines = [
            sinks.consume(FactFrame(at_ns=time.monotonic_ns(), fact=VerdictChanged(verdict=each, previous="none")))
            for each in verdicts
        ]
        sinks.events.close()
        return [line.get("incident") for line in lines]

    assert [None, 1] == consumed(well, broken)
    assert [1, None] == consumed(well, well)


def test_the_end_of_a_pair_that_is_gone_is_of_the_location_that_it_names():
    """The agent counts pairs as in the next mesh when it comes; all other verdicts are of the pair's location."""
    sinks = Sinks(SETTINGS, EventStore(), Recording())
    remote = sinks._remotes[0]
    critical, well = (verdict(FaultCode.LEADER_DEAD, Severity.CRITICAL), verdict(FaultCode.NONE, Severity.OK))
    told = (critical, msgspec.structs.replace(well, location="far"), well)
    lines = [sinks.consume(FactFrame(at_ns=number, fact=each)) for number, each in enumerate(told)]

    assert [(remote, 1), ("far", None), (remote, 1)] == [(line["location"], line.get("incident")) for line in lines]
    sinks._remotes.clear()
    assert "location" not in sinks.consume(FactFrame(at_ns=9, fact=well)), "nobody knows it"
