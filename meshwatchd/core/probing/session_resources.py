"""What a session needs beside its plan, and shares with others: source ports, and the estimate of the delay."""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.core.probing.intervals import KNOWN_PART, Kind
from meshwatchd.core.session.rtt_estimator import DelayEstimator
from meshwatchd.core.session.source_ports import FreshPorts, KnownPorts, PortWalk, SourcePorts
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.port_map import known_flow_ports
from meshwatchd.model.settings import MS, ProbeSettings
from meshwatchd.model.source_ports import split_ports
from meshwatchd.model.timers import TIMERS

CANARY_WAIT_NS = 500 * MS
"""A service may take its time; its answer is no measure of the network's delay."""

Address = tuple[str, str, int]
"""Source, destination and port of a session: those that share it share one place in the walk through source ports."""


class SessionResources:
    """Gives each session of a table its ports and its estimator."""

    def __init__(self, probe: ProbeSettings, node: NodeName | str) -> None:
        regular, burst = split_ports(probe)
        self._timers = TIMERS[probe.profile]
        self._walks = PortWalk(regular, node), PortWalk(burst, node)
        self._known = known_flow_ports(probe.port)
        self._fresh: dict[Address, FreshPorts] = {}

    def retain(self, plans: Iterable[SessionPlan]) -> None:
        """Forget the places in the walk of addresses that no plan has any more."""
        used = {_address(plan) for plan in plans if plan.flow is not FlowClass.PINNED}
        self._fresh = {address: ports for address, ports in self._fresh.items() if address in used}

    def ports(self, plan: SessionPlan, kind: Kind, now: int) -> SourcePorts:
        """Sessions to one address and port share their place in the walk: else they would repeat each other's flows."""
        if plan.flow is FlowClass.PINNED:
            # Slow sessions keep to one flow: among eight, none would be asked often enough to be remembered.
            is_slow = plan.layer is not Layer.RELAY or (kind.crowd and not kind.scouts)
            turn_ns = self._timers.interval_ns * max(1, KNOWN_PART * kind.scouts)
            return KnownPorts(self._known[:1] if is_slow else self._known, turn_ns)
        address = _address(plan)
        if address not in self._fresh:
            self._fresh[address] = FreshPorts(*self._walks, now, is_apart=plan.canary is not None)
        return self._fresh[address]

    def estimator(self, plan: SessionPlan) -> DelayEstimator:
        """A new one, for a leg that none is known of."""
        if plan.canary is not None:
            return DelayEstimator(min(CANARY_WAIT_NS, plan.canary.interval))
        return DelayEstimator(self._timers.miss_ns, self._timers.calm_miss_ns)


def leg_of(plan: SessionPlan) -> tuple[int, ...]:
    """Sessions of one layer, path and family share an estimator: what delays one of them delays the others.

    Canaries have nothing in common.
    """
    return (plan.layer, plan.path, plan.is_ip6, -1 if plan.canary is None else plan.session)


def _address(plan: SessionPlan) -> Address:
    """A canary's socket would keep a port from all others, which share it: its port is its own at any source."""
    return "" if plan.canary is not None else plan.source, plan.destination, plan.port
