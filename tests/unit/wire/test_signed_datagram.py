"""The shape of small signed datagrams: what two protocols of it are to each other. Each has tests of its own beside."""

from __future__ import annotations

import msgspec

from meshwatchd.model.ids import NodeName
from meshwatchd.wire import tap_request, way_question
from meshwatchd.wire.auth import MeshKeys, MeshSecret, Purpose
from meshwatchd.wire.signed_datagram import LEAST_BYTES, Format, Rejection
from meshwatchd.wire.tap_request import TapContent, TapKind

SECRET = MeshSecret(secret=bytes(range(32)))


def _format(*, magic=b"TEST", version=1, most=200):
    return Format("test", magic=magic, version=version, most=most, kind=TapKind, content=TapContent)


def _sealed(made):
    body = msgspec.msgpack.encode(TapContent(sender=NodeName("b1"), target=NodeName("b3")))
    return made.seal(TapKind.BEGIN, 7, sender=NodeName("b1"), body=body, pair=_keys("b1", "b3").sending("b3"))


def _keys(own, other):
    keys = MeshKeys(NodeName(own), (SECRET,), Purpose.TAPS)
    keys.admit(NodeName(other))
    keys.bind(())
    return keys


def test_what_one_protocol_seals_no_other_takes():
    """By magic, and by the version of one of them."""
    keys, sealed = _keys("b3", "b1"), _sealed(_format())
    for other in (_format(magic=b"TSET"), _format(version=2), tap_request._FORMAT, way_question._FORMAT):
        assert Rejection.NOT_OURS is other.find_pair(sealed, keys)
    assert not isinstance(pair := _format().find_pair(sealed, keys), Rejection)
    assert (TapKind.BEGIN, 7) == _format().open(sealed, pair)[:2]


def test_length_is_looked_at_first():
    """As long as it may be, and as short as a header and a tag."""
    keys, sealed = _keys("b3", "b1"), _sealed(_format())
    assert Rejection.WRONG_LENGTH is _format(most=len(sealed) - 1).find_pair(sealed, keys)
    assert not isinstance(_format(most=len(sealed)).find_pair(sealed, keys), Rejection)
    assert Rejection.WRONG_LENGTH is _format().find_pair(sealed[: LEAST_BYTES - 1], keys)
    assert Rejection.NOT_OURS is _format(magic=b"TSET").find_pair(sealed[:LEAST_BYTES], keys)
