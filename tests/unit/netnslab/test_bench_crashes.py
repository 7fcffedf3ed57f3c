"""What the benchmark takes for traffic that flows again, how it brings back what it has killed, and its sums."""

import random
import signal
import sys
import time
import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from netnslab.bench_crashes import MARGIN_NS, STEADY_NS, Crashes, Round, are_steady, is_well, merge
from netnslab.daemons import Process
from netnslab.shutdown import Interruption
from netnslab.traffic_records import Flow, FlowKind, Outcome

MS = 1_000_000


def test_a_second_of_flows_that_worked_is_steady():
    """Flows of both kinds, 10 ms apart, for a little more than a second."""
    assert are_steady(_flows(0, STEADY_NS + MARGIN_NS))


def test_one_lost_flow_is_not_steady():
    """All but one of a second worked."""
    assert not are_steady([*_flows(0, STEADY_NS + MARGIN_NS), _flow(500 * MS, Outcome.LOST)])


def test_less_than_a_second_says_nothing():
    """Half a second of flows, and none at all: whether service is restored is not known yet."""
    assert not are_steady(_flows(0, STEADY_NS // 2))
    assert not are_steady([])


def _flows(since_ns, until_ns):
    return [_flow(at_ns, Outcome.OK) for at_ns in range(since_ns, until_ns, 10 * MS)]


def _flow(at_ns, outcome):
    return Flow(kind=FlowKind.UDP, start_ns=at_ns, outcome=outcome, source_port=20_000)


class _Daemons:
    """Daemons by name, which start when they are told to; no agent comes up."""

    def __init__(self) -> None:
        self.running = {"a1", "b1"}
        self.told: list[tuple[str, str, int]] = []

    def has_agent(self, node: str) -> bool:
        assert node in self.running
        return False

    def kill(self, node: str, process: Process) -> None:
        self.running.remove(node)
        self.told.append(("kill", node, time.monotonic_ns()))
        assert process is Process.ENGINE, "there is no agent to hit"

    def start(self, node: str) -> None:
        assert node not in self.running
        self.running.add(node)
        self.told.append(("start", node, time.monotonic_ns()))


def test_an_engine_is_started_in_time_whatever_else_is_being_killed():
    """Two nodes, eight kills within 200 ms: each engine is back after its own pause, agents or none."""
    daemons: Any = _Daemons()
    lab: Any = SimpleNamespace(topology=SimpleNamespace(nodes=("a1", "b1")))
    traffic: Any = None
    crashes = Crashes(lab, daemons, traffic, rng=random.Random(1), interruption=Interruption())
    played = Round()
    crashes._kill_some(8, "failover", 200 * MS, played)

    assert {"a1", "b1"} == daemons.running
    for kill in played.kills:
        started = min(at for what, node, at in daemons.told if (what, node) == ("start", kill.node) and at > kill.at_ns)
        assert kill.restart_s * 1_000 <= (started - kill.at_ns) / MS < kill.restart_s * 1_000 + 1_000
    assert 2 <= len(played.kills) < 8, "who is down cannot be hit"


def _run(seed, **changes):
    kill = {"node": "a1", "process": "engine", "phase": "failover", "back_ms": 900.0 + seed}
    return {
        "seeds": [seed],
        "load": [1.0],
        "settings": {},
        "machine": {},
        "streams": [{"survived": True, "stalls": 0}],
        "orphans": [],
        "rounds": [
            {"kills": [kill, {**kill, "process": "agent", "back_ms": None}], "problem": "", "longest_gap_ms": 7}
        ],
    } | changes


def test_runs_are_judged_as_one():
    """Kills are counted together; a stall, an orphan, a round without an end or a kill too few in any of them tells."""
    merged = merge([_run(1), _run(2)])
    assert (4, 2, [1, 2]) == (merged["summary"]["kills"], merged["summary"]["rounds"], merged["seeds"])
    assert {"seen": 2, "median": 902.0, "max": 902.0} == merged["summary"]["back_ms"]["engine"]
    assert is_well(merged, 4)
    assert is_well(merge([merged, _run(3)]), 6), "a sum can be added to"
    assert not is_well(merged, 5)
    stalled = [{"survived": True, "stalls": 1}]
    broken = [{"kills": [], "problem": "timed out", "longest_gap_ms": 0}]
    for spoilt in (_run(2, streams=stalled), _run(2, orphans=["b1"]), _run(2, rounds=broken)):
        assert not is_well(merge([_run(1), spoilt]), 2)


def test_an_interruption_in_a_finalizer_is_not_lost():
    """Python prints and drops what is raised in `__del__`; the program asks later."""

    class Dying:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    with warnings.catch_warnings(), Interruption() as interruption:
        warnings.simplefilter("ignore")
        interruption.check()
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        dying = Dying()
        del dying
        sys.unraisablehook = hook
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
