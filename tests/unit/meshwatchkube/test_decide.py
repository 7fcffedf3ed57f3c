"""On which pictures anything is decided at all, and what only the holder of the Lease does."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from meshwatchkube.actions import Drain, Pin, Remember, SetConditions
from meshwatchkube.cluster import CORDON_ANNOTATION, Address
from meshwatchkube.decide import Decisions, mistaken
from meshwatchkube.memory import Change, Memory
from meshwatchkube.settings import DrainSettings, GatingSettings, Mode, PromotionSettings, Settings
from tests.support.kube import accusing, cluster, look, mesh, node

SETTINGS = Settings(
    promotion=PromotionSettings(mode=Mode.ENFORCE),
    gating=GatingSettings(mode=Mode.ENFORCE),
    drain=DrainSettings(follow=True),
)
BROKEN = mesh(active="a1-b2", reports=accusing("b1", "b2", "b3"))
CHANGE = Change(location="cloud", remote="onprem", leader="b2", former="b1", via=("a2", "b2"))


def _unschedulable(name, *, is_ours=False):
    known = node(name)
    notes = {**known.annotations, **({CORDON_ANNOTATION: "x"} if is_ours else {})}
    return msgspec.structs.replace(
        known,
        metadata=msgspec.structs.replace(known.metadata, annotations=notes),
        spec=msgspec.structs.replace(known.spec, unschedulable=True),
    )


def _elsewhere(name):
    known = node(name)
    there = msgspec.structs.replace(known.metadata, annotations={})
    status = msgspec.structs.replace(known.status, addresses=(Address(address="172.31.0.1"),))
    return msgspec.structs.replace(known, metadata=there, status=status)


def test_the_writer_promotes_and_sets_conditions():
    """Both parts, on the same pictures."""
    decisions = Decisions(SETTINGS)
    assert [SetConditions] == [type(each) for each in decisions.decide(look(BROKEN)) if isinstance(each, SetConditions)]
    kinds = {type(each) for each in decisions.decide(look(BROKEN, at_s=300))}
    assert Remember in kinds


@pytest.mark.parametrize(
    "spoil",
    [
        lambda at_s: look(BROKEN, cluster(is_writer=False), at_s=at_s),
        lambda at_s: look(BROKEN, cluster(is_fresh=False), at_s=at_s),
        lambda at_s: look(BROKEN, cluster(_elsewhere("a3")), at_s=at_s),
        lambda at_s: look(BROKEN, cluster(_elsewhere("b2")), at_s=at_s),
        lambda at_s: look(mesh(active="a1-b2", reports=accusing("b1", "b2", "b3"), is_reliable=False), at_s=at_s),
        lambda at_s: _without_memory(look(BROKEN, at_s=at_s)),
    ],
    ids=["not the writer", "API silent", "another cluster", "a node of another one", "daemon ill", "memory unreadable"],
)
def test_without_full_knowledge_nothing_is_written_and_no_wait_goes_on(spoil):
    """A look in between that knows too little begins all waits anew."""
    decisions = Decisions(SETTINGS)
    list(decisions.decide(look(BROKEN)))
    assert [] == list(decisions.decide(spoil(200)))
    assert [] == list(decisions.decide(spoil(400)))
    assert not any(isinstance(each, Remember) for each in decisions.decide(look(BROKEN, at_s=410)))
    assert any(isinstance(each, Remember) for each in decisions.decide(look(BROKEN, at_s=710)))


def _without_memory(each):
    """The same look without a memory."""
    return type(each)(mesh=each.mesh, cluster=each.cluster, memory=None, now=each.now, now_s=each.now_s)


def test_a_relay_steers_by_the_lease_alone():
    """It watches no Nodes, and need not hold the Lease."""
    seen = look(mesh(at="a2", active="a1-b2"), cluster(is_writer=False, is_fresh=False), Memory(changes=(CHANGE,)))
    assert [Pin] == [type(each) for each in Decisions(SETTINGS).decide(seen)]


def test_a_node_that_kubectl_drains_is_drained_here_and_put_back():
    """By the node's own process, whoever writes; not when the cordon is ours."""
    decisions, reader = Decisions(SETTINGS), {"is_writer": False}
    drained = cluster(_unschedulable("a3"), **reader)
    assert [Drain(is_drained=True)] == list(decisions.decide(look(mesh(), drained)))
    assert [] == list(decisions.decide(look(mesh(is_drained=True), drained)))
    assert [Drain(is_drained=False)] == list(decisions.decide(look(mesh(is_drained=True), cluster(**reader))))
    assert [] == list(decisions.decide(look(mesh(), cluster(_unschedulable("a3", is_ours=True), **reader))))
    assert [] == list(decisions.decide(look(mesh(), cluster(_unschedulable("b1"), **reader))))
    assert [] == list(Decisions(Settings()).decide(look(mesh(), drained)))


def test_names_alone_are_no_proof_of_a_cluster():
    """Addresses of the cluster or of Kilo are."""
    assert "" == mistaken(mesh(), cluster())
    assert "this API has no node a3" == mistaken(mesh(), type(cluster())())
    assert "node b2 has 172.31.0.1 in this API, and 10.2.98.2 in the mesh" == mistaken(
        mesh(), cluster(_elsewhere("b2"))
    )


def _among_pods(**addresses):
    """A mesh in which these nodes go by an address among their pods, as in Submariner's."""
    seen = mesh(reports=BROKEN.reports)
    members = {name: replace(seen.members[name], address=address) for name, address in addresses.items()}
    return replace(seen, members={**seen.members, **members})


def test_a_node_that_goes_by_an_address_among_its_pods_is_of_this_cluster():
    """Submariner routes pods alone between locations: drains are followed there, and nodes get conditions."""
    seen = _among_pods(a3="10.244.1.0", b1="10.244.1.1")
    assert "" == mistaken(seen, cluster())
    drained = list(Decisions(SETTINGS).decide(look(seen, cluster(_unschedulable("a3")))))
    assert Drain(is_drained=True) in drained
    assert any(isinstance(each, SetConditions) for each in drained)


@pytest.mark.parametrize("pods", ["10.244.1.0/24", "fd00::/64", "", "10.244.1.7/24"])
def test_an_address_among_other_pods_is_none_of_the_nodes(pods):
    """Another family, no range, or one that is none counts as no range."""
    elsewhere = _elsewhere("b1")
    elsewhere = msgspec.structs.replace(elsewhere, spec=msgspec.structs.replace(elsewhere.spec, pod_cidr=pods))
    assert mistaken(_among_pods(b1="10.244.2.1"), cluster(elsewhere)).startswith("node b1 has 172.31.0.1")
