"""What a simulated world is made of: its nodes, what is on the way between them, and what they were seen to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from meshwatchd.core.diagnosis.banner_windows import Parts
from meshwatchd.core.engine import Engine
from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import NodeName, SessionId
from meshwatchd.model.mtu import SizeAnswered, SizePlan, SizeUnsent
from meshwatchd.model.plan import Rule
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.model.settings import MS, Settings
from tests.sim.faults import Leg
from tests.sim.sizes import SizeRequest

TUNNEL_NS, WIRE_NS, JITTER_NS = 5 * MS, MS // 10, MS


class Told(NamedTuple):
    """A fact, who stated it and when."""

    at: int
    node: str
    fact: out.Fact


class Switched(NamedTuple):
    """A change of override in a node's kernel.

    Attributes:
        is_target_good: whether the node's own probes spoke for it at that instant.
        proven_at: when the path last carried a probe of that node and an answer on its way back, by what the world
            knows and the daemon only concludes.
    """

    at: int
    node: str
    add: tuple[Rule, ...]
    delete: tuple[Rule, ...]
    is_target_good: bool
    reason: ev.Reason
    proven_at: int = 0


class Way(NamedTuple):
    """What the probes of a session and their answers pass, and how long that takes, but for jitter."""

    there: tuple[Leg, ...]
    back: tuple[Leg, ...]
    there_ns: int
    back_ns: int


class Request(NamedTuple):
    """A probe on its way."""

    sender: str
    epoch: int
    probe: out.SendProbe
    plan: out.SessionPlan
    banner: ev.Banner
    sent_at: int


class Reply(NamedTuple):
    """An answer on its way; it means nothing to a process that did not send the probe."""

    epoch: int
    event: ev.ReplyReceived | SizeAnswered


class Wake(NamedTuple):
    """A stalled process runs again."""

    late_ns: int


class Boot(NamedTuple):
    """The agent of a new process has dumped the kernel."""


Delivery = (
    Request | SizeRequest | Reply | Wake | Boot | ev.SwitchApplied | ev.SwitchFailed | ev.Provisioned | SizeUnsent
)


@dataclass
class SimNode:
    """One node: its engine and the kernel state that matters.

    Attributes:
        is_running: whether the daemon is; a node without one still forwards.
        held: what arrived while the process was stalled; None while it is not.
        refusal: what its kernel says to every change; empty for a kernel that does as it is told.
        changes: how often its overrides were changed.
        windows, parts: which part of its banner each node is told, and the parts; nothing where all are told all.
        due: the engine's deadline as of its last event.
        sizes: the paths whose size it measures.
        counts: how many size probes of each session its reflector has answered.
        state: what the daemon keeps in its state directory.
    """

    name: str
    engine: Engine
    rules: set[Rule] = field(default_factory=set)
    banner: ev.Banner = field(default_factory=ev.Banner)
    windows: dict[NodeName, int] = field(default_factory=dict)
    parts: Parts | None = None
    plans: dict[SessionId, out.SessionPlan] = field(default_factory=dict)
    sizes: dict[int, SizePlan] = field(default_factory=dict)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    is_running: bool = True
    held: list[Delivery] | None = None
    refusal: str = ""
    changes: int = 0
    due: int | None = None
    state: PolicyState = field(default_factory=PolicyState)

    def says_to(self, peer: str) -> ev.Banner:
        """What the next packet to a node says of this one."""
        return self.banner if self.parts is None else self.parts.windows[self.parts.window(NodeName(peer))]

    def say(self, banner: ev.Banner) -> None:
        """Say this from here on."""
        self.banner = banner
        self.parts = Parts(banner, self.windows, self.parts) if self.windows else None

    @property
    def controller(self) -> PairController:
        """What the engine knows of the lab's only pair."""
        return self.engine.state.controllers[0]


def as_it_is(settings: Settings) -> Settings:
    """No change of settings."""
    return settings
