"""A mesh with daemons and traffic on it, as the failover tests use it.

    with stage(directory) as mesh:                     # one lab for a module: building it is the dear part
        with mesh.under(fault) as run:                 # arms; injects; heals and waits for the way home
            run.wait_restored()

Everything is read from outside: kernels with ip(8), traffic from its own records, daemons by meshwatchctl.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from netnslab import Lab, marks
from netnslab.daemons import Daemons, Event, PairView
from netnslab.faults import Fault
from netnslab.live_state import kernel_objects
from netnslab.traffic_report import count_lost, judge_stream, measure_outage
from netnslab.traffic_source import BOTH_WAYS, Traffic
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000

# Tests come home quickly, again and again: what the daemon does against flapping has tests of its own.
QUICK: Mapping[str, Mapping[str, object]] = {
    "policy": {
        "hold_down": "100ms",
        "wait_to_restore": "1s",
        "actions_per_minute": 60,
        "actions_per_day": 10_000,
        "half_life": "200ms",
    }
}
# Deadlines only end tests that have failed: all are far beyond what a loaded machine takes.
READY_S = 120
RESTORE_S = 20
VERDICT_S = 15
HOME_S = 90

# Long enough for the flows that last to be remembered by a fault that spares those: a segment's is asked so often at
# rest.
ARM_NS = 4 * SECOND


@dataclass(kw_only=True)
class Stage:
    """One lab with its daemons and its traffic.

    Attributes:
        directory: of the logs and records.
        untouched: what each kernel held before the first daemon.
    """

    lab: Lab
    daemons: Daemons
    traffic: Traffic
    directory: Path
    untouched: Mapping[str, Sequence[str]]

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes."""
        return tuple(self.lab.topology.nodes)

    def diverted(self) -> tuple[str, ...]:
        """The nodes whose kernel holds an override."""
        return marks.diverted(self.lab, self.nodes)

    def pair(self, node: str) -> PairView:
        """What a node says of the one pair of locations there is; a daemon that has just started knows none yet."""

        def pairs() -> Sequence[PairView]:
            status = self.daemons.status(node)
            return status["pairs"] if status else ()

        return wait_until(pairs, timeout_s=READY_S, what=f"a status of {node}")[0]

    def ranks(self) -> dict[str, int]:
        """The path each node says it uses."""
        return {node: self.pair(node)["active_rank"] for node in self.nodes}

    def events(self, since_ns: int, *names: str) -> list[Event]:
        """What the daemons have told since an instant, of some names or of all."""
        for node in self.nodes:
            self.pair(node)
        told = self.daemons.events(since_ns=since_ns)
        return [event for event in told if not names or event.name in names]

    def settle(self) -> None:
        """Wait until all is well: everything judged and good, nothing diverted, traffic flowing."""
        self.daemons.wait_ready(timeout_s=READY_S)
        self.wait_home()
        self.traffic.wait_flowing()

    def wait_home(self) -> None:
        """Wait until no kernel diverts traffic and each node says so."""
        wait_until(lambda: not self.diverted(), timeout_s=HOME_S, what="traffic to return", poll_s=0.3)
        wait_until(lambda: not any(self.ranks().values()), timeout_s=HOME_S, what="rank 0 on every node", poll_s=0.5)

    def wait_switched(self, *, away_from: int = 0, deaf: Sequence[str] = ()) -> int:
        """Wait until all nodes agree on another path and the kernels hold exactly its overrides; returns its rank.

        Args:
            away_from: the rank that is left, beside Kilo's own.
            deaf: nodes that nobody can tell anything, such as a dead leader.
        """

        def agreed() -> int | None:
            ranks = {rank for node, rank in self.ranks().items() if node not in deaf}
            if len(ranks) != 1 or ranks & {0, away_from}:
                return None
            (rank,) = ranks
            return rank if self.diverted() == self.expected_overrides(rank) else None

        return wait_until(agreed, timeout_s=RESTORE_S, what="both sides and their members to switch", poll_s=0.5)

    def expected_overrides(self, rank: int) -> tuple[str, ...]:
        """The nodes that must divert traffic for a path: all but a leader that it goes around."""
        relays = self.relays(rank)
        return tuple(
            node
            for node in self.nodes
            for leader in (self.lab.topology.location_of(node).leader,)
            if node != leader or leader in relays
        )

    def wait_ranks(self, rank: int) -> None:
        """Wait until every node says that it uses this path."""
        wait_until(
            lambda: {rank} == set(self.ranks().values()),
            timeout_s=READY_S,
            what=f"rank {rank} on every node",
            poll_s=0.3,
        )

    def adopted(self, since_ns: int) -> list[Event]:
        """The overrides that daemons have found at their start."""
        return self.events(since_ns, "override.adopted")

    def relays(self, rank: int) -> tuple[str, ...]:
        """The two relays of a path, that of the cloud first."""
        return tuple(self.pair("b3")["paths"][rank]["relays"])

    def wait_verdicts(self, fault: str, culprit: str, nodes: Sequence[str]) -> None:
        """Wait until each of `nodes` names the fault and the culprit."""

        def missing() -> list[str]:
            return [f"{node}: {named}" for node in nodes if (named := self.named(node)) != (fault, culprit)]

        wait_until(lambda: not missing(), timeout_s=VERDICT_S, what=f"{fault} at {culprit} by {nodes}", poll_s=0.5)

    def named(self, node: str) -> tuple[str, str]:
        """Fault and culprit of a node's verdict."""
        verdict = self.pair(node)["verdict"]
        return str(verdict["fault"]), str(verdict["culprit"])

    def wait_restored(self, since_ns: int) -> None:
        """Wait until flows that began after an instant were lost, and then all succeeded for a second."""

        def is_restored() -> bool:
            outage = measure_outage(self.traffic.settled_flows(since_ns=since_ns), since_ns)
            return outage.first_lost_ns is not None and outage.restored_ns is not None

        wait_until(is_restored, timeout_s=RESTORE_S, what="service to be restored", poll_s=0.3)

    def lost(self, since_ns: int, until_ns: int) -> int:
        """Flows that began in a period and were lost; waits until their fate is known."""

        def is_settled() -> bool:
            settled = self.traffic.settled_flows(since_ns=until_ns - SECOND)
            return bool(settled) and settled[-1].start_ns >= until_ns - SECOND // 10

        pause_until(until_ns)
        wait_until(is_settled, timeout_s=15, what="the fate of all flows")
        return count_lost(self.traffic.flows(since_ns=since_ns), since_ns=since_ns, until_ns=until_ns)

    def connections_live_on(self) -> bool:
        """Whether the long-lived connections have never broken, and are answered again."""
        records = {pair: self.traffic.records(*pair) for pair in BOTH_WAYS}
        counts = {pair: len(some.echoes) for pair, some in records.items()}

        def are_answered() -> bool:
            return all(len(self.traffic.records(*pair).echoes) > count for pair, count in counts.items())

        wait_until(are_answered, timeout_s=RESTORE_S, what="the long-lived connections to answer")
        return all(judge_stream(some).survived for some in records.values())

    def log_lines(self, level: str) -> list[Mapping[str, object]]:
        """Everything the daemons have logged at a level; standard error that is no JSON counts as an error."""
        lines = [
            _decoded(line)
            for path in sorted(self.directory.glob("daemon-*.log"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]
        return [line for line in lines if line["level"] == level]

    def story(self, lines: int = 80) -> str:
        """The last facts in the logs of all daemons but for sessions that went up or down, one a line."""
        facts = [line for level in ("info", "warning", "error") for line in self.log_lines(level) if "at_ns" in line]
        told = sorted((f for f in facts if f["event"] != "session.changed"), key=lambda fact: str(fact["time"]))
        hidden = ("level", "seq", "at_ns", "location", "pair")
        return "\n".join(
            " ".join(f"{key}={value}" for key, value in fact.items() if key not in hidden)[:300]
            for fact in told[-lines:]
        )

    @contextmanager
    def struck(self, fault: Fault) -> Iterator[Strike]:
        """Arm and inject a fault; afterwards it is healed and removed, and traffic has come home."""
        with fault.armed():
            pause_until(time.monotonic_ns() + (ARM_NS if fault.plan.has_memory else 0))
            strike = Strike(began_ns=time.monotonic_ns())
            strike.struck_ns = fault.inject()
            try:
                yield strike
            finally:
                strike.healed_ns = fault.heal()
        self.wait_home()


@dataclass(kw_only=True)
class Strike:
    """When a fault began and ended; CLOCK_MONOTONIC.

    Attributes:
        began_ns: before the command that injected it.
        struck_ns: after it.
    """

    began_ns: int
    struck_ns: int = 0
    healed_ns: int = field(default=0)


@contextmanager
def stage(
    directory: Path,
    *,
    settings: Mapping[str, Mapping[str, object]] = QUICK,
    rate: int = 100,
    config: str = "full",
    topology: str = "kilo-flannel",
    releases: Mapping[str, Path] | None = None,
) -> Iterator[Stage]:
    """A lab with a daemon on every node and traffic both ways, all well."""
    with Lab.up(topology) as lab:
        untouched = {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}
        watching = Daemons(lab, directory, settings=settings, config=config, releases=releases)
        with watching as daemons, Traffic(lab, directory, rate=rate) as traffic:
            mesh = Stage(lab=lab, daemons=daemons, traffic=traffic, directory=directory, untouched=untouched)
            mesh.settle()
            yield mesh


def _decoded(line: str) -> Mapping[str, object]:
    try:
        decoded: Mapping[str, object] = json.loads(line)
    except ValueError:
        return {"level": "error", "event": line}
    return {"level": "", **decoded}
