"""What is known of the mesh, from the objects that know it to the file and back (`adapters.storage.mesh_file`)."""

from __future__ import annotations

from typing import NamedTuple

from meshwatchd.adapters.storage.mesh_file import VERSION, Kept, KeptPeer
from meshwatchd.core.membership.replay_protection import Acquaintances
from meshwatchd.core.membership.roster import Roster
from meshwatchd.core.membership.validation import complaint
from meshwatchd.model.ids import NodeName
from meshwatchd.runtime.pair_keys import PairKeys


class Moment(NamedTuple):
    """One instant by both clocks, nanoseconds."""

    monotonic_ns: int
    wall_ns: int


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
