"""Carries out what the core decides: each command goes to its adapter, each fact to the agent."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from meshwatchd.adapters.canary import CanaryProber
from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.adapters.netlink.learned import LearnedMtu
from meshwatchd.adapters.netlink.switch import RuleSwitch
from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.peers import Peers, budgets_of
from meshwatchd.adapters.packet.prober import MAX_OPEN, Prober
from meshwatchd.adapters.packet.reflector import Reflector
from meshwatchd.adapters.packet.sizer import Sizer
from meshwatchd.adapters.poller import Poller
from meshwatchd.core.diagnosis.banner_windows import Parts
from meshwatchd.model.decoding import refusals
from meshwatchd.model.errors import DecodeError, KernelError
from meshwatchd.model.events import Banner, Event, SwitchApplied, SwitchFailed
from meshwatchd.model.frames import FactFrame, OperatorReplyFrame, ProvisionFrame, RepairFrame, StateFrame
from meshwatchd.model.ids import NodeName, SessionId
from meshwatchd.model.mtu import ConfigureSizes, SendSizeProbe
from meshwatchd.model.outputs import (
    ApplySwitch,
    ConfigureSessions,
    EnsureProvision,
    Fact,
    Output,
    Repair,
    ReplyOperator,
    SaveState,
    SendProbe,
    SessionPlan,
    SessionSuspected,
    SetBanner,
)
from meshwatchd.model.port_map import routed_port
from meshwatchd.model.settings import SECOND, Settings
from meshwatchd.model.stamp import StampRefused
from meshwatchd.runtime.agent_link import AgentLink
from meshwatchd.runtime.clocks import Clocks, JumpWatch
from meshwatchd.runtime.service_questions import ServiceQuestions
from meshwatchd.runtime.stderr import say
from meshwatchd.runtime.tunnel_glance import TunnelGlance
from meshwatchd.wire.auth import MeshKeys, MeshSecret

if TYPE_CHECKING:
    from meshwatchd.adapters.stamp_interop.reflector import StandardReflector

OTHER_FILES: Final = 128
"""Descriptors that are no source ports: listeners, the link, timers."""


FORMER_PORTS_NS: Final = 30 * SECOND
"""How long ports are answered on that the mesh does not use any more: longer than nodes take to hear of a change."""


class Effects:
    """The adapters of one engine.

    Args:
        agent: takes facts, provisions and answers to operators.
        max_files: how many descriptors this process may have.
        stamp_key: shared with STAMP senders of other makers, if any.

    Attributes:
        has_stated: a fact was stated since `take_stated`.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        secrets: Sequence[MeshSecret],
        epoch: int,
        poller: Poller,
        inbox: deque[Event],
        counters: Counter[str],
        agent: AgentLink,
        max_files: int,
        stamp_key: bytes | None = None,
    ) -> None:
        self._node = NodeName(settings.daemon.node)
        self._epoch, self._jumps = epoch, JumpWatch(Clocks())
        self._inbox, self._counters, self._agent = inbox, counters, agent
        self._base_port = settings.probe.port
        names = [node.name for node in settings.mesh.node]
        keys = MeshKeys(self._node, secrets)
        # This node is a peer of its own: SELF probes are signed with a key that no other node has a use for.
        self._peers = peers = Peers(keys, names, budgets_of(settings))
        agent.bind = peers.bind
        self._dictionary = dictionary = translate.Dictionary(names)
        self._settings = settings
        self._plans: dict[SessionId, SessionPlan] = {}
        self._ports = _Ports()
        self._banner, self._windows = Banner(), dict[NodeName, int]()
        self._voice: translate.Voice | None = None
        own = translate.own_state(self._banner, node=self._node, epoch=epoch)
        self._switch = RuleSwitch(settings.kernel.protocol)
        self._prober = Prober(
            poller=poller,
            peers=peers,
            dictionary=dictionary,
            own=own,
            counters=counters,
            emit=inbox.append,
            max_open=min(MAX_OPEN, max(OTHER_FILES, max_files - OTHER_FILES)),
        )
        self._reflector = Reflector(
            poller=poller,
            peers=peers,
            dictionary=dictionary,
            own=own,
            counters=counters,
            emit=inbox.append,
            routed_port=routed_port(self._base_port),
        )
        self._learned = LearnedMtu()
        self._sizer = Sizer(
            poller=poller, peers=peers, own=own, counters=counters, emit=inbox.append, learned=self._learned
        )
        self._glance = TunnelGlance(poller=poller, emit=inbox.append)
        self._standard = _foreign_reflector(settings, stamp_key, poller=poller, counters=counters, report=self._refused)
        self._canaries = CanaryProber(poller=poller, counters=counters, emit=inbox.append)
        self._services = ServiceQuestions(agent=agent, counters=counters, emit=inbox.append)
        self._ended: frozenset[SessionId] = frozenset()
        self.has_stated = False

    def carry_out(self, output: Output, now_ns: int) -> None:
        """Do one thing the core wants; what comes of it goes to the inbox."""
        if isinstance(output, SendProbe):
            # Nearly all commands; a match would try its patterns one by one.
            self._asks(output.session).send(output)
            return
        match output:
            case SetBanner():
                self._banner = output.banner
                self._announce()
            case SendSizeProbe():
                self._sizer.send(output)
            case ConfigureSizes():
                self._sizer.configure(output.plans)
            case ApplySwitch():
                self._inbox.append(self._apply(output))
            case ConfigureSessions():
                self._configure(output, now_ns)
            case EnsureProvision():
                self._agent.send(ProvisionFrame(command=output))
            case Repair():
                self._agent.send(RepairFrame(command=output))
            case ReplyOperator():
                self._agent.send(OperatorReplyFrame(reply=output))
            case SaveState():
                self._agent.send(StateFrame(state=output.state))
            case fact:
                self._tell(fact, now_ns)

    def _asks(self, session: SessionId) -> CanaryProber | ServiceQuestions | Prober:
        """Who sends the probes of that session."""
        if session in self._canaries.sessions:
            return self._canaries
        return self._services if session in self._services.sessions else self._prober

    def _tell(self, fact: Fact, now_ns: int) -> None:
        if isinstance(fact, SessionSuspected):
            self._glance.doubt(now_ns)
        self._agent.send(FactFrame(at_ns=now_ns, fact=fact))
        self.has_stated = True

    def flush(self) -> None:
        """Send the probes that were commanded; they leave together, which is what makes them cheap."""
        self._prober.flush()

    def state(self, fact: Fact) -> None:
        """Tell a fact that is not the core's."""
        self.carry_out(fact, monotonic_ns())

    def use_secrets(self, secrets: Sequence[MeshSecret]) -> tuple[int, tuple[int, ...]]:
        """Sign and believe by these from here on; what is under way keeps the keys it was made with.

        Returns:
            The key id that signs, and those that are accepted.
        """
        return self._peers.use(secrets)

    def _refused(self, source: str, reason: str) -> None:
        self.state(StampRefused(source=source, reason=reason))

    def take_ended(self) -> frozenset[SessionId]:
        """Ids that have stood for another session or for none since the last call."""
        taken, self._ended = self._ended, frozenset()
        return taken

    def take_stated(self) -> bool:
        """Whether a fact was stated since the last call."""
        taken, self.has_stated = self.has_stated, False
        return taken

    def expire(self, now_ns: int) -> None:
        """Forget probes that nobody waits for any more, and close their ports."""
        self._glance.advance(now_ns)
        self._prober.expire(now_ns)
        self._sizer.expire(now_ns)
        self._canaries.expire(now_ns)

    def retry(self) -> None:
        """Try again what could not be opened, and close what was kept open for long enough."""
        now_ns = monotonic_ns()
        if self._jumps.look():
            self._renew_epoch()
        self._reflector.listeners.listen(self._ports.wanted(now_ns))
        self._glance.refresh(now_ns)
        if self._standard is not None:
            self._standard.retry()

    def counters(self) -> dict[str, int]:
        """All counters, with those that the kernel keeps."""
        standard = {} if self._standard is None else {"stamp-filtered": self._standard.filtered()}
        return {
            **refusals.added_to(self._counters),
            **standard,
            "probes-open": self._prober.open_probes,
            "source-ports-open": self._prober.open_ports,
            "requests-filtered": self._reflector.listeners.filtered(),
            "key-id-signing": self._peers.signing_id,
        }

    def close(self) -> None:
        """Stop probing and answering. Rules and routes stay: traffic must not move because we go."""
        self._prober.close()
        self._sizer.close()
        self._learned.close()
        self._canaries.close()
        self._glance.close()
        self._reflector.listeners.close()
        if self._standard is not None:
            self._standard.close()
        self._switch.close()

    def _configure(self, command: ConfigureSessions, now_ns: int) -> None:
        """Take over a table of sessions: what is the same goes on."""
        # What waits may be for a node that leaves the mesh by this.
        self._prober.flush()
        if command.nodes:
            # This node is one of them whatever the mesh says: it answers its own probes.
            names = dict.fromkeys((*command.nodes, self._node))
            self._peers.know(names, budgets_of(self._settings, len(names)))
            self._dictionary.know(names)
        if command.windows != self._windows:
            self._windows, self._voice = command.windows, None
            self._announce()
        self._glance.use(command.tunnel)
        self._reflector.route_back(command.external)
        own = tuple(plan for plan in command.sessions if plan.canary is None)
        self._prober.configure(own)
        canaries = [(plan, plan.canary) for plan in command.sessions if plan.canary is not None]
        self._canaries.configure(plan for plan, canary in canaries if not canary.is_service)
        self._services.configure(plan for plan, canary in canaries if canary.is_service)
        ports = {*command.ports, *(plan.port for plan in own)}
        self._ports.want(ports | {self._base_port, routed_port(self._base_port)}, now_ns)
        self._reflector.listeners.listen(self._ports.wanted(now_ns))
        before, self._plans = self._plans, {plan.session: plan for plan in command.sessions}
        self._ended |= {number for number, plan in before.items() if not _is_same(plan, self._plans.get(number))}

    def _renew_epoch(self) -> None:
        """Machine and process were resumed from a snapshot, maybe: peers have seen the next numbers of this epoch.

        It is written nowhere: no disk may keep probes waiting, and peers believe a smaller one after a restart as well.
        """
        self._epoch = max(time.time_ns(), self._epoch + 1)
        self._counters["epochs-renewed"] += 1
        self._announce()

    def _announce(self) -> None:
        """Say what the banner says; in a mesh of many locations in parts, to everybody what concerns it."""
        parts = self._cut()
        whole = self._banner if parts is None else parts.windows[0]
        state = translate.own_state(whole, node=self._node, epoch=self._epoch)
        self._voice = None if parts is None else translate.Voice(parts, node=self._node, epoch=self._epoch)
        self._prober.announce(state, self._voice)
        self._sizer.announce(state)
        self._reflector.announce(state, self._voice)

    def _cut(self) -> Parts | None:
        if not self._windows:
            return None
        return Parts(self._banner, self._windows, before=None if self._voice is None else self._voice.parts)

    def _apply(self, command: ApplySwitch) -> SwitchApplied | SwitchFailed:
        try:
            self._switch.apply(command.switch)
        except (KernelError, DecodeError) as error:
            self._counters["switches-failed"] += 1
            return SwitchFailed(pair=command.pair, generation=command.generation, error=str(error))
        self._counters["switches-applied"] += 1
        return SwitchApplied(pair=command.pair, generation=command.generation)


