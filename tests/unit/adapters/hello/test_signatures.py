"""Whoever has the mesh key buys no more than so many verifications."""

from __future__ import annotations

from collections import Counter

from meshwatchd.adapters.hello import signatures
from meshwatchd.adapters.hello.signatures import Signatures
from meshwatchd.adapters.identity import NodeIdentity
from meshwatchd.model.settings import SECOND

_NODE = NodeIdentity(b"n" * 32)
_SIGNED = (_NODE.public.signing, _NODE.sign(b"text"), b"text")


def _count(checked, source, tries):
    return sum(checked.of(source)(*_SIGNED) for _ in range(tries))


def test_one_source_uses_up_its_own_share():
    """And is entitled to some every second."""
    counters: Counter[str] = Counter()
    instant = [SECOND]
    checked = Signatures(counters, lambda: instant[0])
    assert signatures.SOURCE_AT_ONCE == _count(checked, "10.0.0.1", signatures.SOURCE_AT_ONCE + 9)
    assert 9 == counters["hello-unverified"]
    assert checked.of("10.0.0.2")(*_SIGNED)
    instant[0] += SECOND
    assert signatures.SOURCE_PER_S == _count(checked, "10.0.0.1", 2 * signatures.SOURCE_PER_S)


def test_invented_sources_use_up_what_there_is_for_all(monkeypatch):
    """And no memory without end."""
    monkeypatch.setattr(signatures, "is_signed_by", lambda *_signed: True)
    checked = Signatures(Counter(), lambda: SECOND)
    tries = range(signatures.MAX_SOURCES + signatures.ALL_AT_ONCE)
    assert signatures.ALL_AT_ONCE == sum(checked.of(f"source {each}")(*_SIGNED) for each in tries)
    assert signatures.MAX_SOURCES == len(checked._sources)


def test_a_wrong_signature_stays_wrong():
    """Within the limits too."""
    assert not Signatures(Counter(), lambda: SECOND).of("10.0.0.1")(_SIGNED[0], _SIGNED[1], b"another text")
