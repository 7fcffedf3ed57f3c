"""What is known of the mesh, from the objects that know it to the file and back (`adapters.storage.mesh_file`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from meshwatchd.adapters.storage import mesh_file
from meshwatchd.adapters.storage.background_writer import BackgroundWriter
from meshwatchd.adapters.storage.mesh_file import VERSION, Kept, KeptPeer
from meshwatchd.core.membership.replay_protection import Acquaintances
from meshwatchd.core.membership.roster import Roster
from meshwatchd.core.membership.validation import complaint
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND
from meshwatchd.runtime.clocks import Clocks
from meshwatchd.runtime.pair_keys import PairKeys

SAVE_GAP_NS: Final = 5 * SECOND
SAVE_ANYWAY_NS: Final = 600 * SECOND
"""The file follows what is known within seconds, and who was heard when within minutes."""


class Moment(NamedTuple):
    """One instant by both clocks, nanoseconds."""

    monotonic_ns: int
    wall_ns: int


class MeshKeeper:
    """Has the file follow what is known.

    Attributes:
        is_unsaved: something is known that the file does not say.
    """

    def __init__(
        self,
        folder: Path,
        node: NodeName,
        *,
        roster: Roster,
        known: Acquaintances,
        pairs: PairKeys,
        clocks: Clocks,
        complain: Callable[[str], object],
    ) -> None:
        self._node, self._clocks = node, clocks
        self._roster, self._known, self._pairs = roster, known, pairs
        self._writer = BackgroundWriter(functools.partial(mesh_file.save, folder), complain)
        self._saved_ns = clocks.monotonic_ns()
        self.is_unsaved = False

    def restore(self, kept: Kept | None) -> None:
        """Go on where the last process ended; the engine hears of the keys of pairs before anything else."""
        moment = self._moment()
        if kept is not None:
            restore(kept, moment, roster=self._roster, known=self._known, pairs=self._pairs)
        self._pairs.advance(moment.monotonic_ns)

    def deadline(self) -> int | None:
        """When there is something to write."""
        return self._saved_ns + SAVE_GAP_NS if self.is_unsaved else None

    def save_if_due(self) -> None:
        """Begin to write, if it is time."""
        age_ns = self._clocks.monotonic_ns() - self._saved_ns
        if age_ns >= SAVE_GAP_NS and (self.is_unsaved or age_ns >= SAVE_ANYWAY_NS):
            self._save()

    async def close(self) -> None:
        """Write what is not yet written, and wait for it."""
        if self.is_unsaved:
            self._save()
        await self._writer.close()

    def content(self) -> Kept:
        """What the next process has to know, as of now."""
        moment = self._moment()
        return to_keep(self._node, moment, roster=self._roster, known=self._known, pairs=self._pairs)

    def _moment(self) -> Moment:
        return Moment(monotonic_ns=self._clocks.monotonic_ns(), wall_ns=self._clocks.wall_ns())

    def _save(self) -> None:
        self.is_unsaved, self._saved_ns = False, self._clocks.monotonic_ns()
        self._writer.keep(self.content())


def restore(kept: Kept, moment: Moment, *, roster: Roster, known: Acquaintances, pairs: PairKeys) -> None:
    """Silence goes on counting from when the file was written; forgetting, by the wall clock."""
    now, wall_ns = moment
    for peer in kept.peers:
        if wall_ns - peer.heard_ns > roster.forget_ns:
            continue
        known.restore(peer.name, peer.epoch, peer.counter)
        if peer.hello is not None and not complaint(peer.hello):
            roster.restore(peer.hello, now - max(0, kept.saved_ns - peer.heard_ns))
    pairs.restore(kept.identities, kept.identity, now=now, wall_ns=wall_ns)


def to_keep(node: NodeName, moment: Moment, *, roster: Roster, known: Acquaintances, pairs: PairKeys) -> Kept:
    """What the next process has to know."""
    now, wall_ns = moment
    peers = roster.peers
    return Kept(
        version=VERSION,
        node=node,
        saved_ns=wall_ns,
        own=roster.own,
        leaders=roster.leaders,
        watched=roster.watched,
        peers=tuple(
            KeptPeer(
                name=NodeName(sender),
                hello=peers[NodeName(sender)].hello if sender in peers else None,
                heard_ns=wall_ns - (now - peers[NodeName(sender)].at_ns) if sender in peers else wall_ns,
                epoch=epoch,
                counter=counter,
            )
            for sender, epoch, counter in known.proven()
        ),
        identity=pairs.identity.public if pairs.identity is not None else None,
        identities=pairs.kept(now, wall_ns),
    )
