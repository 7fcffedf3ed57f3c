"""One engine on a bench: every probe is answered unless the test says otherwise, peers speak when the test does."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.diagnosis.peer_views import View, encode
from meshwatchd.core.engine import Engine
from meshwatchd.core.failover.pair_controller import PairController
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.plan import Rule
from meshwatchd.model.service_check import NOT_SEEN, ServiceSeen
from meshwatchd.model.settings import MS, SECOND, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.profiles import PROFILES
from tests.sim.clones import made_once
from tests.support.lab_mesh import settings_for, snapshot_of

RTT_NS = 10 * MS

Silent = Callable[[out.SessionPlan], bool]
"""Whether probes of a session go unanswered."""


def nothing_is_silent(_plan: out.SessionPlan) -> bool:
    """Every probe is answered."""
    return False


Wanted = TypeVar("Wanted")


class Bench:
    """Drives one engine under a virtual clock; keeps all it says.

    Attributes:
        silent: the probes that are lost.
        kernel: what the kernel says to a change; empty accepts it.
        banners: what a peer's answers say of it, by peer; the rest say nothing.
        unseen_ns: after how long the agent says that it has not seen what such a canary finds; None where it has.
        find: what a canary of kind dns, tls or http finds; its session and number are filled in.
    """

    def __init__(
        self,
        name: str,
        *,
        settings: Settings | None = None,
        seed: int = 7,
        rules: Iterable[Rule] = (),
        snapshot: Snapshot | None = None,
    ) -> None:
        self.now = 50 * SECOND
        self.silent: Silent = nothing_is_silent
        self.kernel = ""
        self.unseen_ns: int | None = None
        self.find: Callable[[out.SessionPlan], ServiceSeen] | None = None
        self.banners: dict[str, ev.Banner] = {}
        self.outputs: list[tuple[int, out.Output]] = []
        self.plans: Mapping[SessionId, out.SessionPlan] = {}
        self._due: list[tuple[int, int, ev.Event]] = []
        self._count = 0
        self.engine = Engine(
            settings=settings or settings_for(name),
            node=NodeName(name),
            rng=random.Random(seed),
            epoch=1,
            profiles=PROFILES,
        )
        self.feed(ev.SnapshotReceived(snapshot=snapshot or snapshot_of(name, rules=rules)))

    @property
    def controller(self) -> PairController:
        """The lab's only pair."""
        return self.engine.state.controllers[0]

    def feed(self, event: ev.Event) -> list[Any]:
        """Give the engine an event and carry out what it asks for; returns what it said."""
        outputs = self.engine.handle(event, self.now)
        for output in outputs:
            self.outputs.append((self.now, output))
            self._carry_out(output)
        return outputs

    def run(self, duration_ns: int) -> None:
        """Let time pass, from deadline to deadline."""
        end = self.now + duration_ns
        while True:
            pending = [at for at in (self.engine.deadline(), self._due[0][0] if self._due else None) if at is not None]
            at = min(pending, default=end + 1)
            if at > end:
                self.now = end
                return
            self.now = max(self.now, at)
            while self._due and self._due[0][0] <= self.now:
                self.feed(heapq.heappop(self._due)[2])
            deadline = self.engine.deadline()
            if deadline is not None and deadline <= self.now:
                self.feed(ev.Tick())

    def run_until_suspected(self) -> None:
        """Let time pass until the path in use has missed an answer: that takes as long as its probes are apart."""
        group = self.controller.watch.group(self.controller.mover.active)
        for _ in range(100):
            if group.is_suspect or group.is_down:
                return
            self.run(5 * MS)
        raise AssertionError("half a second without an answer, and nothing is suspected")

    def said(self, kind: type[Wanted], *, since: int = 0) -> list[Wanted]:
        """Everything of one kind the engine said, in order."""
        return [output for at, output in self.outputs if isinstance(output, kind) and at >= since]

    def spoken(self, kind: ev.CoordinationKind, *, since: int = 0) -> list[ev.Coordination]:
        """The coordination messages of one kind that left, in order."""
        messages = [probe.coordination for probe in self.said(out.SendProbe, since=since)]
        return [message for message in messages if message is not None and message.kind is kind]

    def hear(self, sender: str, message: ev.Coordination | None, banner: ev.Banner | None = None) -> list[Any]:
        """A peer's probe arrives with a coordination message, a banner, or both."""
        return self.feed(
            ev.RequestReceived(
                peer=NodeName(sender),
                layer=Layer.RELAY,
                path=0,
                flow=FlowClass.FRESH,
                is_fresh_epoch=True,
                banner=banner or ev.Banner(),
                coordination=message,
            )
        )

    def vouch(self) -> None:
        """Every peer says that the primary path works, in its answers from here on."""
        for peer in {str(plan.peer) for plan in self.plans.values()} - {self.engine.state.node}:
            self._say(peer, Leg.ALIVE)

    def object(self, *peers: str) -> None:
        """These peers say that it does not."""
        for peer in peers:
            self._say(peer, Leg.DEAD)

    def _say(self, peer: str, leg: Leg) -> None:
        up, known = encode({(int(self.controller.watch.index), View.RELAY_PATH): leg})
        # Words about a pair count from a node that means the same relays by its ranks.
        self.banners[peer] = ev.Banner(view_up=up, view_known=known, active=(self.controller.active,))

    def _carry_out(self, output: out.Output) -> None:
        if isinstance(output, out.ConfigureSessions):
            self.plans = {plan.session: plan for plan in output.sessions}
        elif isinstance(output, out.SendProbe):
            plan = self.plans[output.session]
            if plan.canary is not None and plan.canary.is_service and self.find is not None:
                if self.unseen_ns is not None:
                    unseen = ev.SendFailed(session=output.session, seq=output.seq, errno=NOT_SEEN)
                    self._later(self.unseen_ns, unseen)
                    return
                found = self.find(plan)
                self._later(RTT_NS, msgspec.structs.replace(found, session=output.session, seq=output.seq))
            elif not self.silent(plan):
                self._later(
                    RTT_NS,
                    ev.ReplyReceived(
                        session=output.session,
                        seq=output.seq,
                        rtt_ns=RTT_NS,
                        peer_epoch=1,
                        banner=self.banners.get(plan.peer, ev.Banner()),
                    ),
                )
        elif isinstance(output, out.EnsureProvision):
            self._later(0, ev.Provisioned(is_complete=True))
        elif isinstance(output, out.ApplySwitch):
            if self.kernel:
                self._later(0, ev.SwitchFailed(pair=output.pair, generation=output.generation, error=self.kernel))
            else:
                self._later(0, ev.SwitchApplied(pair=output.pair, generation=output.generation))

    def _later(self, delay_ns: int, event: ev.Event) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now + delay_ns, self._count, event))


def ready(name: str, *, settings: Settings | None = None, seed: int = 7, rules: Iterable[Rule] = ()) -> Bench:
    """An engine whose every session is up."""
    return _ready(name, settings, seed, tuple(rules))


@made_once
def _ready(name: str, settings: Settings | None, seed: int, rules: tuple[Rule, ...]) -> Bench:
    bench = Bench(name, settings=settings, seed=seed, rules=rules)
    bench.run(2 * SECOND)
    assert bench.controller.is_ready
    return bench


def primary_is_silent(plan: out.SessionPlan) -> bool:
    """Loses what crosses path 0, and what follows it."""
    return plan.layer in (Layer.RELAY, Layer.EFFECTIVE) and plan.path == 0


def message(
    kind: ev.CoordinationKind,
    *,
    rank: int,
    target: str,
    generation: int = 1,
    nonce: int = 99,
    reason: ev.Reason = ev.Reason.BROKEN,
) -> ev.Coordination:
    """One coordination message about the lab's pair."""
    return ev.Coordination(
        kind=kind, pair=0, rank=rank, generation=generation, nonce=nonce, target=NodeName(target), reason=reason
    )
