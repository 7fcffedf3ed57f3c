"""One node's packet adapters on loopback, and packets made by hand to send to them."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.address import family_of, pack_address
from meshwatchd.adapters.packet.mmsg import ReceiveBatch
from meshwatchd.adapters.packet.peers import Budgets, Peers
from meshwatchd.adapters.packet.prober import Prober
from meshwatchd.adapters.packet.reflector import Reflector
from meshwatchd.adapters.packet.stamps import SO_TIMESTAMPNS, STAMP_BYTES, arrival_wall_ns
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import Banner, Event
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.wire.auth import MeshKeys, MeshSecret, PairKey
from meshwatchd.wire.mesh_tlv import OwnState
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate
from meshwatchd.wire.tlv import Tlv

NAMES = (NodeName("a1"), NodeName("b1"), NodeName("b2"))
SECRET = MeshSecret(secret=bytes(range(32)))
BUDGETS = Budgets(peer_per_s=2_000, all_per_s=20_000)
ADDRESS = "127.0.0.1"
WAIT_NS = 10_000_000
"""How long a packet waits in its socket before it is read."""


class PacketNode:
    """Prober and reflector of one node, sharing a poller with others.

    Attributes:
        events: what they reported.
    """

    def __init__(
        self,
        name: str,
        poller: Poller,
        *,
        routed_port: int = 1,
        max_open: int = 8,
        max_outstanding: int = 100,
        budgets: Budgets | None = None,
    ) -> None:
        self.name = NodeName(name)
        self.events: list[Event] = []
        self.counters: Counter[str] = Counter()
        self.peers = Peers(MeshKeys(name, [SECRET]), NAMES, budgets or BUDGETS)
        self.dictionary = translate.Dictionary(NAMES)
        self.prober = Prober(
            poller=poller,
            peers=self.peers,
            dictionary=self.dictionary,
            own=self.own(),
            counters=self.counters,
            emit=self.events.append,
            max_open=max_open,
            max_outstanding=max_outstanding,
        )
        self.reflector = Reflector(
            poller=poller,
            peers=self.peers,
            dictionary=self.dictionary,
            own=self.own(),
            counters=self.counters,
            emit=self.events.append,
            routed_port=routed_port,
        )

    def own(self, banner: Banner | None = None) -> OwnState:
        """What the node says of itself."""
        return translate.own_state(banner or Banner(), node=self.name, epoch=1000 + len(self.name))

    def close(self) -> None:
        """Close all sockets."""
        self.prober.close()
        self.reflector.listeners.close()


@contextmanager
def nodes(*names: str, budgets: Budgets | None = None) -> Iterator[tuple[Poller, list[PacketNode]]]:
    """Some nodes on one poller; everything is closed at the end."""
    poller = Poller()
    made = [PacketNode(name, poller, budgets=budgets) for name in names]
    try:
        yield poller, made
    finally:
        for node in made:
            node.close()
        poller.close()


def plan(
    port: int, *, peer: str = "b1", flow: FlowClass = FlowClass.FRESH, session: int = 0, address: str = ADDRESS
) -> SessionPlan:
    """A session over loopback."""
    return SessionPlan(
        session=SessionId(session),
        peer=NodeName(peer),
        layer=Layer.RELAY,
        path=1,
        flow=flow,
        source=address,
        destination=address,
        port=port,
    )


def send(seq: int = 0, *, source_port: int = 0, session: int = 0) -> SendProbe:
    """A command for a session; without a port given, one that is free."""
    return SendProbe(session=SessionId(session), seq=seq, source_port=source_port or free_port())


def free_port(address: str = "") -> int:
    """A UDP port nobody uses at the moment, on this address or on all of IPv4."""
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def udp(address: str = ADDRESS, port: int = 0) -> socket.socket:
    """A plain socket that plays the other side; waits at most two seconds."""
    plain = socket.socket(family_of(address), socket.SOCK_DGRAM)
    plain.bind((address, port))
    plain.settimeout(2)
    return plain


@contextmanager
def stamping_kernel() -> Iterator[None]:
    """Hold receive timestamps switched on, and be sure that they are.

    The kernel switches them on for the first socket that asks, from a work queue; a packet that comes before is stamped
    when it is read (net_enable_timestamp() in net/core/dev.c, __sock_recv_timestamp() in net/socket.c).
    """
    batch = ReceiveBatch(1, 16, STAMP_BYTES)
    with udp() as stamped, udp() as idle:
        stamped.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        idle.settimeout(WAIT_NS / 1e9)
        for _ in range(100):
            stamped.sendto(b"?", stamped.getsockname())
            with suppress(TimeoutError):
                idle.recv(1)
            [(_data, _name, control)] = batch.receive(stamped.fileno())
            read_ns = time.time_ns()
            if read_ns - arrival_wall_ns(control, read_ns) >= WAIT_NS // 2:
                break
        else:
            raise AssertionError("the kernel stamps no packet on arrival")
        yield


def key(signer: str, receiver: str) -> PairKey:
    """The keys between two nodes as the signer holds them."""
    return MeshKeys(signer, [SECRET]).add_peer(receiver)


def request(
    signer: str = "a1",
    receiver: str = "b1",
    *,
    sequence: int = 1,
    layer: int = 5,
    epoch: int = 7,
    address: str = ADDRESS,
    extra_tlvs: tuple[Tlv, ...] = (),
    signed: PairKey | None = None,
) -> bytes:
    """A valid probe, unless it is signed with another key than the mesh's."""
    own = translate.own_state(Banner(), node=NodeName(signer), epoch=epoch)
    spec = ProbeSpec(ssid=1, path=1, layer=layer, destination=pack_address(address), extra_tlvs=extra_tlvs)
    template = ProbeTemplate(spec, key=signed or key(signer, receiver), own=own)
    return bytes(template.seal(sequence, 10_000 + sequence))
