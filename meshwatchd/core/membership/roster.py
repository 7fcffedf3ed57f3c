"""The mesh as it is known at this moment: own view, peers' hellos, what was kept from earlier, and the operator's pins.

    own view --home--> own hello -----> peers
    peers' hellos, kept ones --> places, leaders --> assembly --settled--> MeshSettings

Nodes that have heard the same say the same: only who is alive and how long something has held depends on time. A node
that is silent stays in the mesh, since a dead node is a fault and no missing node, until it is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from meshwatchd.core.membership.cadence import CLOSE, KNOWN_NS, SLACK_NS, Cadence
from meshwatchd.core.membership.leader import LeaderKeeper, claimant
from meshwatchd.core.membership.location import HomeKeeper, addresses, place
from meshwatchd.core.membership.mesh_builder import Assembly, Said, assemble, is_whole
from meshwatchd.core.membership.presence import Crowds, find_present
from meshwatchd.model.discovery import Hello, LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MINUTE, MS, SECOND, MeshSettings, Settings

CENSUS_NS = 5 * SECOND
"""How often it is looked who has fallen silent."""

FIRST_QUIET_NS, FIRST_LIMIT_NS = 1500 * MS, 8 * SECOND
"""Before the first mesh nothing must have changed for so long, unless it never stops: daemons that start together hear
each other within a second, and each later change costs the engine its sessions to the nodes concerned."""

QUIET_NS, LIMIT_NS = 150 * MS, 500 * MS

LATELY_NS = KNOWN_NS + SLACK_NS
"""A neighbour that lives is heard within it. Of those that fall silent together the last was heard an interval after
the first, so that none is taken for dead while another one still counts as heard."""

LASTING = (
    "profiles",
    "granularity",
    "node_ip",
    "pod_cidr",
    "overlay_ip",
    "wireguard_ip",
    "node_ip6",
    "overlay_ip6",
    "wireguard_ip6",
    "wireguard_device",
    "overlay_device",
    "ipip_device",
)
"""What a node goes on telling of itself while it cannot see it: a device that has vanished is a fault of this node, and
no reason to leave the node out."""

ESTABLISHED_NS = 10 * MINUTE
"""A mesh that has had the same locations for so long was not made of what happened to be heard first."""

MAX_NODES = 2048
"""A mesh of a thousand nodes and as many that are about to be forgotten."""


class Heard(msgspec.Struct, kw_only=True):
    """A peer's last word.

    Attributes:
        at_ns: when it came, or when a neighbour heard the node last, monotonic; before this process where it was kept
            from an earlier one.
        is_kept: nothing was heard from it since this process began.
        said: boot epoch and counter of the whole hello that said it; zeros where it is not what the node has said last.
    """

    hello: Hello
    at_ns: int
    is_kept: bool = False
    said: tuple[int, int] = (0, 0)


class Roster:
    """Everybody who is known, and the mesh that follows.

    Attributes:
        watched: the locations that have been part of the mesh for long, to be remembered.
        peers: every other node that is known.
        crowds: how many nodes each location has.

    Args:
        former: what an earlier process on this node last told of it, if any.
        leaders: whom it took for the leaders.
        watched: which locations it had watched for long.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        former: Hello | None = None,
        leaders: Mapping[LocationName, NodeName] | None = None,
        watched: Collection[LocationName] = (),
    ) -> None:
        self._settings = settings
        self._node = NodeName(settings.daemon.node)
        self.forget_ns = settings.discovery.forget
        pinned = settings.discovery.location or next(
            (node.location for node in settings.mesh.node if node.name == self._node), ""
        )
        self._home = HomeKeeper(self._node, pinned=pinned, remembered=former.home if former is not None else "")
        self._leaders = LeaderKeeper(leaders)
        self._former = former
        self.watched = tuple(watched)
        self._locations: tuple[LocationName, ...] = ()
        self._locations_since_ns = 0
        self._own: Hello | None = None
        self._began_ns = 0
        self.peers: dict[NodeName, Heard] = {}
        self.crowds = Crowds()
        self._is_stale = False
        self._has_changed = False
        self._census_ns = 0
        self._alive: frozenset[NodeName] = frozenset()
        self._assembly = Assembly(mesh=settings.mesh if is_whole(settings.mesh) else None)
        self._settled: MeshSettings | None = self._assembly.mesh
        self._pending: MeshSettings | None = None
        self._pending_since_ns = self._changed_ns = 0

    @property
    def mesh(self) -> MeshSettings | None:
        """The mesh that is in force; the last good one while too little is known."""
        return self._settled

    @property
    def problems(self) -> tuple[str, ...]:
        """What stands in the way, as sentences."""
        return self._assembly.problems

    @property
    def is_relay(self) -> bool:
        """Whether traffic of the mesh may go through this node; as long as there is no mesh, too."""
        locations = self._settled.location if self._settled is not None else ()
        return not locations or any(self._node in {each.leader, *each.standbys} for each in locations)

    @property
    def own(self) -> Hello | None:
        """What this node tells; None before its first view."""
        return self._own

    @property
    def leaders(self) -> dict[LocationName, NodeName]:
        """Who leads which location, to be remembered."""
        return self._leaders.believed()

    def hellos(self) -> dict[NodeName, Hello]:
        """The last word of everybody, this node's own included."""
        peers = {name: heard.hello for name, heard in self.peers.items()}
        return peers if self._own is None else peers | {self._node: self._own}

    def tell(self, hello: Hello, now: int) -> bool:
        """This node has something to say of itself; home and basis are filled in here.

        Returns:
            whether peers have to be told.
        """
        home, basis = self._home.decide(hello.view, {name: each.hello for name, each in self.peers.items()}, now)
        view = hello.view if self._former is None else complete(hello.view, self._former.view)
        told = msgspec.structs.replace(hello, view=view, home=home, basis=basis)
        if told == self._own:
            return False
        if self._own is None:
            self._began_ns = now
        self._own, self._former, self._is_stale = told, told, True
        return True

    def hear(self, hello: Hello, now: int, said: tuple[int, int] = (0, 0)) -> bool:
        """Take in a peer's hello, which was proven and makes sense; returns whether it says anything new.

        Args:
            hello: its word, or what `unchanged` has found.
            now: monotonic nanoseconds.
            said: epoch and counter of the hello by which the node has said this.
        """
        name = hello.view.node
        if name == self._node or name in self._settings.discovery.forbid:
            return False
        hello = _told(hello)
        known = self.peers.get(name)
        if known is None and len(self.peers) >= MAX_NODES and not self._make_room(now):
            return False
        is_news = known is None or known.hello != hello
        self._is_stale |= is_news or name not in self._alive
        self.peers[name] = Heard(hello=hello, at_ns=now, said=said)
        return is_news

    def unchanged(self, name: NodeName, epoch: int, since: int) -> Heard | None:
        """What is known of a node that says: nothing has changed since my hello with that number.

        Args:
            name: of the node.
            epoch: in which it says so.
            since: counter of the first hello of this epoch with its present word.

        Returns:
            None where no hello with that word was heard, or a part of it counts no more: it has to be said again.
        """
        heard = self.peers.get(name)
        if heard is None or heard.said[0] != epoch or heard.said[1] < since:
            return None
        return heard

    def is_present(self, name: NodeName, now: int) -> bool:
        """Whether a node was heard by this process, and lately."""
        return name in self.peers and not self.peers[name].is_kept and self._is_alive(name, now)

    def unheard(self, now: int) -> frozenset[NodeName]:
        """The nodes that were heard once, and have been silent for longer than one that lives can be.

        None where nobody was heard just now, since the fault may be here. What an earlier process has heard counts from
        when this one began to listen.
        """
        if self._own is None or not any(
            now - heard.at_ns <= LATELY_NS for heard in self.peers.values() if not heard.is_kept
        ):
            return frozenset()
        silent_ns = {name: now - max(heard.at_ns, self._began_ns) for name, heard in self.peers.items()}
        return frozenset(name for name, ns in silent_ns.items() if ns > self.cadence_of(name).patience_ns)

    def hear_of(self, name: NodeName, at_ns: int) -> None:
        """A neighbour has heard a known node."""
        heard = self.peers[name]
        heard.at_ns = max(heard.at_ns, at_ns)

    def find_present(
        self, neighbour: Hello, told: Mapping[str, int], name_of: Callable[[str], NodeName | None]
    ) -> dict[NodeName, int]:
        """Known nodes that a neighbour has heard: how many nanoseconds ago each (`membership.presence`)."""

        def find(address: str) -> Hello | None:
            name = name_of(address)
            heard = self.peers.get(name) if name is not None else None
            return heard.hello if heard is not None else None

        return find_present(told, neighbour, self._own, find)

    def cadence_of(self, name: NodeName) -> Cadence:
        """How a node that is known greets this one."""
        heard, own = self.peers.get(name), self._own
        if heard is None or own is None:
            return CLOSE
        return self.crowds.cadence(heard.hello.home, own.home)

    def _is_alive(self, name: NodeName, now: int) -> bool:
        return now - self.peers[name].at_ns <= self.cadence_of(name).patience_ns

    def _is_gone(self, name: NodeName, now: int) -> bool:
        return now - self.peers[name].at_ns > max(self.forget_ns, self.cadence_of(name).patience_ns)

    def _make_room(self, now: int) -> bool:
        """Forget who has been silent for longest, as long as it is nobody who is alive."""
        name = min(self.peers, key=lambda each: self.peers[each].at_ns)
        if self._is_alive(name, now):
            return False
        del self.peers[name]
        return True

    def restore(self, hello: Hello, at_ns: int) -> None:
        """Take in what was kept from an earlier process, with the instant at which it was heard."""
        if hello.view.node not in {self._node, *self._settings.discovery.forbid}:
            # What was wrong when the file was written may have been put right since.
            kept = msgspec.structs.replace(_told(hello), faults=())
            self.peers[hello.view.node] = Heard(hello=kept, at_ns=at_ns, is_kept=True)
            self._is_stale = True

    def review(self, now: int) -> bool:
        """Think again, where there is a reason; returns whether the mesh in force has changed."""
        if now >= self._census_ns:
            self._take_census(now)
        deadline = self._leaders.deadline()
        if self._is_stale or (deadline is not None and deadline <= now):
            self._is_stale = False
            self._assemble(now)
        return self._settle(now)

    def deadline(self) -> int | None:
        """When `review` or `tell` may come to another result by the mere passing of time."""
        due = [self._census_ns, self._leaders.deadline(), self._home.deadline()]
        if self._pending is not None:
            due.append(self._due_ns())
        return min((instant for instant in due if instant is not None), default=None)

    def _take_census(self, now: int) -> None:
        """Who is alive, and who is to be forgotten."""
        self._census_ns = now + CENSUS_NS
        for name in [name for name in self.peers if self._is_gone(name, now)]:
            del self.peers[name]
            self._is_stale = True
        crowds = Crowds(self.hellos().values())
        if crowds.sizes != self.crowds.sizes:
            self.crowds, self._has_changed = crowds, True
        alive = self._who_is_alive(now)
        self._is_stale |= alive != self._alive
        self._note_watched(now)
        # What a dead node was suffering from nobody knows, and it would go on being believed in its name.
        for name, heard in self.peers.items():
            if name not in alive and heard.hello.faults:
                hushed = msgspec.structs.replace(heard.hello, faults=())
                self.peers[name] = Heard(hello=hushed, at_ns=heard.at_ns, is_kept=heard.is_kept)
                self._has_changed = True

    def _note_watched(self, now: int) -> None:
        """Which locations keep their places when more are found than can be watched."""
        locations = tuple(location.name for location in self._settled.location) if self._settled is not None else ()
        if locations != self._locations:
            self._locations, self._locations_since_ns = locations, now
        elif now - self._locations_since_ns >= ESTABLISHED_NS:
            self.watched = locations

    def take_changed(self) -> bool:
        """Whether a dead node's word counts no more, or locations have other sizes, since it was asked last."""
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def _who_is_alive(self, now: int) -> frozenset[NodeName]:
        return frozenset({self._node, *(name for name in self.peers if self._is_alive(name, now))})

    def _assemble(self, now: int) -> None:
        if self._own is None:
            return
        self._alive = self._who_is_alive(now)
        if is_whole(self._settings.mesh):
            self._assembly = Assembly(mesh=self._settings.mesh)
            return
        hellos = self.hellos()
        places, owners = place(hellos), addresses(hellos)
        members: dict[LocationName, list[NodeName]] = {}
        for name, location in places.items():
            members.setdefault(location, []).append(name)
        found = {location: claimant(names, hellos, self._alive, owners) for location, names in members.items()}
        leaders = self._leaders.settle(found, places, now)
        said = Said(hellos=hellos, places=places, leaders=leaders, alive=self._alive, watched=self.watched)
        self._assembly = assemble(said, self._own.view, self._settings)

    def _settle(self, now: int) -> bool:
        """Let a swarm of changes pass; what has become unknown stays as it was."""
        mesh = self._assembly.mesh
        if mesh is None or mesh == self._settled:
            self._pending = None
            return False
        if mesh != self._pending:
            if self._pending is None:
                self._pending_since_ns = now
            self._pending, self._changed_ns = mesh, now
        if now < self._due_ns():
            return False
        self._settled, self._pending = mesh, None
        return True

    def _due_ns(self) -> int:
        """When what is pending comes into force: soon where all of it was known to an earlier process."""
        if self._settled is not None:
            return min(self._changed_ns + QUIET_NS, self._pending_since_ns + LIMIT_NS)
        if self.peers and all(heard.is_kept for heard in self.peers.values()):
            return self._changed_ns
        limit_ns = self._pending_since_ns + FIRST_LIMIT_NS
        if self._pending is not None and len(self._pending.location) < 2:
            return limit_ns
        return min(self._changed_ns + FIRST_QUIET_NS, limit_ns)


def _told(hello: Hello) -> Hello:
    """What is kept of a hello: what no daemon says of itself, only somebody who has the key of the mesh adds."""
    view = hello.view.told()
    return hello if view is hello.view else msgspec.structs.replace(hello, view=view)


def complete(view: LocalView, former: LocalView) -> LocalView:
    """A view with what it lacks taken from an earlier one of the same node."""
    lacking = {field: getattr(former, field) for field in LASTING if not getattr(view, field)}
    # Traffic is steered by it, so it lasts where a kernel has shown it; what an agent said ends with the agent.
    if former.is_pod_cidr_in_kernel and view.pod_cidr in {"", former.pod_cidr}:
        lacking["is_pod_cidr_in_kernel"] = True
    elif "pod_cidr" in lacking:
        del lacking["pod_cidr"]
    return msgspec.structs.replace(view, **lacking)
