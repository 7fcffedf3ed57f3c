"""What rides in every packet: this node's word of itself, and what becomes of the words of others."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.diagnosis import peer_views
from meshwatchd.core.diagnosis.classifier import Leg
from meshwatchd.core.failover.topology_change_hold import ABOUT_NODE, HERE
from meshwatchd.core.mesh.engine_state import EngineState
from meshwatchd.model.events import Banner
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import Output, SetBanner


class Banners:
    """The banners of one engine, told and heard."""

    def __init__(self, state: EngineState) -> None:
        self._state = state
        self._own = Banner()
        # Whether a peer may be among the doubters of any pair: nearly every packet is without doubt, and none asks all.
        self._is_doubted = False

    def hear(self, peer: NodeName, banner: Banner, now: int) -> list[Output]:
        """Note what a peer says of itself; a relay's word about the path in use may be followed."""
        # Nearly always a peer uses the same paths: its banner is compared once.
        is_other = banner.active != self._own.active
        if is_other or banner.window:
            readable = self._readable(peer, banner)
            if readable is not banner:
                banner, is_other = readable, readable.active != self._own.active
        self._state.views.note(peer, banner, now)
        if banner.has_misfit is not (peer in self._state.findings.misfits):
            self._state.findings.hear_of_misfit(
                peer, now, has_misfit=banner.has_misfit, is_own_leader=self._is_own_leader(peer)
            )
        if banner.view_up & ABOUT_NODE and self._state.topology is not None:
            mesh, home = self._state.topology.mesh, self._state.topology.local.location
            where = next((node.location for node in mesh.nodes if node.name == peer), "")
            if self._state.unrest.heard(peer, banner, now, location=where, home=home):
                self._state.spread_banner(now)
        elif self._state.unrest.has_hearsay:
            self._state.unrest.unsaid(peer)
        is_doubtful = bool(banner.view_known & ~banner.view_up & ~ABOUT_NODE)
        if is_doubtful or self._is_doubted:
            self._hear_doubts(peer, now, is_doubtful=is_doubtful)
        return self._follow(peer, banner, now) if is_other else []

    def _hear_doubts(self, peer: NodeName, now: int, *, is_doubtful: bool) -> None:
        """Let every pair know of a peer's doubts, or that it spoke without any."""
        is_doubted = False
        for controller in self._state.controllers.values():
            if is_doubtful or controller.suspicion.has_doubters:
                controller.suspicion.heard(peer, now)
            if is_doubtful:
                controller.watch.hear_doubt(peer, self._state.views, now)
            is_doubted = is_doubted or controller.suspicion.has_doubters
        self._is_doubted = is_doubted

    def _is_own_leader(self, peer: NodeName) -> bool:
        topology = self._state.topology
        return topology is not None and topology.mesh.location(topology.local.location).leader == peer

    def _follow(self, peer: NodeName, banner: Banner, now: int) -> list[Output]:
        outputs: list[Output] = []
        for active in banner.active:
            controller = self._state.controllers.get(active.pair)
            if controller is not None:
                if controller.is_same_pair(active.relays):
                    controller.mover.hear(active.generation)
                outputs += controller.told(peer, active, now)
        return outputs

    def _readable(self, peer: NodeName, banner: Banner) -> Banner:
        """A banner without the pairs that its sender knows with other relays: its bits and ranks are about others.

        In a mesh of many locations nearly every banner is one, and a peer's packets repeat the same: each is read once.
        """
        kept = self._state.readings.get((peer, banner.window))
        if kept is not None and kept[0] is banner:
            return kept[1]
        strange = [
            active.pair
            for active in banner.active
            if active.pair in self._state.controllers
            and not (
                self._state.is_shared(peer, active.pair)
                and self._state.controllers[active.pair].is_same_pair(active.relays)
            )
        ]
        readable = peer_views.without(banner, strange) if strange else banner
        self._state.readings[peer, banner.window] = banner, readable
        return readable

    def tell(self, now: int) -> Iterator[Output]:
        """The banner of this node, where it is another one than before."""
        legs: dict[tuple[int, peer_views.View], Leg] = {}
        for controller in self._state.controllers.values():
            legs.update(controller.watch.legs(controller.mover.active))
        up, known = peer_views.encode(legs)
        bits = self._state.unrest.bits(now)
        up, known = up | bits, known | bits | (HERE if self._state.memory.orders.is_agent_away else 0)
        active = tuple(controller.active for controller in self._state.controllers.values())
        banner = Banner(
            view_up=up,
            view_known=known,
            active=active,
            is_admin_down=self._state.memory.orders.is_draining,
            has_misfit=any(controller.blames_own_sizes for controller in self._state.controllers.values()),
        )
        if banner != self._own:
            self._own = banner
            yield SetBanner(banner=banner)
