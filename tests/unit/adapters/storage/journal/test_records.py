"""Events as bytes and back."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.storage.journal.records import MAX_NUMBERS, RecordEncoder, decode
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.failover_facts import FailoverHeld
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.policy_state import PolicyState
from tests.support.lab_mesh import snapshot_of

BANNER = ev.Banner(view_up=1, view_known=3, active=(ev.ActivePath(pair=0, rank=1, generation=2),), is_admin_down=True)
GRANT = ev.Coordination(
    kind=ev.CoordinationKind.GRANT, pair=0, rank=1, generation=2, nonce=2**62, target=NodeName("a1")
)
REQUEST = ev.RequestReceived(
    peer=NodeName("b2"),
    layer=Layer.RELAY,
    path=1,
    flow=FlowClass.PINNED,
    is_fresh_epoch=True,
    is_confirm=True,
    banner=BANNER,
    coordination=GRANT,
)
REPLY = ev.ReplyReceived(session=SessionId(3), seq=9, rtt_ns=5, peer_epoch=2**63, banner=BANNER)
GIVEN: list[ev.Event] = [
    ev.SnapshotReceived(snapshot=snapshot_of("a1")),
    ev.Tick(),
    REPLY,
    REQUEST,
    REPLY,
    ev.SendFailed(session=SessionId(1), seq=2, errno=98),
    ev.OperatorRequested(request=1, verb=ev.OperatorVerb.PAUSE, name="ann"),
    ev.Tick(heard_ns=120),
]


def _written(given, said=()):
    encoder, content = RecordEncoder(100), bytearray()
    for place, event in enumerate(given):
        encoder.encode(event, 100 + 7 * place, list(said), content)
    return bytes(content)


def test_every_event_comes_back_with_its_instant():
    """The frequent kinds by their short forms, all others as they are."""
    assert [(100 + 7 * place, event, True, ()) for place, event in enumerate(GIVEN)] == list(
        decode(_written(GIVEN), 100)
    )


def test_what_was_said_comes_back_without_probes():
    """Facts and commands alike."""
    probe = out.SendProbe(session=SessionId(1), seq=1, source_port=10_000)
    held = FailoverHeld(pair=0, reason="why")
    save = out.SaveState(state=PolicyState())
    (given,) = decode(_written([ev.Tick()], [probe, held, save]), 100)
    assert (held, save) == given.said


def test_a_record_that_was_cut_off_is_the_end():
    """Kill -9 in the middle of a write; what is before it counts."""
    content = _written(GIVEN)
    whole = len(list(decode(content, 100)))
    for cut in range(1, 40):
        assert whole - 2 <= len(list(decode(content[:-cut], 100))) <= whole


def test_a_banner_is_written_once_while_it_stays_the_same():
    """They are most of what an answer says."""
    one, many = len(_written([REPLY])), len(_written([REPLY] * 101))
    assert many - one == 100 * 17


def test_banners_are_numbered_anew_when_there_are_too_many():
    """Nothing is mixed up."""
    replies = [
        ev.ReplyReceived(session=SessionId(0), seq=1, rtt_ns=5, peer_epoch=1, banner=ev.Banner(view_up=number))
        for number in range(MAX_NUMBERS + 5)
    ]
    assert replies == [given.event for given in decode(_written(replies), 100)]


def test_what_does_not_fit_the_short_form_takes_the_long_one():
    """An answer after five seconds, and a silence of a minute before it."""
    late = ev.ReplyReceived(session=SessionId(3), seq=2**40, rtt_ns=5_000_000_000, peer_epoch=1, banner=BANNER)
    encoder, content = RecordEncoder(0), bytearray()
    encoder.encode(late, 60_000_000_000, [], content)
    encoder.encode(ev.Tick(), 130_000_000_000, [], content, is_asked=False)
    assert [(60_000_000_000, late, True, ()), (130_000_000_000, ev.Tick(), False, ())] == list(
        decode(bytes(content), 0)
    )


def test_garbage_is_no_journal():
    """Named, not guessed at."""
    with pytest.raises(ValueError, match="kind 255"):
        list(decode(b"\xff" * 20, 0))


def test_what_is_said_of_many_locations_has_more_bits_than_a_number():
    """In answers, in events that are written as they are, and in what the engine says itself."""
    many = ev.Banner(view_up=1 << 64 | 1, view_known=(1 << 300) - 1, window=3)
    given: list[ev.Event] = [
        msgspec.structs.replace(REPLY, banner=many),
        msgspec.structs.replace(REQUEST, banner=many),
        msgspec.structs.replace(REPLY, banner=many, rtt_ns=2**40),
    ]
    said = [out.SetBanner(banner=many)]

    assert [(event, tuple(said)) for event in given] == [
        (each.event, each.said) for each in decode(_written(given, said), 100)
    ]
