"""Questions about ways between nodes, asked and answered: `wire.way_question` over `adapters.way_socket`.

    ASK    --signed, for this node--> REACHED, at once, by the port it came in by
    VOUCH  --likewise, about a node that is known--> that node is ASKed directly and in the overlay --> VOUCHED

What is not signed uses up nothing but time: so many datagrams a second are looked at, and those that are signed are
counted by themselves. Of those that have this node ask another one fewer are taken, and each once.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from meshwatchd.adapters import way_socket
from meshwatchd.adapters.host.proc import read_forwarding
from meshwatchd.adapters.way_socket import Asked
from meshwatchd.model.errors import KernelError
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outer_reroute import FarNode, Relay, Way, WayAnswer, WayQuestion
from meshwatchd.model.port_map import direct_port, relayed_port
from meshwatchd.model.settings import AuthSettings, MeshSettings
from meshwatchd.model.topology import Node
from meshwatchd.runtime.sinks import Warns
from meshwatchd.runtime.tap_listener import KeyFiles
from meshwatchd.wire.auth import PairKey, Purpose, node_id
from meshwatchd.wire.way_question import WayContent, WayKind, WayMessage, decode, encode, find_pair

TIMEOUT_S: Final = 0.4
VOUCH_S: Final = 0.25
"""Of the question that a neighbour asks: its answer has to be back in time."""
RETRY_S: Final = 30.0
LOOKED_AT_PER_S: Final = 5_000
SIGNED_PER_S: Final = 500
"""Twenty nodes that have lost their way here ask so much, each by four neighbours."""
UDP_BYTES: Final = 28
"""Of the headers of IPv4 and UDP."""
VOUCHED_PER_S: Final = 50
"""Each has this node open two sockets; three neighbours that miss eight nodes each ask so much."""

Mesh = Callable[[], MeshSettings]


class WayDesk:
    """One node's.

    Args:
        is_willing: whether this node may be made a relay: nobody has taken it out of service.
    """

    def __init__(
        self,
        node: str,
        auth: AuthSettings,
        probe_port: int,
        *,
        mesh: Mesh,
        is_willing: Callable[[], bool],
        log: Warns,
    ) -> None:
        self._node, self._mesh, self._is_willing, self._log = NodeName(node), mesh, is_willing, log
        self._keys = KeyFiles(node, auth, mesh, purpose=Purpose.WAYS)
        self._ports = {Way.DIRECT: direct_port(probe_port), Way.RELAYED: relayed_port(probe_port)}
        self._second, self._seen, self._signed = 0, 0, 0
        self._vouches: set[tuple[str, int]] = set()
        self._former: set[tuple[str, int]] = set()
        self._vouching: asyncio.TaskGroup | None = None

    def bind(self, bindings: Sequence[PairBinding]) -> None:
        """Take over how questions of some nodes are signed."""
        self._keys.bind(bindings)

    # --- asked ---

    async def serve(self) -> None:
        """Answer for ever; a port that is taken is tried again."""
        while True:
            try:
                await self._serve()
            except KernelError as error:
                self._log.warning("ways.unheard", error=str(error))
            await asyncio.sleep(RETRY_S)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        with (
            closing(way_socket.listen(self._ports[Way.DIRECT])) as direct,
            closing(way_socket.listen(self._ports[Way.RELAYED])) as relayed,
        ):
            try:
                async with asyncio.TaskGroup() as self._vouching:
                    for opened in (direct, relayed):
                        loop.add_reader(opened, self._receive, opened)
                    await asyncio.Event().wait()
            finally:
                for opened in (direct, relayed):
                    loop.remove_reader(opened)

    def _receive(self, opened: socket.socket) -> None:
        asked = way_socket.receive(opened)
        found = self.read(asked.datagram) if asked is not None else None
        if asked is None or found is None:
            return
        message, pair = found
        if message.kind is WayKind.ASK:
            content = WayContent(sender=self._node, target=message.content.sender, seen=asked.sender[0])
            self._answer(opened, asked, pair, WayMessage(kind=WayKind.REACHED, nonce=message.nonce, content=content))
        elif message.kind is WayKind.VOUCH and self._vouching is not None and self._is_new(message):
            self._vouching.create_task(self._vouch(opened, asked, message, pair))

    def read(self, datagram: bytes) -> tuple[WayMessage, PairKey] | None:
        """A question for this node, and the keys to answer it with; None for whatever else came in."""
        keys = self._keys.read() if self._is_affordable() else None
        pair = find_pair(datagram, keys) if keys is not None else None
        if not isinstance(pair, PairKey):
            return None
        message = decode(datagram, pair)
        if not isinstance(message, WayMessage) or message.content.target != self._node:
            return None
        self._signed += 1
        return (message, pair) if self._signed <= SIGNED_PER_S else None

    async def _vouch(self, opened: socket.socket, asked: Asked, message: WayMessage, pair: PairKey) -> None:
        """Ask the node in question, past every rule of ours and in the overlay, and report.

        A node whose host answers and whose overlay does not would be vouched for by everybody: no relay helps there.
        """
        third = self._find(message.content.about)
        own = self._find(self._node)
        if third is None or own is None:
            return
        port, ways = self._ports[Way.DIRECT], ((own.node_ip, third.node_ip), (own.overlay_ip, third.overlay_ip))
        is_known = all(address for way in ways for address in way)
        asks = (self._ask(third.name, source, (to, port), timeout_s=VOUCH_S) for source, to in ways if is_known)
        came = await asyncio.gather(*asks)
        content = WayContent(
            sender=self._node,
            target=message.content.sender,
            seen=asked.sender[0],
            is_reached=is_known and None not in came,
            is_willing=self._is_willing() and read_forwarding() is not False,
        )
        self._answer(opened, asked, pair, WayMessage(kind=WayKind.VOUCHED, nonce=message.nonce, content=content))

    @staticmethod
    def _answer(opened: socket.socket, asked: Asked, pair: PairKey, message: WayMessage) -> None:
        way_socket.answer(opened, asked, encode(message, pair, size=len(asked.datagram)))

    def _find(self, name: str) -> Node | None:
        return next((node for node in self._mesh().node if node.name == name), None)

    def _is_new(self, message: WayMessage) -> bool:
        """Whether it is none that was asked within a second, by somebody who replays it, and none too many."""
        name = (message.content.sender, message.nonce)
        if name in self._vouches or name in self._former or len(self._vouches) >= VOUCHED_PER_S:
            return False
        self._vouches.add(name)
        return True

    def _is_affordable(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._seen, self._signed = second, 0, 0
            self._former, self._vouches = self._vouches, set()
        self._seen += 1
        return self._seen <= LOOKED_AT_PER_S

    # --- asking ---

    async def ask(self, question: WayQuestion, far: FarNode, relay: Relay | None, mtu_bytes: int) -> WayAnswer | None:
        """Ask one question.

        Args:
            question: which.
            far: the node that it is about.
            relay: whom a question for vouching goes to.
            mtu_bytes: of the device, for a question of full size.
        """
        own = self._find(self._node)
        if own is None:
            return None
        direct, relayed = self._ports[Way.DIRECT], self._ports[Way.RELAYED]
        match question.way:
            case Way.DIRECT:
                return await self._ask(far.name, own.node_ip, (far.address, direct))
            case Way.RELAYED:
                size = mtu_bytes - UDP_BYTES if question.is_full else 0
                return await self._ask(far.name, own.node_ip, (far.address, relayed), size=size)
            case Way.OVERLAY:
                return await self._ask(far.name, own.overlay_ip, (far.overlay, direct))
            case Way.VOUCHED:
                if relay is None:
                    return None
                return await self._ask(relay.name, relay.source, (relay.address, direct), about=far.name)

    async def _ask(
        self,
        name: str,
        source: str,
        to: tuple[str, int],
        *,
        about: str = "",
        size: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> WayAnswer | None:
        keys = self._keys.read()
        if keys is None or keys.name(node_id(name)) is None:
            return None  # it has just come, and is admitted when keys are read again
        kind, wanted = (WayKind.VOUCH, WayKind.VOUCHED) if about else (WayKind.ASK, WayKind.REACHED)
        nonce = secrets.randbits(64)
        pair = keys.sending(name)
        content = WayContent(sender=self._node, target=NodeName(name), about=NodeName(about))
        answers: list[WayContent] = []

        def is_answer(datagram: bytes) -> bool:
            back = find_pair(datagram, keys)
            message = decode(datagram, back) if isinstance(back, PairKey) else None
            is_ours = isinstance(message, WayMessage) and (message.kind, message.nonce) == (wanted, nonce)
            if not is_ours or not isinstance(message, WayMessage):
                return False
            if (message.content.sender, message.content.target) != (name, self._node):
                return False
            answers.append(message.content)
            return True

        datagram = encode(WayMessage(kind=kind, nonce=nonce, content=content), pair, size=size)
        await way_socket.ask(datagram, source=source, to=to, timeout_s=timeout_s, is_answer=is_answer)
        if not answers:
            return None
        said = answers[0]
        is_plain = kind is WayKind.ASK
        return WayAnswer(seen=said.seen, is_reached=is_plain or said.is_reached, is_willing=is_plain or said.is_willing)
