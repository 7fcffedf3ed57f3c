"""One pair of locations as this node sees it: its paths' groups, its suspicion, and the evidence for a verdict."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial

from meshwatchd.core.diagnosis.advisory_probes import SideIssues
from meshwatchd.core.diagnosis.arrivals import INBOUND_NS, Arrivals
from meshwatchd.core.diagnosis.classifier import Evidence, Leg
from meshwatchd.core.diagnosis.full_mesh import Surroundings
from meshwatchd.core.diagnosis.legs import any_leg, is_lossy, leg, members_leg, standing
from meshwatchd.core.diagnosis.peer_views import PeerViews, View
from meshwatchd.core.diagnosis.peer_words import PeerWords
from meshwatchd.core.diagnosis.pod_network import PodNetworkWatch
from meshwatchd.core.diagnosis.service_canaries import troubles
from meshwatchd.core.diagnosis.transit import transit_of
from meshwatchd.core.pmtu.verdict import SizeFinding
from meshwatchd.core.probing.schedule import Schedule
from meshwatchd.core.probing.scouts import close
from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.core.session.cusum import MISS_NATS
from meshwatchd.core.session.session import Session, SessionState
from meshwatchd.core.session.shared_risk_group import Group
from meshwatchd.model.cluster_mesh import ClusterControl
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from meshwatchd.model.topology import Path, PathKey, Topology, relays_print

RECENT_NS = 3_000_000_000
"""How far back outcomes count while a fault lasts: a fault that changes is named anew."""


class PairWatch:
    """Reads sessions, decides nothing.

    Args:
        before: the same pair in the topology before this one: the evidence about paths that are the same is kept.
    """

    def __init__(
        self, topology: Topology, schedule: Schedule, paths: tuple[Path, ...], before: PairWatch | None = None
    ) -> None:
        self.paths = paths
        self.primary = paths[0]
        self.index = self.primary.pair
        self.relays_print = relays_print(paths)
        local = topology.local
        self.remote = self.primary.other_location(local.location)
        self.home = local.location
        self._transit = transit_of(topology)
        self.own_leader = self._transit.leaves_by(local, self.primary)
        self.remote_leader = self.primary.relay_in(self.remote)
        self.is_leader = self.own_leader == local.name
        self.is_decider = any(local.name in path.relays for path in self.paths)
        self.is_close = local.name in close(topology.mesh, self.home, self.remote)
        self._local = local
        self._members = tuple(node.name for node in topology.mesh.members(self.remote))
        self._words = PeerWords(topology, self.primary)
        self._surroundings = Surroundings(topology, schedule, self.primary, self.remote)
        self._select(schedule, {} if before is None else before.judged())
        known = {node.name for node in topology.mesh.nodes}
        self.arrivals: Arrivals = Arrivals(known, None if before is None else before.arrivals)
        self.accused_since: int = 0 if before is None else before.accused_since
        self.pods: PodNetworkWatch = PodNetworkWatch(
            schedule,
            self._members,
            (*self.fresh, *self.pinned),
            before=None if before is None else before.pods,
            canaries=self.side.canaries,
        )

    def judged(self) -> dict[PathKey, Group]:
        """What is known of each path, by what makes a path the same in another mesh."""
        return {path.key: self.group(path) for path in self.paths}

    def _select(self, schedule: Schedule, known: Mapping[PathKey, Group]) -> None:
        def relay(path: Path, flow: FlowClass) -> tuple[Session, ...]:
            return schedule.select(layer=Layer.RELAY, path=path.number, flow=flow)

        self.groups: dict[int, Group] = {}
        self._judges: dict[SessionId, Group] = {}
        self._to_relays: dict[int, tuple[Session, ...]] = {}
        self.loop = schedule.select(layer=Layer.SELF)
        # Neither this node's own voice nor a canary's, which may be anybody's.
        self._others = tuple(s for s in schedule.sessions if s.plan.layer is not Layer.SELF and s.plan.canary is None)
        for path in self.paths:
            fresh = relay(path, FlowClass.FRESH)
            beyond = tuple(s for s in fresh if s.plan.peer != self._transit.enters_by(self.remote, path))
            self._to_relays[path.number] = tuple(s for s in fresh if s.plan.peer == path.relay_in(self.remote))
            judged = beyond or fresh
            peers = {session.plan.peer for session in judged}
            controls = tuple(s for s in relay(path, FlowClass.PINNED) if s.plan.peer in peers)
            group = known.get(path.key)
            is_doubtful = group is not None and (group.is_down or group.is_suspect)
            if group is None or (not path.is_primary and is_doubtful and not set(group.sessions) & set(judged)):
                # A standby over another link than before: the old one was condemned or in doubt while the mesh changed
                # around it, and what was in doubt may be asked by nobody any more.
                group = Group(judged, controls, schedule.timers)
            group.change(judged, controls)
            self.groups[path.number] = group
            self._judges |= {session.plan.session: group for session in (*judged, *controls)}
        self._compare()
        self.fresh = relay(self.primary, FlowClass.FRESH)
        self.pinned = relay(self.primary, FlowClass.PINNED)
        self.to_relay = self._to_relays[self.primary.number]
        self.effective = schedule.select(layer=Layer.EFFECTIVE, path=self.primary.number)
        self.wireguard = schedule.select(layer=self._surroundings.carrier, path=self.primary.number)
        segments = schedule.select(path=NO_PATH)
        self.segments = (*segments, *self.wireguard)
        self.side = SideIssues(schedule, self._concerns, self._surroundings.is_outside)
        to_leader = tuple(s for s in segments if s.plan.peer == self.own_leader)
        self.underlay = _pick(to_leader, Layer.UNDERLAY, FlowClass.FRESH)
        self.ipip = _pick(to_leader, Layer.IPIP, FlowClass.FRESH)
        self.overlay = _pick(to_leader, Layer.OVERLAY, FlowClass.FRESH)
        self.overlay_pinned = _pick(to_leader, Layer.OVERLAY, FlowClass.PINNED)
        asked = self._transit.neighbours(segments, self._local.name)
        self.members_underlay = _pick(asked, Layer.UNDERLAY, FlowClass.FRESH)
        self.members_overlay = _pick(asked, Layer.OVERLAY, FlowClass.FRESH)
        beside = tuple(s for s in self.members_overlay if s.plan.peer != self.own_leader)
        self.beside_leader = beside[: self._transit.most_beside]
        self.members_pinned = _pick(asked, Layer.OVERLAY, FlowClass.PINNED)
        relays = {path.relay_in(self.home) for path in self.paths}
        neighbours = asked if self.is_leader else self.beside_leader
        near = {self._local.name, self.own_leader, *relays, *(s.plan.peer for s in neighbours)}
        self.nearby = (*(s for s in segments if s.plan.peer in near), *self.wireguard)
        own_relays = (s for s in _pick(segments, Layer.UNDERLAY, FlowClass.FRESH) if s.plan.peer in relays)
        remote_relays = (s for path in self.paths if not path.is_spare for s in self._to_relays[path.number])
        self.to_deciders = (*own_relays, *remote_relays)

    def _compare(self) -> None:
        """Lets the mesh's own path be seen to be missing by what answers over the standbys."""
        own = self.group(self.primary)
        peers = {session.plan.peer for session in own.sessions}
        standbys = (session for path in self.paths[1:] for session in self.group(path).sessions)
        own.elsewhere = tuple(session for session in standbys if session.plan.peer in peers)

    def _concerns(self, plan: SessionPlan) -> bool:
        """Whether an advisory session says something of this pair; a member speaks of its leader, not of others."""
        if plan.layer is Layer.POD:
            return plan.peer in self._members
        if plan.path == NO_PATH:
            return self.is_leader or plan.peer == self.own_leader
        return plan.path == self.primary.number

    def group(self, path: Path) -> Group:
        """The group that judges a path."""
        return self.groups[path.number]

    def follow(self, path: Path) -> None:
        """Real traffic takes a path from here on: its probes are waited for as long as the path's own."""
        for session in self.group(path).sessions[:1]:
            for follower in self.effective:
                follower.delay.follow(session.delay)

    def note_heard(self, peer: str, layer: Layer, path: int, now: int) -> None:
        """A fresh probe of a peer arrived here; by a standby it says nothing of the mesh's own path."""
        if path in (self.primary.number, NO_PATH):
            self.arrivals.note(peer, layer, now)

    def hear_doubt(self, peer: NodeName, views: PeerViews, now: int) -> None:
        """A peer speaks of legs that are down: its word counts where this node has never seen the path up."""
        own = self.group(self.primary)
        if not own.is_proven and views.read(peer, int(self.index), View.RELAY_PATH, since=now) is Leg.DEAD:
            own.condemned_at = now

    def groups_of(self, session: Session) -> Iterable[Group]:
        """The group a session feeds, if any."""
        group = self._judges.get(session.plan.session)
        return (group,) if group is not None else ()

    def has_lone_silence(self, path: Path, lone: Container[NodeName]) -> bool:
        """Whether over a standby nobody is silent but who is silent alone on others, while its own relay answers."""
        return all(session.plan.peer in lone for session in self.group(path).sessions) and any(
            s.is_proven and s.cusum.nats < 2 * MISS_NATS for s in self._to_relays[path.number]
        )

    def replacing(self, active: Path) -> tuple[Session, ...]:
        """What tells whether another path could be taken, and whether this node hears anything at all."""
        others = [path for path in self.paths if path is not active]
        standbys = [path for path in others if not path.is_spare]
        if any(self.group(path).is_good and not self.group(path).is_suspect for path in standbys):
            others = standbys
        return *self.loop, *(s for path in others for s in self.group(path).sessions)

    def explaining(self) -> tuple[Session, ...]:
        """What tells why the primary path is broken."""
        to_leader = (*self.underlay, *self.overlay, *self.overlay_pinned, *self.ipip)
        segments = (*to_leader, *self.beside_leader) if not self.is_leader else self.wireguard
        members = (*self.members_overlay, *self.members_pinned) if self.is_leader else ()
        return *self.pinned, *self.to_relay, *segments, *members

    def evidence(
        self,
        *,
        active: Path,
        views: PeerViews,
        now: int,
        is_settled: bool,
        missing_standbys: tuple[tuple[NodeName, ...], ...],
        has_good_standby: bool,
        sizes: SizeFinding | None = None,
        control: ClusterControl | None = None,
    ) -> Evidence:
        """Everything the classifier asks for, as of now."""
        primary, silent, since = self.group(self.primary), self._silent_nodes(views, now), self._counted_since(now)
        return Evidence(
            pair=self.index,
            is_leader=self.is_leader,
            self_name=self._local.name,
            own_leader=self.own_leader,
            remote_leader=self.remote_leader,
            remote_relay=self._transit.enters_by(self.remote, self.primary),
            remote=self.remote,
            path=Leg.DEAD if primary.is_down else Leg.ALIVE if primary.is_proven else Leg.UNKNOWN,
            path_to_relay=leg(self.to_relay, since),
            pinned=any_leg(primary.controls, since),
            own_loop=leg(self.loop, since),
            **self._to_leader(since),
            members_ipip=self._note_members_ipip(views, now),
            members_underlay=leg(self.members_underlay, since) if self.is_leader else Leg.UNKNOWN,
            members_overlay=self._members_leg(since, has_moved=active != self.primary),
            members_pinned=leg(self.members_pinned, since) if self.is_leader else Leg.UNKNOWN,
            neighbours_overlay=self._neighbours_leg(since),
            wireguard=self._transit.weigh(self.wireguard, since),
            control=control,
            is_anything_alive=not since or any(s.last_heard >= since and s.since(since)[0] > 0 for s in self._others),
            is_active_down=self._carries(active).is_down,
            is_unproven=is_settled and not primary.is_proven,
            missing_standbys=missing_standbys,
            has_good_standby=has_good_standby,
            silent_nodes=silent,
            silent_ip6=self.side.silent_ip6(),
            silent_canaries=self.side.silent_canaries(),
            silent_services=self.side.silent_services(),
            services=troubles(self.side.services),
            answering_canaries=self._answering_canaries(since, active),
            answering_nodes=self.side.answering_nodes(),
            bulk=self.side.bulk(),
            pod_network=self.pods.look(now, is_unwell=primary.is_down or bool(silent) or self._carries(active).is_down),
            mismatched_nodes=self._mismatched(views, now),
            inbound=self._inbound(since, now),
            log_likelihood=primary.nats,
            is_node_to_node=self._transit.is_node_to_node,
            beside=self._surroundings.look(since, leg, bulk_lost_since=self.side.bulk_lost_since()),
            sizes=sizes,
            lost_in_use=(),  # Whoever follows the moves adds it.
            is_leader_missed=is_lossy(self.underlay, self._suspected()),
            **self._said(views, now),
        )

    def _to_leader(self, since: int) -> dict[str, Leg]:
        """This node's legs to its own leader, by the names that `Evidence` has for them."""
        sessions = {"underlay": self.underlay, "overlay": self.overlay, "overlay_pinned": self.overlay_pinned}
        return {name: leg(each, since) for name, each in (*sessions.items(), ("ipip", self.ipip))}

    def _said(self, views: PeerViews, now: int) -> dict[str, Leg]:
        """What peers say of their own legs since the suspicion."""
        answered = max((session.last_heard for session in self.underlay), default=0)
        return self._words.views_of(self.own_leader, views, suspected=self._suspected(), answered=answered, now=now)

    def is_leader_vouched_for(self, views: PeerViews, now: int) -> bool:
        """Whether the own leader is alive by a neighbour's word, while this node finds the path broken."""
        return not self.is_leader and self._said(views, now)["neighbours_leader"] is Leg.ALIVE

    def _neighbours_leg(self, since: int) -> Leg:
        """This node's overlay to neighbours beside its leader."""
        is_answered = any(session.is_proven for session in self.beside_leader)
        return self._transit.weigh(self.beside_leader, since) if is_answered else self._transit.overlay_unasked

    def _suspected(self) -> int:
        """Since when something speaks against the primary path; 0 where nothing does."""
        primary = self.group(self.primary)
        return primary.suspect_since or primary.down_since

    def _counted_since(self, now: int) -> int:
        """Since when outcomes count; 0 with no suspicion."""
        suspected = self._suspected()
        return max(suspected, now - RECENT_NS) if suspected else 0

    def _silent_nodes(self, views: PeerViews, now: int) -> tuple[str, ...]:
        """Who is silent alone; whoever is taken out of service may be."""
        primary = self.group(self.primary)
        relay = () if primary.is_down else tuple(s for s in self.to_relay if s.state is SessionState.DOWN)
        lone = {session.plan.peer for session in (*primary.isolated(), *relay)}
        return tuple(peer for peer in sorted(lone) if not views.is_admin_down(peer, now))

    def _answering_canaries(self, since: int, active: Path) -> tuple[str, ...]:
        """While a path is in doubt those that prove that it works, else those that pods' traffic is like.

        What the remote relay itself answers has not crossed its overlay, and speaks for no node behind it.
        """
        if not self.side.canaries:
            return ()
        behind = self._behind(active) if since else frozenset(self._words.witnesses or self._members)
        return self.side.answering_canaries(since, partial(self._refutes, behind))

    def _mismatched(self, views: PeerViews, now: int) -> tuple[str, ...]:
        """Peers that answer nothing and in whose name packets arrive that are signed with another key than ours."""
        claimed = views.other_keys(now)
        if not claimed:
            return ()
        talking = {s.plan.peer for s in self._others if s.last_heard and now - s.last_heard <= RECENT_NS}
        asked = {s.plan.peer for s in self._others}
        return tuple(peer for peer in claimed if peer in asked and peer not in talking)

    def _carries(self, active: Path) -> Group:
        """The group that judges this node's own traffic: a leader that a path goes around stays on the primary."""
        group = self.group(active)
        return group if group.sessions else self.group(self.primary)

    def _behind(self, active: Path) -> frozenset[NodeName]:
        """The nodes that real traffic reaches by the primary path as its probes do: canaries there can refute them.

        Once traffic goes around the path its canaries do too, and the remote leader is not behind itself.
        """
        if active != self.primary:
            return frozenset()
        return frozenset(session.plan.peer for session in self.group(self.primary).sessions)

    def _refutes(self, behind: frozenset[NodeName], plan: SessionPlan) -> bool:
        """Whether a canary that answers proves what probes of the path say to be wrong.

        Where the overlay stands on the tunnel, node addresses are reached without it: a kubelet there proves nothing.
        """
        return plan.peer in behind and self._surroundings.crosses_overlay(plan)

    def is_vouched_for(self, active: Path, views: PeerViews, now: int) -> bool:
        """Whether the primary path works by the word of nodes behind both leaders, while traffic is on another."""
        return self._words.vouch(views, () if self.is_leader else (self._own_path(active),), now)

    def legs(self, active: Path) -> dict[tuple[int, View], Leg]:
        """What this node tells others about its own legs."""
        legs: dict[tuple[int, View], Leg] = {(self.index, View.RELAY_PATH): self._own_path(active)}
        if self.is_leader:
            legs[self.index, View.WIREGUARD] = standing(self.wireguard)
            legs[self.index, View.MEMBERS_OVERLAY] = standing(self.members_overlay)
        else:
            legs[self.index, View.LEADER_UNDERLAY] = standing(self.underlay)
            legs[self.index, View.LEADER_IPIP] = standing(self.ipip)
        return legs

    def _own_path(self, active: Path) -> Leg:
        """The primary path as this node sees it; nothing where the path in use is as bad here: then it is this node."""
        doubt, in_use = self._doubt(), self.group(active)
        is_bad = bool(in_use.sessions) and (in_use.is_suspect or not in_use.is_good)
        return Leg.UNKNOWN if doubt is Leg.DEAD and is_bad and active is not self.primary else doubt

    def _doubt(self) -> Leg:
        """The word by which the others are told to look: this node's own probes speak against the path."""
        group = self.group(self.primary)
        if not group.is_proven:
            return Leg.UNKNOWN
        return Leg.DEAD if group.is_suspect or group.is_down else Leg.ALIVE

    def _note_members_ipip(self, views: PeerViews, now: int) -> Leg:
        """What this leader's members say of their IPIP legs to it; notes since when they accuse it."""
        said = self._words.members_ipip(views, now - RECENT_NS) if self.is_leader else Leg.UNKNOWN
        self.accused_since = (self.accused_since or now) if said is Leg.DEAD else 0
        return said

    def _members_leg(self, since: int, *, has_moved: bool) -> Leg:
        """This leader's overlay to its members, of which it is the first to speak.

        While members say that their IPIP leg is dead, the overlay below is alive only by answers to later probes.
        """
        if not self.is_leader or (self._transit.proves_own_overlay and not self.group(self.primary).is_down):
            return Leg.UNKNOWN
        return members_leg(self.members_overlay, self.accused_since or since, has_moved=has_moved)

    def is_deaf(self, now: int) -> bool:
        """Whether this node does not hear itself: then its word about others is worth nothing."""
        return leg(self.loop, self._counted_since(now)) is Leg.DEAD

    def _inbound(self, since: int, now: int) -> Leg:
        """Whether fresh probes of those who do not answer still arrive here."""
        if not since:
            return Leg.UNKNOWN
        if not self.is_leader:
            return self.arrivals.direction((self.own_leader,), Layer.OVERLAY, since, now)
        # A tunnel that was dead and comes back has both, much that was lost a moment ago and answers now.
        if leg(self.wireguard, since) is Leg.DEAD and any(now - s.last_heard < INBOUND_NS for s in self.wireguard):
            return Leg.UNKNOWN
        peers = {session.plan.peer for session in self.group(self.primary).sessions}
        return self.arrivals.direction(peers, Layer.RELAY, since, now)


def _pick(sessions: Iterable[Session], layer: Layer, flow: FlowClass) -> tuple[Session, ...]:
    return tuple(s for s in sessions if s.plan.layer is layer and s.plan.flow is flow)
