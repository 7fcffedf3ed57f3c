"""By who answers a ping: the leg to the gateway pod, the pod itself, and what is behind it."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.liqo_legs import SETTLED, SILENT, LiqoAudit, Ping
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.ids import Layer
from meshwatchd.model.snapshot import Geneve
from tests.support.liqo_node import BEYOND, BRIDGE, DEVICE, GATEWAY, POD, REMOTE, ROUTER, good, snapshot, with_link

ALL = {GATEWAY, POD, *BEYOND}
OWN = "10.244.2.1"
NEW_POD = "10.244.3.9"
MOVED = with_link(snapshot(), index=9, geneve=Geneve(vni=3, port=6091, remote=NEW_POD))


class Node:
    """Node a2, round by round."""

    def __init__(self, *known, beyond=BEYOND):
        self.audit = LiqoAudit("a2", beyond, known)
        self.seen = snapshot()

    def rounds(self, number, *answering):
        """So many rounds in which these answer."""
        for _ in range(number):
            asked = self.audit.questions(self.seen, OWN)
            self.news = self.audit.observe(asked, {address for address, _ in asked if address in answering})
        return self

    def found(self):
        """Codes and subjects of what is wrong."""
        return [(each.code, each.subject) for each in self.audit.look(self.seen)]

    def because(self):
        """All evidence."""
        return " ".join(text for each in self.audit.look(self.seen) for text in each.because)


@pytest.fixture
def node():
    """One that has heard everybody."""
    return Node().rounds(SETTLED, *ALL)


def test_gateway_and_pod_are_asked_by_the_route_and_what_is_behind_from_among_pods(node):
    """What is in no prefix of this device is another one's."""
    stranger = Node(beyond=(*BEYOND, "10.99.0.7"))

    assert (Ping(GATEWAY), Ping(POD), *(Ping(each, OWN) for each in BEYOND)) == node.audit.questions(snapshot(), OWN)
    assert (Ping(GATEWAY), Ping(POD), *(Ping(each, OWN) for each in BEYOND), Ping(ROUTER)) == (
        stranger.audit.questions(snapshot(), OWN)
    )
    assert () == node.audit.questions(snapshot(links=(BRIDGE,), device_routes=(), destination_rules=()), OWN)


def test_what_stands_while_the_gateway_answers_is_good():
    """After a few rounds, and with all that answered; it is news once."""
    node = Node().rounds(SETTLED - 1, *ALL)
    assert () == node.audit.known

    node.rounds(1, *ALL)
    assert (good(GATEWAY, POD, *BEYOND),) == node.audit.known
    assert node.news
    assert not node.rounds(1, *ALL).news


def test_what_stands_while_nobody_answers_is_not_good():
    """It may be the fault."""
    assert () == Node().rounds(2 * SETTLED, POD).audit.known


def test_a_leg_that_is_dead_is_told_from_a_tunnel_that_is(node):
    """By the gateway's address in there, while the pod lives."""
    node.rounds(SILENT, POD)
    assert [(FaultCode.LIQO_GATEWAY_LEG, GATEWAY)] == node.found()
    assert node.news
    assert f"the gateway pod answers at {POD}, past Geneve" in node.because()
    assert "rollout restart deployment -l networking.liqo.io/component=gateway" in node.because()

    node.rounds(1, *ALL)
    assert [] == node.found()
    assert node.news

    node.rounds(SILENT, GATEWAY, POD)
    assert [(FaultCode.LIQO_TUNNEL_DEAD, REMOTE)] == node.found()
    assert "liqoctl info peer" in node.because()


def test_a_few_rounds_without_an_answer_are_nothing(node):
    """A busy pod, a lost packet."""
    assert [] == node.rounds(SILENT - 1).found()
    assert [] == node.rounds(1, *ALL).rounds(SILENT - 1).found()


def test_a_pod_that_is_silent_too_is_stale_where_something_else_answers(node):
    """The default route's router is asked as soon as the gateway is silent."""
    node.rounds(SILENT, ROUTER)

    assert [(FaultCode.LIQO_GATEWAY_STALE, GATEWAY)] == node.found()
    assert f"{DEVICE} sends to {POD}, and nothing answers there" in node.because()


def test_where_nothing_answers_at_all_the_node_may_be_cut_off(node):
    """Nothing is said against the pod then."""
    assert [(FaultCode.LIQO_GATEWAY_LEG, GATEWAY)] == node.rounds(SILENT).found()
    assert "this node may be cut off" in node.because()


