"""What becomes of a fact: one event line, logged and kept.

The core states facts and knows nothing of logs. Here each class of fact has its event name and its level, and its
fields become one flat line: the same line goes to the log, to events.jsonl and to `meshwatchctl events`.

    debug    follows the code, or comes with single probes
    info     a change of state that an operator would plot
    warning  works, but look in office hours
    error    a promise is broken now
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, get_args

import msgspec

from meshwatchd.adapters.storage.event_store import EventLine, EventStore
from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model.failover_facts import FailoverApplied
from meshwatchd.model.faults import FaultCode, Severity, Verdict
from meshwatchd.model.frames import FactFrame
from meshwatchd.model.ids import Layer, LocationName
from meshwatchd.model.mtu import SizeMeasured
from meshwatchd.model.outputs import Fact, TopologyRejected, TunnelFact, VerdictChanged
from meshwatchd.model.policy_state import Order
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.topology import RANKS_PER_PAIR, pair_number


class EventKind(NamedTuple):
    """How a class of fact is called and how loud it is."""

    name: str
    level: str


_LEVELS: Mapping[str, str] = MappingProxyType(
    {
        "debug": "session.suspected suspicion.cleared",
        "info": "daemon.started topology.changed mesh.unsettled override.retired daemon.ready session.changed"
        " failover.proposed proposal.answered failover.verified override.adopted detour.left path.bisected order.given"
        " order.ended engine.relieved probes.freed config.reloaded fault.cleared repair.started"
        " wireguard.endpoint_moved wireguard.handshake_renewed wireguard.peers_changed",
        "warning": "verdict.changed failover.applied detour.taken failover.doubted failover.held failover.advised"
        " generation.refused generation.accepted path.suppressed object.reasserted clock.stalled"
        " engine.overloaded probes.held agent.restarted key.mismatched stamp.refused fault.raised"
        " repair.advised repair.verified repair.held wireguard.allowed_ips_moved wireguard.handshake_stale"
        " wireguard.key_changed mtu.measured",
        "error": "topology.rejected failover.rolled_back plan.refused collision.found config.refused repair.undone",
    }
)
"""Every event at its level."""


def _events() -> dict[type[object], EventKind]:
    levels = {name: level for level, names in _LEVELS.items() for name in names.split()}
    return {fact: EventKind(name := _name_of(fact), levels[name]) for fact in get_args(Fact)}


def _name_of(fact: type[object]) -> str:
    """As `failover.rolled_back` of FailoverRolledBack; those of WireGuard devices have that word in front."""
    words = re.findall("[A-Z][a-z]+", fact.__name__.removeprefix("Tunnel"))
    if fact in get_args(TunnelFact):
        words.insert(0, "wireguard")
    return "mtu.measured" if fact is SizeMeasured else f"{words[0]}.{'_'.join(words[1:])}".lower()


EVENTS: Mapping[type[object], EventKind] = MappingProxyType(_events())
"""Every class of fact."""

FAILBACK = EventKind("failback.applied", "info")
"""A FailoverApplied whose target is the mesh's own path."""


class Warns(Protocol):
    """The part of a structlog logger that most need."""

    def warning(self, event: str, **fields: object) -> object:
        """Write a line of level warning."""


class Log(Warns, Protocol):
    """The part of it that is used in all."""

    def debug(self, event: str, **fields: object) -> object:
        """Write a line of level debug."""

    def info(self, event: str, **fields: object) -> object:
        """Write a line of level info."""

    def error(self, event: str, **fields: object) -> object:
        """Write a line of level error."""