def _is_same(plan: SessionPlan, other: SessionPlan | None) -> bool:
    """Whether an id stands for the same session still, as far as its probes go."""
    return other is not None and plan == msgspec.structs.replace(other, path=plan.path)


class _Ports:
    """The ports to listen on: those of the mesh, and for a while those of the mesh before it.

    Nodes hear of a change one after the other; who has not heard of it yet asks where it always asked, and silence
    would look like a fault.
    """

    def __init__(self) -> None:
        self._wanted: frozenset[int] = frozenset()
        self._until_ns: dict[int, int] = {}

    def want(self, ports: Iterable[int], now_ns: int) -> None:
        """These are the mesh's from here on."""
        before, self._wanted = self._wanted, frozenset(ports)
        self._until_ns |= dict.fromkeys(before - self._wanted, now_ns + FORMER_PORTS_NS)

    def wanted(self, now_ns: int) -> frozenset[int]:
        """All of them."""
        self._until_ns = {port: until for port, until in self._until_ns.items() if until > now_ns}
        return self._wanted | self._until_ns.keys()


def _foreign_reflector(
    settings: Settings,
    key: bytes | None,
    *,
    poller: Poller,
    counters: Counter[str],
    report: Callable[[str, str], None],
) -> StandardReflector | None:
    """The reflector for other makers' senders, already listening; None where it is switched off."""
    if not settings.stamp.listen:
        return None
    from meshwatchd.adapters.stamp_interop.reflector import StandardReflector  # noqa: PLC0415 - 0.1 MiB, seldom used

    reflector = StandardReflector(poller=poller, counters=counters, settings=settings.stamp, key=key, report=report)
    reflector.retry()
    if reflector.problem:
        remedy = "ports below 1024 want the drop-in stamp.conf (docs/stamp.md); it is tried again each second"
        say("stamp.unheard", level="error", port=settings.stamp.listen, error=reflector.problem, remedy=remedy)
    return reflector
