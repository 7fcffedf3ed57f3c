"""The packet of a session says what the plan, the command and the node say."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.session import ProbeSession
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.events import Banner, Coordination, CoordinationKind
from meshwatchd.model.ids import FlowClass, NodeName
from meshwatchd.model.outputs import SendProbe
from meshwatchd.wire.mesh_tlv import FLAG_BRIEF, FLAG_CONFIRM_BURST, FLAG_FRESH, OwnState
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from tests.support.packet_node import NAMES, key, plan, send

DICTIONARY = translate.Dictionary(NAMES)
MESSAGE = Coordination(kind=CoordinationKind.GRANT, pair=0, rank=1, generation=2, nonce=3, target=NodeName("b1"))


def _own(view_up: int = 0) -> OwnState:
    return translate.own_state(Banner(view_up=view_up, view_known=1), node=NodeName("a1"), epoch=5)


def _session(flow: FlowClass = FlowClass.FRESH, address: str = "127.0.0.1") -> ProbeSession:
    return ProbeSession(plan(9, flow=flow, session=6, address=address), key=key("a1", "b1"), own=_own())


def _parsed(session: ProbeSession, command: SendProbe, own: OwnState) -> ParsedProbe:
    packet = bytes(session.template(command, own, DICTIONARY).seal(1, 2))
    parsed = verify_and_parse(packet, key("b1", "a1"))
    assert isinstance(parsed, ParsedProbe), parsed
    return parsed


def test_only_known_flows_are_kept():
    """The class of the plan decides whether its ports stay open."""
    assert (True, False) == (_session(FlowClass.PINNED).is_kept, _session().is_kept)


@pytest.mark.parametrize(("address", "length"), [("127.0.0.1", 4), ("fd00::1", 16)])
def test_destination_travels_in_the_packet(address, length):
    """The peer can tell whether it was meant, over either family."""
    parsed = _parsed(_session(address=address), send(source_port=1), _own())

    assert parsed.destination is not None
    assert length == len(parsed.destination)
    assert (7, False) == (parsed.ssid, parsed.has_questions)


def test_flags_and_messages_belong_to_one_probe():
    """The next one is plain again."""
    session, own = _session(), _own()
    plain = send(source_port=1)
    proposing = _parsed(session, msgspec.structs.replace(plain, coordination=MESSAGE), own)
    confirming = _parsed(session, msgspec.structs.replace(plain, is_confirm=True), own)
    ordinary = _parsed(session, plain, own)

    assert proposing.coordination is not None
    assert MESSAGE == DICTIONARY.decode(proposing.coordination)
    assert FLAG_FRESH | FLAG_CONFIRM_BURST | FLAG_BRIEF == confirming.mesh.flags
    assert (None, FLAG_FRESH | FLAG_BRIEF) == (ordinary.coordination, ordinary.mesh.flags)


def test_news_of_the_node_reach_every_kind_of_probe():
    """Also one with a message that was sent before."""
    session = _session()
    told = msgspec.structs.replace(send(source_port=1), coordination=MESSAGE)
    _parsed(session, told, _own())
    own = _own(view_up=1)

    assert [1, 1] == [_parsed(session, command, own).mesh.heard for command in (told, send(source_port=1))]


@pytest.mark.parametrize(("source", "destination"), [("127.0.0.1", "::1"), ("::1", "127.0.0.1"), ("x", "127.0.0.1")])
def test_addresses_must_be_of_one_family(source, destination):
    """Nothing could be sent from the one to the other."""
    crossed = msgspec.structs.replace(plan(9), source=source, destination=destination)
    with pytest.raises(DecodeError, match="address"):
        ProbeSession(crossed, key=key("a1", "b1"), own=_own())
