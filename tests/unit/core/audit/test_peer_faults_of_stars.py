"""A member of a star names its own leg to the gateway: nobody else goes that way."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.peer_faults import believe, confess, explain
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from tests.support import hellos
from tests.support.bench import ready

DEAD = FaultCode.OVERLAY_BLACK_HOLE
TOLD = ToldFault(DEAD, NodeName("b3"))
SUBMARINER = {"profiles": ("submariner", "flannel")}


def _verdict(fault, culprit):
    entry = CATALOGUE[fault]
    return Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)


def _told(culprit, **seen):
    """What b3 tells that finds a node guilty, with another view of itself."""
    bench = ready("b3")
    status = bench.engine.status(bench.now, {})
    named = msgspec.structs.replace(status.pairs[0], verdict=_verdict(DEAD, culprit))
    return confess(msgspec.structs.replace(status, pairs=(named,)), _mesh(b3=hellos.hello("b3", seen=seen)))


def _mesh(**changed):
    return {str(name): hello for name, hello in hellos.whole_mesh().items()} | changed


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (SUBMARINER, (TOLD,)),
        ({"profiles": ("hexmesh",), "traits": ("of a later version", "star")}, (TOLD,)),
        ({"profiles": ("hexmesh",), "traits": ("of a later version",)}, ()),
        ({}, ()),
    ],
)
def test_a_member_of_a_star_tells_that_its_leg_to_the_gateway_is_dead(seen, told):
    """By the trait, of whatever kind. In other meshes neighbours know better, and of other legs it knows nothing."""
    assert told == _told("b3", **seen)
    assert () == _told("b2", **seen)


def test_a_members_word_about_its_leg_explains_its_silence():
    """Others see a node that does not answer."""
    word = believe(_mesh(b1=hellos.hello("b1", faults=(TOLD,))), "a2")

    assert DEAD is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), word).fault
    assert FaultCode.NODE_UNREACHABLE is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b2"), word).fault