class Sinks:
    """Where facts go in the agent process.

    Attributes:
        events: the store that `meshwatchctl events` reads.
        incidents: numbers what is wrong; goes on where an earlier agent has stopped.
    """

    def __init__(self, settings: Settings, events: EventStore, log: Log) -> None:
        self.events = events
        self.incidents = IncidentTracker()
        for line in events.history():
            self.incidents.take(line)
        self._log = log
        self._node = settings.daemon.node
        self._has_mesh = bool(settings.mesh.location)
        self._remotes = _remote_locations(settings.mesh, self._node)

    def use_mesh(self, mesh: MeshSettings) -> None:
        """Name locations as this mesh does from here on."""
        self._has_mesh = bool(mesh.location)
        self._remotes = _remote_locations(mesh, self._node)

    @classmethod
    def open(cls, settings: Settings, log: Log) -> Sinks:
        """Sinks with a store in the state directory, holding what earlier agents of this boot have kept."""
        return cls(settings, EventStore.open(Path(settings.daemon.state_dir)), log)

    def consume(self, frame: FactFrame) -> EventLine:
        """Keep a fact as an event and log it. Without a declared mesh, having no topology breaks no promise."""
        kind = classify(frame.fact)
        if isinstance(frame.fact, TopologyRejected) and not self._has_mesh:
            kind = kind._replace(level="info")
        rendered = self._render(frame, kind)
        if number := self.incidents.take({**rendered, "boot": self.events.boot}):
            rendered["incident"] = number
        line = self.events.append(rendered)
        fields = {key: value for key, value in line.items() if key not in _NOT_LOGGED}
        self._writer(kind.level)(kind.name, **fields)
        return line

    def _render(self, frame: FactFrame, kind: EventKind) -> EventLine:
        fields = flatten(frame.fact)
        pair = _pair_of(fields)
        remote = {"location": self._remotes[pair]} if pair in self._remotes else {}
        return {
            "at_ns": frame.at_ns,
            "time": _render_wall_time(frame.at_ns),
            "node": self._node,
            "event": kind.name,
            "fact": type(frame.fact).__name__,
            "level": kind.level,
            **remote,
            **fields,
        }

    def _writer(self, level: str) -> Callable[..., object]:
        writers = {"debug": self._log.debug, "info": self._log.info, "warning": self._log.warning}
        return writers.get(level, self._log.error)


_NOT_LOGGED = {"event", "level", "fact", "boot"}
"""The log has its own words for the first two; the others only help programs that read events."""


def classify(fact: Fact) -> EventKind:
    """The event name and level of a fact."""
    kind = EVENTS[type(fact)]
    if isinstance(fact, FailoverApplied) and fact.to_rank == 0:
        return FAILBACK
    if isinstance(fact, SizeMeasured) and fact.inbound_bytes >= fact.expected_bytes:
        return kind._replace(level="info")
    if isinstance(fact, VerdictChanged):
        return kind._replace(level=_verdict_level(fact.verdict))
    return kind


def flatten(fact: Fact) -> dict[str, object]:
    """The fields of a fact on one level, a verdict's among them; layers by name."""
    fields: dict[str, object] = {}
    for name in fact.__struct_fields__:
        value = getattr(fact, name)
        if isinstance(value, Verdict | Order):
            fields |= {key: _plain(getattr(value, key)) for key in value.__struct_fields__}
        else:
            fields[name] = _plain(value)
    if isinstance(fact, VerdictChanged) and not fact.location:
        # The number of the pair says it.
        del fields["location"]
    return fields


def _plain(value: object) -> object:
    """A value as JSON would bring it back, so that an event is the same before and after a restart."""
    if isinstance(value, Layer):
        return value.name.lower()
    return [_plain(item) for item in value] if isinstance(value, tuple) else msgspec.to_builtins(value)


def _verdict_level(verdict: Verdict) -> str:
    """A fault that a standby can bridge is a warning; with no way left the promise is broken."""
    if verdict.severity is Severity.OK:
        return "info"
    return "error" if verdict.fault is FaultCode.ALL_PATHS_DOWN else "warning"


def _remote_locations(mesh: MeshSettings, node: str) -> dict[int, str]:
    """The location at the far end of each pair that this node's location belongs to."""
    home = next((one.location for one in mesh.node if one.name == node), "")
    names = sorted(location.name for location in mesh.location)
    if home not in names:
        return {}
    own = names.index(LocationName(home))
    others = ((place, name) for place, name in enumerate(names) if place != own)
    return {pair_number(min(own, place), max(own, place), len(names)): str(name) for place, name in others}


def _pair_of(fields: Mapping[str, object]) -> int | None:
    """The pair of locations a fact is about, told by itself or by its path's number."""
    pair, path = fields.get("pair"), fields.get("path")
    if isinstance(pair, int):
        return pair
    return path // RANKS_PER_PAIR if isinstance(path, int) else None


def _render_wall_time(at_ns: int) -> str:
    """The instant in UTC, to the millisecond; found anew for each line because the wall clock may be stepped."""
    milliseconds = (time.time_ns() - time.monotonic_ns() + at_ns) // 1_000_000
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
