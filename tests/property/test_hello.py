"""Properties of hellos on the wire: no bytes cause an exception, and no change of a bit goes unnoticed."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.model.discovery import Basis
from meshwatchd.wire import hello as wire
from meshwatchd.wire.auth import MeshSecret
from meshwatchd.wire.hello import Greeting, HelloKeys, HelloRejection, Stamp
from tests.support import hellos

BOUNDED = settings(derandomize=True, max_examples=200, deadline=None)
KEYS = HelloKeys([MeshSecret(secret=bytes(range(32)))])
PACKET = wire.encode(Greeting(sender="a1", stamp=Stamp(epoch=7, counter=1), hello=hellos.hello("a1")), KEYS)

u64 = st.integers(1, 2**64 - 1)
words = st.text(max_size=20)
stamps = st.builds(Stamp, epoch=u64, counter=u64)


@st.composite
def greetings(draw):
    """Anything a node could say of itself."""
    name = draw(st.text(min_size=1, max_size=30))
    seen = {field: draw(words) for field in ("location", "leader", "node_ip", "pod_cidr", "overlay_device")}
    view = msgspec.structs.replace(hellos.view("a1"), node=name, is_leader=draw(st.booleans()), **seen)
    hello = msgspec.structs.replace(
        hellos.hello("a1"),
        view=view,
        capabilities=tuple(draw(st.lists(words, max_size=5))),
        basis=draw(st.sampled_from(Basis)),
        leads_since_ns=draw(st.integers(0, 2**63)),
    )
    return Greeting(
        sender=name,
        stamp=draw(stamps),
        hello=hello,
        answers=draw(st.none() | stamps),
        asks=draw(st.booleans()),
        seen=draw(words),
        came_from=draw(words),
    )


@BOUNDED
@given(greetings())
def test_decoding_undoes_encoding(greeting):
    """Nothing is lost, and nothing is longer than a datagram may be."""
    packet = wire.encode(greeting, KEYS)

    assert wire.MAX_BYTES >= len(packet)
    assert greeting == wire.decode(packet, KEYS)


@BOUNDED
@given(st.binary(max_size=wire.MAX_BYTES + 10))
def test_no_bytes_cause_an_exception(datagram):
    """The port is open to whoever finds it."""
    assert isinstance(wire.decode(datagram, KEYS), HelloRejection)


@BOUNDED
@given(st.binary(max_size=300))
def test_no_signed_bytes_cause_an_exception(body):
    """A node of the mesh may have gone mad."""
    number, key = KEYS.signing()
    text = PACKET[:6] + bytes([number]) + PACKET[7:42] + body
    read = wire.decode(text + key.tag(text), KEYS)

    assert read in {HelloRejection.MALFORMED, HelloRejection.TOO_SHORT}


@BOUNDED
@given(st.integers(0, len(PACKET) * 8 - 1))
def test_every_flipped_bit_is_noticed(bit):
    """One bit of a leader's address is another leader."""
    flipped = bytearray(PACKET)
    flipped[bit // 8] ^= 1 << bit % 8

    assert isinstance(wire.decode(bytes(flipped), KEYS), HelloRejection)


@BOUNDED
@given(st.integers(0, len(PACKET) - 1))
def test_every_truncation_is_noticed(length):
    """A datagram cut short by whatever is in between says nothing at all."""
    assert isinstance(wire.decode(PACKET[:length], KEYS), HelloRejection)
