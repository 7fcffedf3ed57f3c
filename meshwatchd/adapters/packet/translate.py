"""Between the words on the wire (numbers, node ids) and the model's (names, enumerations)."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from meshwatchd.core.diagnosis.banner_windows import Parts, from_window, to_window
from meshwatchd.model.events import ActivePath, Banner, Coordination, CoordinationKind, Reason
from meshwatchd.model.generation import GENERATIONS
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.wire import mesh_tlv
from meshwatchd.wire.auth import node_id
from meshwatchd.wire.mesh_tlv import GossipEntry, MeshFields, OwnState, encode_gossip

_KINDS: Final = MappingProxyType(
    {
        CoordinationKind.PROPOSE: mesh_tlv.CoordinationKind.PROPOSE,
        CoordinationKind.GRANT: mesh_tlv.CoordinationKind.GRANT,
        CoordinationKind.REFUSE: mesh_tlv.CoordinationKind.REFUSE,
        CoordinationKind.NOTICE: mesh_tlv.CoordinationKind.NOTICE,
    }
)
_KINDS_BACK: Final = MappingProxyType({sent: kind for kind, sent in _KINDS.items()})

_REASONS: Final = tuple(Reason)
_REASON_CODES: Final = MappingProxyType({reason: code for code, reason in enumerate(_REASONS)})


class Dictionary:
    """Coordination messages, which name nodes and reasons by number."""

    def __init__(self, names: Iterable[NodeName]) -> None:
        self._names: dict[int, NodeName] = {}
        self.know(names)

    def know(self, names: Iterable[NodeName]) -> None:
        """The mesh has these nodes from here on."""
        self._names = {node_id(name): name for name in names}

    def encode(self, message: Coordination) -> mesh_tlv.Coordination:
        """The message as a probe carries it."""
        return mesh_tlv.Coordination(
            kind=_KINDS[message.kind],
            reason=_REASON_CODES[message.reason],
            pair=message.pair,
            rank=message.rank,
            generation=_fold(message.generation, message.relays),
            nonce=message.nonce,
            target_node_id=node_id(message.target),
        )

    def decode(self, message: mesh_tlv.Coordination) -> Coordination | None:
        """The message as the core takes it; None for a kind or a node that this version does not know."""
        kind, target = _KINDS_BACK.get(message.kind), self._names.get(message.target_node_id)
        if kind is None or target is None:
            return None
        is_known = message.reason < len(_REASONS)
        relays, generation = divmod(message.generation, _ROOM)
        return Coordination(
            kind=kind,
            pair=message.pair,
            rank=message.rank,
            generation=generation,
            nonce=message.nonce,
            target=target,
            reason=_REASONS[message.reason] if is_known else Reason.NONE,
            relays=relays,
        )


def own_state(banner: Banner, *, node: NodeName, epoch: int) -> OwnState:
    """What this node's packets say of it.

    The wire's bitmap "heard" is the banner's view: bit set = that leg is good. Paths beyond the eighth are
    not sent.
    """
    entries = tuple(
        GossipEntry(path.pair, path.rank, _fold(path.generation, path.relays), path.is_alarmed)
        for path in banner.active
    )
    return OwnState(
        node_id=node_id(node),
        epoch=epoch,
        flags=mesh_tlv.FLAG_BRIEF
        | (mesh_tlv.FLAG_ADMIN_DOWN if banner.is_admin_down else 0)
        | (mesh_tlv.FLAG_MISFIT if banner.has_misfit else 0),
        heard=to_window(banner.view_up, banner.window),
        known=to_window(banner.view_known, banner.window),
        gossip_block=encode_gossip(entries[:MAX_GOSSIP], banner.window),
    )


class Voice:
    """What this node says of itself to each node of a mesh of many locations; made anew when it has changed."""

    def __init__(self, parts: Parts, *, node: NodeName, epoch: int) -> None:
        self.parts = parts
        self._states = tuple(own_state(part, node=node, epoch=epoch) for part in parts.windows)

    def to(self, peer: NodeName) -> OwnState:
        """What the next packet to a node says."""
        return self._states[self.parts.window(peer)]

    def always_to(self, peer: NodeName) -> OwnState | None:
        """What every packet to a node says; None for one that is told one part after the other."""
        return None if self.parts.is_in_turn(peer) else self.to(peer)


MAX_GOSSIP: Final = 8


def banner_of(mesh: MeshFields) -> Banner:
    """What the sender of a packet says of itself."""
    return _banner(mesh.heard, mesh.known, mesh.gossip, (mesh.flags & mesh_tlv.NODE_FLAGS, mesh.window))


# Banners change when something happens, and come with each packet.
@functools.lru_cache(maxsize=1024)
def _banner(heard: int, known: int, gossip: tuple[GossipEntry, ...], flags_and_window: tuple[int, int]) -> Banner:
    flags, window = flags_and_window
    active = tuple(
        ActivePath(
            pair=entry.pair,
            rank=entry.rank,
            generation=entry.generation % _ROOM,
            relays=entry.generation // _ROOM,
            is_alarmed=entry.is_alarmed,
        )
        for entry in gossip
    )
    return Banner(
        view_up=from_window(heard, window),
        view_known=from_window(known, window),
        active=active,
        is_admin_down=bool(flags & mesh_tlv.FLAG_ADMIN_DOWN),
        has_misfit=bool(flags & mesh_tlv.FLAG_MISFIT),
        window=window,
    )


_ROOM: Final = GENERATIONS + 1
"""The field of 32 bits holds the fingerprint of the relays in its first byte, and a generation in the other three."""


def _fold(generation: int, relays: int) -> int:
    return relays * _ROOM + generation


LAYERS: Final = MappingProxyType({int(layer): layer for layer in Layer})
"""Layers by their number on the wire; a later version may send others."""


def session_flags(layer: Layer, flow: FlowClass) -> int:
    """The flags that stay the same in all probes of a session."""
    fresh = mesh_tlv.FLAG_FRESH if flow is FlowClass.FRESH else 0
    return fresh | (mesh_tlv.FLAG_EFFECTIVE if layer is Layer.EFFECTIVE else 0)


def flow_of(flags: int) -> FlowClass:
    """The class a request says it is of."""
    return FlowClass.FRESH if flags & mesh_tlv.FLAG_FRESH else FlowClass.PINNED
