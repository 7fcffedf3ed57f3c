"""What was known of the mesh, in a file: a node that boots alone still knows whom to watch and whom to believe.

Versioned, replaced as a whole, and moved aside when it makes no sense: hellos will tell all of it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.core.membership.identities import Step
from meshwatchd.core.membership.validation import complaint
from meshwatchd.model.discovery import Hello
from meshwatchd.model.identity import PublicIdentity
from meshwatchd.model.ids import LocationName, NodeName

VERSION: Final = 1
FILE_NAME: Final = "mesh.json"
MAX_BYTES: Final = 8 * 1024 * 1024
"""2 048 nodes of 1 200 bytes, three times over."""


class KeptPeer(msgspec.Struct, frozen=True, kw_only=True):
    """One peer.

    Attributes:
        hello: its last word; None for one that was only proven.
        heard_ns: when, nanoseconds since 1970.
        epoch, counter: what was proven of it; hellos from before are refused.
    """

    name: NodeName
    hello: Hello | None
    heard_ns: int
    epoch: int
    counter: int


class KeptIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a name, which no other one may take.

    Attributes:
        step: its last word on the key of the pair.
        since_ns: when it said that first, nanoseconds since 1970.
        heard_ns: when it was heard last, nanoseconds since 1970.
    """

    name: NodeName
    identity: PublicIdentity
    step: Step
    since_ns: int
    heard_ns: int


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The file.

    Attributes:
        node: whose it is; a copied disk brings somebody else's.
        saved_ns: nanoseconds since 1970.
        own: what this node last told.
        leaders: who led which location.
        watched: locations that had been part of the mesh for long.
        identity: this node's own, to which the words of all others refer.
        identities: of the others.
    """

    version: int
    node: NodeName
    saved_ns: int
    own: Hello | None = None
    leaders: dict[LocationName, NodeName] = {}
    watched: tuple[LocationName, ...] = ()
    peers: tuple[KeptPeer, ...] = ()
    identity: PublicIdentity | None = None
    identities: tuple[KeptIdentity, ...] = ()


class Loaded(NamedTuple):
    """What was found; `problem` says why there is nothing although there was a file."""

    kept: Kept | None
    problem: str = ""


def _file(folder: Path) -> VersionedFile[Kept]:
    return VersionedFile(folder / FILE_NAME, Kept, version=VERSION, max_bytes=MAX_BYTES, mode=0o600)


def save(folder: Path, kept: Kept) -> str:
    """Replace the file; returns why it could not be done, or not as a whole, or nothing."""
    excess_bytes = len(msgspec.json.encode(kept)) - MAX_BYTES
    fitting = _without_hellos(kept, excess_bytes) if excess_bytes > 0 else kept
    problem = _file(folder).save(fitting, "what is known of the mesh is forgotten at the next restart")
    if problem or fitting is kept:
        return problem
    # No number is in it: the same sentence is logged once in a while, and another one each time.
    return (
        f"{folder / FILE_NAME}: would be larger than {MAX_BYTES} bytes; the largest hellos are left out, and their"
        " nodes are to be heard again after a restart; look for nodes that are not yours: meshwatchctl topology"
    )


def _without_hellos(kept: Kept, excess_bytes: int) -> Kept:
    """What is smaller by so much, if hellos have as much.

    The largest go first, which are the fewest: those of a mesh are a third of what there is room for. Identities stay,
    since who has the mesh key could take the name of any node that is forgotten; a hello comes again within seconds.
    """
    sizes = {each.name: len(msgspec.json.encode(each.hello)) for each in kept.peers if each.hello is not None}
    left_out: set[NodeName] = set()
    for name in sorted(sizes, key=lambda each: (-sizes[each], each)):
        if excess_bytes <= 0:
            break
        left_out.add(name)
        excess_bytes -= sizes[name] - len("null")
    peers = (msgspec.structs.replace(each, hello=None) if each.name in left_out else each for each in kept.peers)
    return msgspec.structs.replace(kept, peers=tuple(peers))


def load(folder: Path, node: str) -> Loaded:
    """What an earlier process of this node has left."""
    kept, problem = _file(folder).load()
    if kept is not None and kept.node != node:
        path = folder / FILE_NAME
        return Loaded(None, f"{path} is of node {kept.node}, and this is {node}; started without it")
    if kept is not None and kept.own is not None and (wrong := complaint(kept.own)):
        # What a peer would refuse: a disk that has turned a digit over. Peers' hellos are looked at one by one.
        problem = f"{folder / FILE_NAME}: {wrong}; what this node last told of itself is not used"
        return Loaded(msgspec.structs.replace(kept, own=None), problem)
    return Loaded(kept, problem)
