"""Every decoder of foreign bytes, with inputs that it accepts: what `tests.property.fuzz` mutates.

What may come out of a decoder is a value or one of its refusals. Where a value goes on to the other process, encoding
it as a frame is part of the decoder here. What is signed is signed again after the mutation, since nothing behind a tag
is looked at before that fits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import structlog
import tomli_w

from meshwatchd.adapters import arp
from meshwatchd.adapters.control import interface, methods, operator_requests, varlink
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.netlink import (
    compact,
    conntrack,
    fibrule,
    foreign_rules,
    message,
    monitor,
    objects,
    rule_text,
    rules,
)
from meshwatchd.adapters.packet import delivery, stamps
from meshwatchd.adapters.service import cluster_dns
from meshwatchd.adapters.service import memory as service_memory
from meshwatchd.adapters.sources import (
    cilium_clusters,
    cilium_nodes,
    flannel_files,
    http,
    kilo_graph,
    kilo_metrics,
    quick_file,
)
from meshwatchd.adapters.storage import event_store, mesh_file, policy_file
from meshwatchd.adapters.storage.journal import checkpoint, records
from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.adapters.tap import decode as tap_decode
from meshwatchd.adapters.tap import marks, questions
from meshwatchd.adapters.wireguard import genl, glance, registry, uapi
from meshwatchd.config.load import load
from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.operators.incidents import IncidentTracker
from meshwatchd.model import events as ev
from meshwatchd.model.audit import OverlayFigures
from meshwatchd.model.bisection import BisectResult
from meshwatchd.model.decoding import Door, decode_frame, decode_json
from meshwatchd.model.errors import ConfigError, DecodeError, JournalError
from meshwatchd.model.frames import AliveFrame, EventFrame, StateFrame, StatusAskedFrame, StatusFrame, ToAgent, ToEngine
from meshwatchd.model.ids import NodeName
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.model.settings import MetricsSettings, Settings
from meshwatchd.model.stamp import StampMode
from meshwatchd.runtime import boot
from meshwatchd.runtime.liqo_watch import LiqoMemory
from meshwatchd.runtime.metrics import Metrics
from meshwatchd.wire import standard_probe, standard_reflect, standard_tlv
from meshwatchd.wire import tap_request as tap
from meshwatchd.wire import tlv as tlvs
from meshwatchd.wire import way_question as ways
from meshwatchd.wire.auth import TAG_BYTES, MeshKeys, PairKey, Purpose
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.reflect import reflect
from meshwatchd.wire.seal import peek, sign
from meshwatchd.wire.signed_datagram import Rejection
from tests.property import service_samples as service
from tests.property.hello_samples import HELLOS, SHORT_HELLOS, read_hello, read_short_hello
from tests.property.wireguard_samples import UAPI, WIREGUARD
from tests.support import liqo_node
from tests.support.example_bisection import RESULT
from tests.support.example_status import HEALTHY
from tests.support.fake_rtnl import (
    address_body,
    connection_body,
    fdb_body,
    link_body,
    neighbour_body,
    route_of,
    rule_body,
)
from tests.support.hellos import hello as example_hello
from tests.support.rules import rule_body as foreign_body
from tests.support.service_frames import ANSWERED, ASKED
from tests.support.wire_pair import B1_STATE, REFLECTOR, RX_NTP, SECRET, SPEC, TO_A1, TX_NTP, request

PATH = Path("/etc/example")


class Decoder(NamedTuple):
    """One decoder.

    Attributes:
        decode: what is called with each input.
        seeds: inputs that it accepts.
        refusals: what it may raise besides a DecodeError.
        share: of the inputs, 1 for an ordinary one; less for a slow one.
    """

    decode: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    refusals: tuple[type[Exception], ...] = ()
    share: float = 1.0


def _told(decode: Callable[..., object], *more: object) -> Callable[[bytes], object]:
    """A decoder whose value is told to the engine."""
    return lambda data: msgspec.msgpack.encode(decode(data, *more))


def _text(decode: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: msgspec.msgpack.encode(decode(data.decode("ascii", errors="replace")))


def _file(kind: type[msgspec.Struct], *, max_bytes: int = 1 << 20) -> Callable[[bytes], object]:
    file: VersionedFile[Any] = VersionedFile(PATH, kind, version=1, max_bytes=max_bytes, mode=0o600)
    return lambda data: msgspec.msgpack.encode(file._decode(data))


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)


# --- control socket, HTTP, frames, files ---


def _asking(method: str, **parameters: object) -> bytes:
    return varlink.encode_call(f"{interface.CONTROL}.{method}", parameters)[:-1]


def _call(data: bytes) -> None:
    """A call is decoded as what it is, and its parameters as those of its method."""
    for part in varlink.Splitter(varlink.MAX_MESSAGE_BYTES).feed(data + b"\0"):
        call = varlink.decode_call(part)
        name = call.method.rpartition(".")[2]
        method = interface.METHODS.get(name)
        parameters = methods._decode(call, interface.DescriptionParameters if method is None else method.takes)
        if isinstance(parameters, operator_requests.FailoverParameters | operator_requests.OrderParameters):
            msgspec.msgpack.encode(methods._request(ev.OperatorVerb(name.lower()), parameters))


_METRICS = Metrics(
    MetricsSettings(), lambda: (None, OverlayFigures()), structlog.get_logger(), refresh=lambda: asyncio.sleep(0)
)
_POLICY = policy_file._Stored(version=1, boot="x", wall_ns=1, monotonic_ns=2, state=PolicyState())
_MESH = mesh_file.Kept(version=1, node=example_hello("a1").view.node, saved_ns=7, own=example_hello("a1"))
_LINKS = {
    "version": 1,
    "links": [{"device": "mw0", "index": 4, "boot_id": "x", "process": {"pid": 7, "start_ticks": 9}}],
}
_TO_ENGINE: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToEngine)
_TO_AGENT: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToAgent)


def _journal() -> bytes:
    encoder, content = records.RecordEncoder(0), bytearray()
    encoder.encode(ev.Tick(), 5, [], content)
    encoder.encode(ev.Tick(heard_ns=7), 9, [], content)
    encoder.encode(ev.AgentLost(exit_status=1), 11, [], content)
    return bytes(content)


def _checkpoint() -> bytes:
    header = msgspec.msgpack.encode(checkpoint.Header(program="x", node="a1", at_ns=5, wall_ns=7))
    return len(header).to_bytes(4, "little") + header + b"pickled"


def _split(data: bytes) -> None:
    """What is behind the digest; unpickling is for files that nobody else can have written."""
    checkpoint._split(PATH, checkpoint.MAGIC + checkpoint._digest(data) + data)


def _replay(data: bytes) -> None:
    with Door("journal"):
        for _ in records.decode(data, 0):
            pass


def _configuration(data: bytes) -> Settings:
    """From a file that is memory, for load() takes a path; each process has its own."""
    with os.fdopen(os.memfd_create("configuration"), "wb") as file:
        file.write(data)
        file.flush()
        return load(Path(f"/proc/self/fd/{file.fileno()}"))


_TOML = {
    "daemon": {"node": "b2", "mode": "observe"},
    "probe": {"port": 8620, "packets_per_second": 500},
    "standby": {"port": 51830, "implementation": "auto"},
}

_GRAPH = (
    b'digraph kilo { label="10.4.0.0/16"; "b1"->"a1"[ dir=both ]; subgraph "c" { label="location:cloud"; "b1" ['
    b'label="location:cloud\\nb1\\n10.244.4.0/24\\n10.2.0.11\\n10.4.0.1\\n198.51.100.21:51820", rank=1 ]; } }'
)
_NODES = (
    b'{"self":"k/a1","nodes-added":[{"name":"k/a1","primary-address":{"ipv4":{"enabled":true,"ip":"10.2.0.11",'
    b'"alloc-range":"10.244.1.0/24"}},"secondary-addresses":[{"ip":"10.244.1.7"}]}]}'
)
_CLUSTERS = (
    b'{"cluster-mesh":{"clusters":[{"name":"west","connected":true,"ready":false,"status":"etcd","num-failures":2}]}}'
)
_QUICK = (
    b"[Interface]\nAddress = 10.8.0.3/24, fd00:8::3/64\nListenPort = 51820\nMTU = 1420\n[Peer]\nPublicKey = "
    b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\nEndpoint = x.example:51820\nAllowedIPs = 10.8.0.1/32\n"
)

# --- netlink ---


def _route(data: bytes) -> None:
    packed = compact.pack_route(data)
    for value in packed[1] if packed else ():
        compact.unpack_route(packed[0] if packed else b"", value)
        objects.describe_route(packed[0] if packed else b"", value, {})
        compact.first_hop(value)


def _packed(pack: Callable[[bytes], Any], unpack: Callable[[bytes, bytes], object]) -> Callable[[bytes], object]:
    def decode(data: bytes) -> None:
        packed = pack(data)
        if packed is not None:
            unpack(packed[0], packed[1][0])

    return decode


def _neighbour(key: bytes, value: bytes) -> None:
    objects.render_address(compact.unpack_neighbour(key, value).address)


_ROUTE = route_of(Route(dst="10.244.1.0/24", table=7700, dev="mw0", via="10.4.0.1", src="10.4.0.2"), 7).body()
_LINK_BODY = link_body(3, "flannel.1", kind="vxlan")
_GENEVE_BODY = link_body(3, "liqo.0a1b2c3d4e") + message.encode_attribute(
    18,
    message.encode_attribute(1, b"geneve\0")
    + message.encode_attribute(2, message.encode_attribute(1, bytes(4)) + message.encode_attribute(2, bytes(4))),
)


def _describe_foreign(data: bytes) -> None:
    foreign_rules.describe_foreign((data,), 117)
    foreign_rules.describe_destinations((data,), 117)


_RULE = rule_body(Rule(priority=5410, table=7740, sport=(10_000, 29_999), dport=(8620, 8620)))
_ATTRIBUTE = message.encode_attribute

# --- packets ---

_TAPS_AT_A1, _TAPS_AT_B1 = (MeshKeys(node, [SECRET], Purpose.TAPS) for node in ("a1", "b1"))
_TAPS_OF_B1, _TAPS_OF_A1 = _TAPS_AT_A1.add_peer("b1"), _TAPS_AT_B1.add_peer("a1")
_TAP = tap.TapMessage(
    kind=tap.TapKind.BEGIN, nonce=7, content=tap.TapContent(sender=NodeName("a1"), target=NodeName("b1"), ssid=9)
)

_WAYS_AT_A1, _WAYS_AT_B1 = (MeshKeys(node, [SECRET], Purpose.WAYS) for node in ("a1", "b1"))
_WAYS_OF_B1, _WAYS_OF_A1 = _WAYS_AT_A1.add_peer("b1"), _WAYS_AT_B1.add_peer("a1")
_WAY = ways.WayMessage(
    kind=ways.WayKind.VOUCH,
    nonce=7,
    content=ways.WayContent(sender=NodeName("a1"), target=NodeName("b1"), about=NodeName("c1")),
)


_EVENTS = (
    {"event": "verdict.changed", "at_ns": 5, "boot": "y", "pair": 0, "location": "cloud", "severity": "critical"},
    {"event": "fault.raised", "at_ns": 5, "incident": 1, "fault": "x", "device": "d", "subject": "s"},
    {"event": "session.changed", "at_ns": 5, "session": 3, "location": "cloud", "state": "down", "path": 1},
)


def _event(data: bytes) -> object:
    """As an agent that starts: what is decoded goes on to the tracker of incidents."""
    line = event_store._decode(data)
    return None if line is None else IncidentTracker().take(line)


def _tap(data: bytes) -> object:
    datagram = data + _TAPS_OF_B1.send.tag(data)
    pair = tap.find_pair(datagram, _TAPS_AT_B1)
    if pair is Rejection.WRONG_LENGTH:
        return pair
    return tap.decode(datagram, pair if isinstance(pair, PairKey) else _TAPS_OF_A1)


def _way(data: bytes) -> object:
    datagram = data + _WAYS_OF_B1.send.tag(data)
    pair = ways.find_pair(datagram, _WAYS_AT_B1)
    if pair is Rejection.WRONG_LENGTH:
        return pair
    return ways.decode(datagram, pair if isinstance(pair, PairKey) else _WAYS_OF_A1)


def _probe(data: bytes) -> None:
    """As the reflector has it: unsigned first, then what a peer might have signed."""
    if peek(data) is None:
        return
    verify_and_parse(data, TO_A1)
    packet = bytearray(data)
    sign(packet, TO_A1.receive)
    parsed = verify_and_parse(bytes(packet), TO_A1)
    if isinstance(parsed, ParsedProbe) and not parsed.is_reply:
        reflect(
            bytes(packet), parsed, key=TO_A1, own=B1_STATE, reflector=REFLECTOR, reflector_sequence=1, rx_ntp=RX_NTP,
            tx_ntp=TX_NTP, ttl=63,
        )  # fmt: skip


_OPEN = standard_probe.StandardProbe(mode=StampMode.OPEN, ssid=7)


def _standard(data: bytes) -> None:
    asked = standard_reflect.read_request(data, mode=StampMode.OPEN)
    if isinstance(asked, standard_reflect.StandardRequest):
        standard_reflect.answer_request(
            data, asked, mode=StampMode.OPEN, reflector=REFLECTOR, reflector_sequence=3, rx_ntp=RX_NTP, tx_ntp=TX_NTP
        )


_TLV_KINDS = (standard_tlv.Location, standard_tlv.DirectMeasurement)


def _tlvs(data: bytes) -> None:
    for found in tlvs.decode_tlvs(data):
        for kind in _TLV_KINDS:
            try:
                read = kind.from_tlv(found)
                if isinstance(read, standard_tlv.Location):
                    read.address(*standard_tlv.LocationType)
            except DecodeError:
                continue


def _tapped(data: bytes) -> None:
    datagram = tap_decode.read_datagram(data, 8472)
    if datagram is not None:
        marks.read_mark(datagram, 8620)


_PACKET = (
    bytes.fromhex("4500005c000000004011000ac0a86401c0a864027a12211800480000") + b"\x08" + bytes(19) + b"\x08\0"
    + bytes.fromhex("4500002a000000004011000a0af401000af4020003e821ac00160000") + bytes(48)
)  # fmt: skip
_CONTROL = (
    b"\x1c" + bytes(7) + bytes(4) + b"\x08\0\0\0" + bytes(12) + bytes(4) + b"\x18" + bytes(7) + b"\1\0\0\0" + bytes(12)
)
_STAMP = bytes(range(44))


DECODERS: dict[str, Decoder] = {
    "control call": Decoder(
        _call,
        (
            _asking("Failover", location="x", rank=1, confirm_within_ns=7),
            _asking("Events", since_ns=5, follow=True),
            _asking("Pause", name="x", duration_ns=9),
            _asking("Bisect", node="x"),
            _asking("Mtu", node=None),
        ),
        (varlink.VarlinkError,),
    ),
    "control reply": Decoder(varlink.decode_reply, (varlink.encode_reply({"reason": "x"})[:-1],)),
    "status reply": Decoder(
        lambda data: decode_json(data, StatusReply, varlink.REPLIES),
        (_json(StatusReply(status=HEALTHY)),),
        share=0.2,
    ),
    "bisection": Decoder(lambda data: decode_json(data, BisectResult, varlink.REPLIES), (_json(RESULT),)),
    "metrics request": Decoder(_METRICS._reply, (b"GET /metrics HTTP/1.1\r\n", b"HEAD /metrics?x HTTP/1.0\r\n")),
    "frame to the engine": Decoder(
        lambda data: decode_frame(data, _TO_ENGINE, Door("frame")),
        tuple(
            msgspec.msgpack.encode(frame)
            for frame in (
                AliveFrame(),
                StatusAskedFrame(),
                EventFrame(event=ev.StateRestored(state=PolicyState())),
                ANSWERED,
            )
        ),
    ),
    "frame to the agent": Decoder(
        lambda data: decode_frame(data, _TO_AGENT, Door("frame")),
        tuple(
            msgspec.msgpack.encode(frame)
            for frame in (StateFrame(state=PolicyState()), StatusFrame(status=HEALTHY), ASKED)
        ),
    ),
    "boot": Decoder(boot.decode, (boot.encode(boot.Boot(config="x", settings=Settings())),), share=0.5),
    "policy.json": Decoder(_file(policy_file._Stored), (_json(_POLICY),)),
    "mesh.json": Decoder(_file(mesh_file.Kept), (_json(_MESH),)),
    "links.json": Decoder(_file(registry._File), (_json(_LINKS),)),
    "overlay-good.json": Decoder(_file(GoodState), (_json(GoodState(boot="x", device="flannel.1", index=3)),)),
    "liqo-good.json": Decoder(_file(LiqoMemory), (_json(LiqoMemory(boot="x", good=(liqo_node.good(),))),)),
    "events.jsonl": Decoder(_event, tuple(map(_json, _EVENTS))),
    "journal": Decoder(_replay, (_journal(),)),
    "checkpoint": Decoder(_split, (_checkpoint(),), (JournalError,)),
    "configuration": Decoder(_configuration, (tomli_w.dumps(_TOML).encode(),), (ConfigError,), share=0.1),
    "HTTP answer": Decoder(
        lambda data: http.take_apart(data, "kilo"), (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabc",)
    ),
    "DNS answer": Decoder(service.read_dns, service.DNS_ANSWERS, service.DNS_REFUSALS),
    "certificate": Decoder(service.read_certificate, (service.CERTIFICATE,)),
    "kubelet config": Decoder(cluster_dns.read_kubelet_config, (service.KUBELET,)),
    "services.json": Decoder(_file(service_memory.Answers), (service.SERVICES,)),
    "kube answer": Decoder(service.read_facts, service.FACTS),
    "kilo graph": Decoder(
        _told(kilo_graph.parse),
        (_GRAPH,),
        share=0.5,
    ),
    "kilo metrics": Decoder(
        _told(kilo_metrics.parse),
        (b"# TYPE kilo_leader gauge\nkilo_leader 1\nkilo_nodes 6\nkilo_reconciles_total 71\n",),
        share=0.5,
    ),
    "cilium agent's health": Decoder(
        _told(cilium_clusters.parse),
        (_CLUSTERS,),
    ),
    "cilium agent": Decoder(
        _told(cilium_nodes.parse),
        (_NODES,),
    ),
    "subnet.env": Decoder(
        _told(flannel_files.parse_subnet, PATH),
        (b"FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\n",),
    ),
    "net-conf.json": Decoder(
        _told(flannel_files.parse_configuration, PATH), (b'{"Network":"10.42.0.0/16","Backend":{"Type":"vxlan"}}',)
    ),
    "wg-quick": Decoder(
        _told(quick_file.parse, Path("/etc/wireguard/wg0.conf")),
        (_QUICK,),
        share=0.3,
    ),
    "UAPI": Decoder(_text(uapi.parse), (UAPI,), share=0.02),
    "UAPI at a glance": Decoder(_text(glance.parse), (UAPI,)),
    "WireGuard": Decoder(lambda data: msgspec.msgpack.encode(genl.decode([data])), (WIREGUARD,)),
    "WireGuard at a glance": Decoder(lambda data: msgspec.msgpack.encode(glance.decode([data])), (WIREGUARD,)),
    "netlink datagram": Decoder(
        lambda data: monitor.hand_over(data, lambda _message: None), (message.encode(24, 0, 1, _ROUTE) * 2,)
    ),
    "netlink conntrack": Decoder(conntrack.decode_connection, (connection_body(),)),
    "netlink acknowledgement": Decoder(message.error_of, (bytes(4),), share=0.2),
    "netlink route": Decoder(_route, (_ROUTE,)),
    "netlink link": Decoder(_packed(objects.pack_link, objects.unpack_link), (_LINK_BODY, _GENEVE_BODY)),
    "netlink address": Decoder(
        _packed(objects.pack_address, objects.unpack_address),
        (address_body(3, "10.244.1.0"), address_body(3, "fd00::1")),
    ),
    "netlink neighbour": Decoder(
        _packed(compact.pack_neighbour, _neighbour), (neighbour_body(3, "10.244.1.0", bytes(range(6))),)
    ),
    "netlink FDB": Decoder(_packed(compact.pack_fdb, compact.unpack_fdb), (fdb_body(3, bytes(range(6)), "10.2.0.11"),)),
    "netlink rule": Decoder(fibrule.decode_rule, (_RULE,)),
    "netlink rule in words": Decoder(rules.describe_rule, (_RULE,), share=0.2),
    "netlink rule as `ip rule` has it": Decoder(rule_text.read_rule, (_RULE,), share=0.2),
    "netlink rule's owner": Decoder(rules.priority_and_protocol, (_RULE,)),
    "netlink rules of others": Decoder(
        _describe_foreign, (_RULE, foreign_body(32765, 7, to="10.71.0.0/16")), share=0.2
    ),
    "tap's device": Decoder(questions.read_device, (_LINK_BODY,)),
    "tap's route": Decoder(questions.read_hop, (_ROUTE,)),
    "tap's queue": Decoder(questions.read_queue, (bytes(20) + _ATTRIBUTE(7, _ATTRIBUTE(3, bytes(20))),)),
    "tapped packet": Decoder(_tapped, (_PACKET,)),
    "ARP": Decoder(
        lambda data: arp.decode_answer(data, "10.2.0.11"), (arp.encode_probe(bytes(range(6)), "10.2.0.11"),)
    ),
    "ancillary data": Decoder(
        lambda data: (delivery.read_delivery(data), stamps.arrival_wall_ns(data, 5), stamps.arrival_ntp(data, 5)),
        (_CONTROL,),
    ),
    "hello": Decoder(read_hello, HELLOS),
    "short hello": Decoder(read_short_hello, SHORT_HELLOS),
    "way question": Decoder(_way, (ways.encode(_WAY, _WAYS_OF_B1)[:-TAG_BYTES],)),
    "tap request": Decoder(_tap, (tap.encode(_TAP, _TAPS_OF_B1)[:-TAG_BYTES],)),
    "probe": Decoder(_probe, (request(), request(SPEC, sequence=7)), share=0.5),
    "STAMP request": Decoder(_standard, (_STAMP, _STAMP + tlvs.Tlv(type=2, value=bytes(4)).encode())),
    "STAMP answer": Decoder(lambda data: standard_probe.read_reply(data, _OPEN), (_STAMP + bytes(8),)),
    "STAMP TLVs": Decoder(
        _tlvs, tuple(tlvs.Tlv(type=kind, value=bytes(16)).encode() for kind in (1, 2, 4, 5, 6, 7, 9))
    ),
}
