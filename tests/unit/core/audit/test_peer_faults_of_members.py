"""A member whose overlay reaches no neighbour names itself; the others see a node that does not answer.

A leader that has lost its tunnel says so as well; its members blame the other end of it, and that end this one.
"""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import confess
from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.core.audit.peer_faults import believe, explain
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.events import PeerFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from tests.support import hellos
from tests.support.bench import ready
from tests.support.lab_mesh import settings_for

DEAD = FaultCode.OVERLAY_BLACK_HOLE
TOLD = ToldFault(DEAD, NodeName("b3"))


def _verdict(fault, culprit):
    entry = CATALOGUE[fault]
    return Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)


def _told(node, culprit):
    """What a node tells that finds one guilty."""
    bench = ready(node)
    status = bench.engine.status(bench.now, {})
    named = msgspec.structs.replace(status.pairs[0], verdict=_verdict(DEAD, culprit))
    return confess(msgspec.structs.replace(status, pairs=(named,)), _mesh())


def _mesh(**changed):
    return {str(name): hello for name, hello in hellos.whole_mesh().items()} | changed


def test_a_member_tells_that_its_own_overlay_is_dead():
    """Nobody else sees that. Of a leader's, and of a neighbour's, others know as much."""
    assert (TOLD,) == _told("b3", "b3")
    assert () == _told("b3", "b1")
    assert () == _told("b1", "b1")


def test_a_members_word_about_its_overlay_explains_its_silence():
    """Others see a node that does not answer."""
    word = believe(_mesh(b1=hellos.hello("b1", faults=(TOLD,))), "a2")

    assert DEAD is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), word).fault
    assert FaultCode.NODE_UNREACHABLE is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b2"), word).fault


def test_whatever_was_found_at_that_member_is_the_better_word():
    """Its leader has lost the entry by which it is reached, and says so."""
    entry = ToldFault(FaultCode.FDB_ENTRY_MISSING, NodeName("b1"), NodeName("b3"))
    word = believe(_mesh(b1=hellos.hello("b1", faults=(TOLD, entry))), "a2")

    assert FaultCode.FDB_ENTRY_MISSING is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), word).fault


@pytest.mark.parametrize("fault", [FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED, FaultCode.NEIGHBOUR_WRONG])
def test_a_relay_that_the_lan_hides_from_one_member_is_why_that_member_names_itself(fault):
    """Its own verdict is about its way to the relay; what others say of it, and it of others, is not."""
    word = PeerFault(fault=fault, culprit=NodeName("b1"), source=NodeName("b2"), is_own_leader=False)
    entry = CATALOGUE[FaultCode.NODE_UNREACHABLE]
    verdict = Verdict(
        fault=FaultCode.NODE_UNREACHABLE, layer=entry.layer, severity=entry.severity, pair=0, culprit=NodeName("b3")
    )
    relays = (NodeName("b1"), NodeName("a1"))

    assert (fault, "b1") == ((own := explain(verdict, (word,), relays, node="b3")).fault, own.culprit)
    assert FaultCode.NODE_UNREACHABLE is explain(verdict, (word,), (NodeName("b2"), NodeName("a1")), node="b3").fault
    others = explain(verdict, (word,), relays, node="a1").fault
    assert (others is fault) is (fault is FaultCode.NEIGHBOUR_WRONG), "the relay's own entry of that member"


LOST = FaultCode.WIREGUARD_DEVICE_MISSING


@pytest.mark.parametrize(
    ("node", "fault", "culprit"),
    [
        ("a1", FaultCode.ALL_PATHS_DOWN, "b1"),
        ("a2", FaultCode.WIREGUARD_BLOCKED, "b1"),
        ("a3", FaultCode.WIREGUARD_BLOCKED, "b1"),
        ("b2", FaultCode.WIREGUARD_BLOCKED, "a1"),
    ],
)
def test_a_leaders_word_about_its_tunnel_explains_what_everybody_sees(node, fault, culprit):
    """b1's kilo0 has lost its address: its member blames a1, the other end of the tunnel."""
    word = believe(_mesh(b1=hellos.hello("b1", faults=(ToldFault(LOST, NodeName("b1")),))), node)
    told = explain(_verdict(fault, culprit), word)

    assert (LOST, "b1", "b1") == (told.fault, told.culprit, told.told_by)


def test_what_a_leader_has_found_of_its_tunnel_explains_its_own_verdict():
    """It blames the other end as well."""
    book = FindingBook(settings_for("b1"), "b1")
    list(book.report((AuditFinding(code=LOST, device="kilo0", subject="kilo0", culprit="b1"),), 1))
    told = book.explain(_verdict(FaultCode.WIREGUARD_BLOCKED, "a1"))

    assert (LOST, "b1") == (told.fault, told.culprit)
