"""Everything that watches the network from outside while a fault is on: traffic, and ping for comparison.

with Observation(lab, directory) as seen:
    seen.wait_flowing()
    seen.inject(fault)
    ...
    seen.heal(fault)
report = seen.report()
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from netnslab.faults import Fault
from netnslab.lab import Lab
from netnslab.ping import Ping, PingOpinion
from netnslab.timeline import success_strip
from netnslab.traffic_records import Flow, FlowKind
from netnslab.traffic_report import (
    Outage,
    SourceHealth,
    StreamReport,
    count_lost,
    injection_instant,
    judge_source,
    judge_stream,
    longest_gap_ns,
    measure_outage,
)
from netnslab.traffic_source import Traffic

# Parts of the strip that shows how new flows fared; fits a terminal of 80 columns with its label.
STRIP_BUCKETS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was seen from outside. Instants are CLOCK_MONOTONIC.

    Attributes:
        injected_ns: when the fault began (traffic_report.injection_instant).
        both: the outage of UDP and TCP flows of all directions together; the two kinds alone follow.
        lost_afterwards: flows lost after service was restored, to the end of the observation.
        longest_gap_ns: longest time between two successful new flows while the fault was on.
        strips: share of successful flows over time, by kind, from began_ns to ended_ns.
        streams, sources: the long-lived connection and the source's punctuality, by direction.
    """

    began_ns: int
    injected_ns: int
    healed_ns: int
    ended_ns: int
    both: Outage
    udp: Outage
    tcp: Outage
    lost_afterwards: int
    lost_share_during: float
    longest_gap_ns: int
    strips: Mapping[str, Sequence[float | None]]
    streams: Mapping[str, StreamReport]
    sources: Mapping[str, SourceHealth]
    pings: Sequence[PingOpinion]


class Observation:
    """Traffic both ways between two pods, and pings to the remote leader and through it.

    Args:
        directory: for records and output.
        asking: a pod far from its leader.
        answering: one in the other location.
        rate: new flows a second in each direction.
    """

    def __init__(
        self, lab: Lab, directory: Path, *, asking: str = "a3", answering: str = "b3", rate: int = 200
    ) -> None:
        leader = lab.topology.location_of(answering).leader
        self._traffic = Traffic(lab, directory, pairs=[(asking, answering), (answering, asking)], rate=rate)
        self._pings = [
            Ping(
                lab.pod(asking),
                lab.pod(target).ip,
                label=f"{asking} -> {target}",
                path=directory / f"ping-{asking}-{target}.txt",
            )
            for target in (leader, answering)
        ]
        self._pairs = [(asking, answering), (answering, asking)]
        self._exits = ExitStack()
        self._began_ns = self._ended_ns = self._healed_ns = 0
        self._command_ns = (0, 0)

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            for ping in self._pings:
                exits.enter_context(ping)
            exits.enter_context(self._traffic)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ended_ns = self._ended_ns or time.monotonic_ns()
        self._exits.close()

    def wait_flowing(self) -> None:
        """Wait until everything that watches is answered; the observation counts from here."""
        self._traffic.wait_flowing()
        for ping in self._pings:
            ping.wait_answered()
        self._began_ns = time.monotonic_ns()

    @property
    def began_ns(self) -> int:
        """When everything that watches was answered."""
        return self._began_ns

    def inject(self, fault: Fault) -> int:
        """Inject a fault; returns when that was done."""
        before_ns = time.monotonic_ns()
        self._command_ns = (before_ns, fault.inject())
        return self._command_ns[1]

    def heal(self, fault: Fault) -> None:
        """Heal the fault."""
        self._healed_ns = fault.heal()

    def is_restored(self) -> bool:
        """Whether flows were lost after the injection and have all succeeded for a second since."""
        flows = self._traffic.settled_flows(since_ns=self._command_ns[0])
        outage = measure_outage(flows, self._injected_ns(flows))
        return outage.first_lost_ns is not None and outage.restored_ns is not None

    def end(self) -> None:
        """Look no further: what is lost after this does not count."""
        self._ended_ns = time.monotonic_ns()

    def report(self) -> Report:
        """All that was seen; after the context has been left."""
        flows = self._traffic.flows()
        injected_ns = self._injected_ns(flows)
        healed_ns, ended_ns = self._healed_ns, self._ended_ns
        of_kind = {kind: [flow for flow in flows if flow.kind is kind] for kind in FlowKind}
        outages = {kind: measure_outage(some, injected_ns, until_ns=healed_ns) for kind, some in of_kind.items()}
        both = measure_outage(flows, injected_ns, until_ns=healed_ns)
        records = {
            f"{asking} -> {answering}": self._traffic.records(asking, answering) for asking, answering in self._pairs
        }
        return Report(
            began_ns=self._began_ns,
            injected_ns=injected_ns,
            healed_ns=healed_ns,
            ended_ns=ended_ns,
            both=both,
            udp=outages[FlowKind.UDP],
            tcp=outages[FlowKind.TCP],
            lost_afterwards=count_lost(flows, since_ns=both.restored_ns or healed_ns, until_ns=ended_ns),
            lost_share_during=_lost_share(flows, injected_ns, healed_ns),
            longest_gap_ns=longest_gap_ns(flows, since_ns=injected_ns, until_ns=healed_ns),
            strips={
                kind: success_strip(some, since_ns=self._began_ns, until_ns=ended_ns, buckets=STRIP_BUCKETS)
                for kind, some in of_kind.items()
            },
            streams={pair: judge_stream(some) for pair, some in records.items()},
            sources={pair: judge_source(some.punctuality) for pair, some in records.items()},
            pings=[ping.opinion() for ping in self._pings],
        )

    def _injected_ns(self, flows: Sequence[Flow]) -> int:
        before_ns, after_ns = self._command_ns
        return injection_instant(flows, before_ns=before_ns, after_ns=after_ns)


def _lost_share(flows: Sequence[Flow], since_ns: int, until_ns: int) -> float:
    during = [flow for flow in flows if since_ns <= flow.start_ns < until_ns]
    return sum(not flow.is_ok for flow in during) / len(during) if during else 0.0
