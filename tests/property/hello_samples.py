"""Hellos, whole and short ones: what is accepted, and what reads it as a node of the mesh might have signed it."""

from __future__ import annotations

from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_report import AdvertisedSilence, AdvertisedVerdict, NodeReport
from meshwatchd.wire import hello, short_hello
from meshwatchd.wire.auth import TAG_BYTES, MeshKeys, MeshSecret, Purpose
from tests.support.hellos import hello as example_hello

_SECRET = MeshSecret(secret=bytes(range(32)))
_KEYS = hello.HelloKeys([_SECRET])
_STAMPED = hello.Stamp(epoch=1, counter=2)
_REPORT = NodeReport(
    severity="critical",
    verdicts=(AdvertisedVerdict("cloud", "leader-dead", "b1"),),
    silences=(AdvertisedSilence("b1", 4),),
)
_GREETINGS = (
    hello.Greeting(sender="a1", stamp=_STAMPED, hello=example_hello("a1"), asks=True),
    hello.Greeting(
        report=_REPORT,
        sender="a1",
        stamp=_STAMPED,
        hello=example_hello("b1"),
        seen="1.2.3.4:5",
        knows=("10.2.0.11",),
    ),
)
HELLOS = tuple(hello.encode(each, _KEYS)[:-TAG_BYTES] for each in _GREETINGS)
"""Without their tags."""


def _keys_of(own: str, peer: str) -> MeshKeys:
    keys = MeshKeys(own, [_SECRET], Purpose.HELLOS)
    keys.admit(peer)
    keys.bind([PairBinding(peer=NodeName(peer), shared=bytes(32), signs=True)])
    return keys


_AT_A1, _TO_A1 = _keys_of("a1", "b1"), _keys_of("b1", "a1").sending("a1")
_SHORT = short_hello.ShortHello(
    sender="b1",
    stamp=hello.Stamp(epoch=1, counter=9),
    since=2,
    seen="1.2.3.4",
    report=_REPORT,
    knows=("10.2.0.11", "10.2.0.12"),
    present={"10.2.0.13": 7},
)
SHORT_HELLOS = (short_hello.encode(_SHORT, _TO_A1)[:-TAG_BYTES],)
"""Likewise."""


def read_hello(data: bytes) -> object:
    """With the tag of the mesh's key."""
    return hello.decode(data + _KEYS.signing()[1].tag(data), _KEYS)


def read_short_hello(data: bytes) -> object:
    """As it comes, and with the tag of the pair's key."""
    short_hello.decode(data + bytes(TAG_BYTES), _AT_A1, lambda *_each: False)
    return short_hello.decode(data + _TO_A1.send.tag(data), _AT_A1, lambda *_each: False)