def test_a_pod_on_a_bridge_of_this_node_needs_no_other_witness(node):
    """No network is between."""
    near = msgspec.structs.replace(BRIDGE, addresses=("10.244.1.1",))
    node.seen = snapshot(links=(near, *snapshot().links[2:]))
    node.rounds(SILENT)

    assert [(FaultCode.LIQO_GATEWAY_STALE, GATEWAY)] == node.found()


def test_of_a_pod_that_never_answers_nothing_is_known():
    """A policy may forbid pings among pods; the leg is dead all the same."""
    node = Node().rounds(SETTLED, GATEWAY).rounds(SILENT, ROUTER)

    assert [(FaultCode.LIQO_GATEWAY_LEG, GATEWAY)] == node.found()
    assert f"it has never answered at {POD}" in node.because()


def test_what_has_never_answered_is_not_missed():
    """A gateway that answers no ping, and addresses that do not."""
    assert [] == Node().rounds(3 * SILENT, POD).found()
    assert [] == Node().rounds(3 * SILENT, GATEWAY, POD).found()
    assert [] == Node().rounds(1, *ALL - {BEYOND[0]}).rounds(SILENT, GATEWAY, POD).found(), "one alone proves nothing"


def test_one_of_several_that_is_silent_is_a_pod_that_was_deleted(node):
    """All of them have to be."""
    assert [] == node.rounds(SILENT, GATEWAY, POD, BEYOND[0]).found()


def test_a_gateway_that_was_moved_gets_its_time_again(node):
    """Liqo has just made the device anew, for a pod that is on its way."""
    node.rounds(SILENT - 1, ROUTER)
    node.seen = MOVED
    assert [] == node.rounds(SILENT - 1, ROUTER).found()
    assert [(FaultCode.LIQO_GATEWAY_STALE, GATEWAY)] == node.rounds(1, ROUTER).found(), "the pod before answered pings"

    node.rounds(1, GATEWAY, NEW_POD, *BEYOND)
    assert [] == node.found()


def test_what_was_good_is_known_after_a_restart():
    """So what is silent from the beginning is missed."""
    node = Node(good(GATEWAY, POD, *BEYOND)).rounds(SILENT, POD)

    assert [(FaultCode.LIQO_GATEWAY_LEG, GATEWAY)] == node.found()


def test_a_device_that_is_not_whole_is_named_and_its_gateway_is_not(node):
    """Of course it is silent then; its time begins when all is there again."""
    node.rounds(SILENT - 1, POD)
    node.seen = with_link(snapshot(device_routes=()), addresses=(), prefix_lengths=())
    node.rounds(2 * SILENT, POD)
    assert [FaultCode.LIQO_FABRIC_ADDRESS_MISSING] == [code for code, _ in node.found()]

    node.seen = snapshot()
    assert [] == node.found()
    assert [] == node.rounds(SILENT - 1, POD).found()


def test_a_device_of_another_peering_takes_the_place_of_the_one_before(node):
    """Both had the same table; the former is nobody's loss."""
    other = "liqo.ffffffffff"
    links = tuple(
        msgspec.structs.replace(each, name=other) if each.name == DEVICE else each for each in node.seen.links
    )
    routes = tuple(msgspec.structs.replace(each, dev=other) for each in node.seen.device_routes)
    node.seen = snapshot(links=links, device_routes=routes)
    node.rounds(SETTLED, *ALL)

    assert [other] == [each.link.device for each in node.audit.known]


def test_voices_of_pods_that_are_gone_are_forgotten(node):
    """A gateway pod that is replaced each hour leaves 8 760 addresses a year."""
    for number in range(1, 250):
        node.seen = with_link(snapshot(), geneve=Geneve(vni=3, port=6091, remote=f"10.244.9.{number}"))
        node.rounds(1, *ALL)

    assert len(node.audit._voices) < 10


def test_none_of_these_faults_explains_what_the_mesh_of_the_nodes_misses():
    """Subjects are never the device, and the layer is not the tunnel's of the mesh."""
    codes = [code for code in FaultCode if code.startswith("liqo-")]
    assert 5 == len(codes)
    assert all(CATALOGUE[code].layer in (Layer.OVERLAY, Layer.RELAY) for code in codes)
