"""A relay that leads packets to one node astray tells it, and whoever misses that node, or is missed, believes it."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.peer_faults import confess, explain
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.events import PeerFault
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from tests.support import hellos
from tests.support.bench import Bench, ready


@pytest.mark.parametrize(
    ("fault", "blamed", "relays", "is_explained"),
    [
        (FaultCode.NODE_UNREACHABLE, "a3", ("b1", "a1"), True),
        (FaultCode.RELAY_NOT_FORWARDING, "a1", ("b1", "a1"), True),
        (FaultCode.NODE_UNREACHABLE, "a3", ("b2", "a2"), False),
        (FaultCode.LEADER_DEAD, "a1", ("b1", "a1"), False),
    ],
)
def test_a_relay_that_leads_packets_to_a_node_astray_is_why_it_is_out_of_reach(fault, blamed, relays, is_explained):
    """The nodes behind it blame that node, and that node its own relay; of a path without that relay it is no word."""
    entry = CATALOGUE[fault]
    said = Verdict(
        fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=NodeName(blamed), because=("silence",)
    )
    word = PeerFault(
        fault=FaultCode.POD_ROUTE_DIVERTED, culprit=NodeName("b1"), source=NodeName("b1"), is_own_leader=False
    )
    named = explain(said, [word], tuple(map(NodeName, relays)))

    assert ((FaultCode.POD_ROUTE_DIVERTED, "b1") if is_explained else (fault, blamed)) == (named.fault, named.culprit)


def test_the_leader_at_the_other_end_passes_it_on():
    """What the relay says itself does not come to the node that it hides."""
    told = ToldFault(FaultCode.POD_ROUTE_DIVERTED, NodeName("b1"))
    bench: Bench = ready("a1")
    mesh = {
        str(name): msgspec.structs.replace(each, faults=(told,) if name == "b1" else ())
        for name, each in hellos.whole_mesh().items()
    }

    assert (told,) == confess(bench.engine.status(bench.now, {}), mesh)
