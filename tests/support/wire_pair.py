"""Two nodes that share a secret, a1 and b1, and the packets between them."""

from __future__ import annotations

from ipaddress import ip_address

from meshwatchd.wire.answer import Reflector
from meshwatchd.wire.auth import MeshKeys, MeshSecret, node_id
from meshwatchd.wire.mesh_tlv import FLAG_FRESH, Coordination, CoordinationKind, GossipEntry, OwnState, encode_gossip
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.reflect import reflect
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate

SECRET = MeshSecret(secret=bytes(range(32)))
A1, B1 = "a1", "b1"
B1_ADDRESS = ip_address("10.2.0.11").packed

TO_B1 = MeshKeys(A1, [SECRET]).add_peer(B1)
"""The keys as a1 holds them."""
TO_A1 = MeshKeys(B1, [SECRET]).add_peer(A1)
"""The same keys as b1 holds them."""

GOSSIP = (GossipEntry(0, 1, 7), GossipEntry(3, 0, 2**32 - 1))
A1_STATE = OwnState(node_id=node_id(A1), epoch=0x1122_3344_5566_7788, heard=0b01, known=0b11)
B1_STATE = OwnState(node_id=node_id(B1), epoch=2**64 - 1, heard=2**32 - 1, known=5, gossip_block=encode_gossip(GOSSIP))
REFLECTOR = Reflector(addresses=frozenset({B1_ADDRESS}))

COORDINATION = Coordination(
    kind=CoordinationKind.PROPOSE,
    reason=2,
    pair=1,
    rank=3,
    generation=77,
    nonce=2**63 + 5,
    evidence_hundredths=1234,
    target_node_id=node_id(B1),
)
SPEC = ProbeSpec(ssid=9, path=1, layer=5, flags=FLAG_FRESH, destination=B1_ADDRESS)

RX_NTP, TX_NTP = 0xEC00_0000_8000_0000, 0xEC00_0000_8000_4000


def request(spec: ProbeSpec = SPEC, *, sequence: int = 41, timestamp_ntp: int = 0xEC00_0000_0000_0001) -> bytes:
    """A probe of a1 for b1."""
    return bytes(ProbeTemplate(spec, key=TO_B1, own=A1_STATE).seal(sequence, timestamp_ntp))


def received(packet: bytes) -> ParsedProbe:
    """A request as b1 sees it, which must verify."""
    parsed = verify_and_parse(packet, TO_A1)
    assert isinstance(parsed, ParsedProbe), parsed
    return parsed


def answer(packet: bytes, *, reflector: Reflector = REFLECTOR) -> bytes:
    """What b1 answers to a request of a1."""
    return reflect(
        packet,
        received(packet),
        key=TO_A1,
        own=B1_STATE,
        reflector=reflector,
        reflector_sequence=1000,
        rx_ntp=RX_NTP,
        tx_ntp=TX_NTP,
        ttl=63,
    )


def answered(packet: bytes) -> ParsedProbe:
    """An answer as a1 sees it, which must verify."""
    parsed = verify_and_parse(packet, TO_B1)
    assert isinstance(parsed, ParsedProbe), parsed
    return parsed
