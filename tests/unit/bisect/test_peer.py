"""The asker's side: an answer, none, and what is no answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from meshwatchd.bisect.peer import PATIENCE_S, UdpPeerTaps
from meshwatchd.model.bisection import PeerCounts, SeriesName
from meshwatchd.wire.auth import MeshKeys, MeshSecret, PairKey, Purpose
from meshwatchd.wire.tap_request import TapContent, TapKind, TapMessage, decode, encode, find_pair
from tests.support.tap_responder import TapResponder
from tests.unit.bisect.test_probes import way

SECRET = MeshSecret(secret=bytes(range(32)))
A1, B1 = (MeshKeys(node, [SECRET], Purpose.TAPS) for node in ("a1", "b1"))
A1.admit("b1")
B1.admit("a1")
COUNTS = (PeerCounts(name=SeriesName.KERNEL, at_lower=12),)
Answer = Callable[[TapMessage], bytes | None]


class Agent(TapResponder):
    """The asked node's agent on loopback.

    Args:
        answer: to each question; None is silence.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(self._hear)
        self.heard: list[TapMessage] = []
        self._reply = answer

    def _hear(self, data: bytes) -> bytes | None:
        pair = find_pair(data, B1)
        assert isinstance(pair, PairKey)
        question = decode(data, pair)
        assert isinstance(question, TapMessage)
        self.heard.append(question)
        return self._reply(question)


def good(question: TapMessage, **changes: object) -> bytes:
    """What an agent answers."""
    kind = TapKind.READY if question.kind is TapKind.BEGIN else TapKind.COUNTS
    content = TapContent(sender=question.content.target, target=question.content.sender, counts=COUNTS)
    return encode(
        msgspec.structs.replace(TapMessage(kind=kind, nonce=question.nonce, content=content), **changes),
        B1.sending("a1"),
    )


def ask(agent: Agent) -> tuple[PeerCounts, ...]:
    """One exchange."""
    with UdpPeerTaps(A1, Random(1)) as taps:
        taps.begin(way(agent.port), 0xC005)
        return taps.counts()


def test_counts_come_from_who_was_asked():
    """By name, with the session; first the taps, then what they saw."""
    with Agent(good) as agent:
        assert COUNTS == ask(agent)

    assert [TapKind.BEGIN, TapKind.COLLECT] == [each.kind for each in agent.heard]
    assert ("a1", "b1", 0xC005) == (
        agent.heard[0].content.sender,
        agent.heard[0].content.target,
        agent.heard[0].content.ssid,
    )


def test_a_lost_datagram_is_repeated():
    """The first of each kind."""
    seen: set[TapKind] = set()

    def forgetful(question: TapMessage) -> bytes | None:
        if question.kind in seen:
            return good(question)
        seen.add(question.kind)
        return None

    with Agent(forgetful) as agent:
        assert COUNTS == ask(agent)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: None,
        lambda _: b"noise",
        lambda question: good(question, nonce=question.nonce ^ 1),
        lambda question: good(question, kind=TapKind.COLLECT),
        lambda question: encode(question, A1.sending("b1")),
    ],
)
def test_what_is_no_answer_is_waited_out(answer):
    """Silence, noise, another exchange's, a wrong kind, our own words: one-sided, and not for long."""
    began_s = time.monotonic()
    with Agent(answer) as agent:
        assert () == ask(agent)

    assert time.monotonic() - began_s < 10 * PATIENCE_S
    assert {TapKind.BEGIN} == {each.kind for each in agent.heard}


def test_nobody_listens():
    """An ICMP error, at once or with the second datagram."""
    with Agent(good) as agent:
        port = agent.port
    with UdpPeerTaps(A1, Random(1)) as taps:
        taps.begin(way(port), 1)

        assert () == taps.counts()


def test_without_an_underlay_nobody_is_asked():
    """Behind a tunnel there is no way around it."""
    with Agent(good) as agent, UdpPeerTaps(A1, Random(1)) as taps:
        taps.begin(msgspec.structs.replace(way(agent.port), underlay_destination=""), 1)

        assert () == taps.counts()
    assert [] == agent.heard


def test_a_source_address_that_is_gone_is_no_crash():
    """The NIC lost its address: one-sided."""
    with UdpPeerTaps(A1, Random(1)) as taps:
        taps.begin(msgspec.structs.replace(way(9), underlay_source="192.0.2.77"), 1)

        assert () == taps.counts()
