"""What is the same in another mesh keeps its number, and nothing else does."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.mesh.mesh_diff import MAX_TOLD, differences, is_same, number
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.core.routes.planner import Planner
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.settings import Settings
from meshwatchd.model.topology import Topology, relays_print
from meshwatchd.profiles import OVERLAY_MESH
from tests.sim.changing import LAB, mesh_of
from tests.support.lab_mesh import snapshot_of

B2_LEADS = {**LAB, "cloud": ("b2", "b1", "", "b3")}
B3_STANDS_BY = {**LAB, "cloud": ("b1", "b3", "", "b2")}
WITH_EDGE = {**LAB, "edge": ("c1", "c2", "", "c3")}


def _topology(places, name="a3"):
    topology = OVERLAY_MESH.recognise(snapshot_of(name), mesh_of(places), NodeName(name))
    assert isinstance(topology, Topology), topology
    return topology


def _plans(topology):
    return lay_out(Planner(topology, Settings()), has_standby=True)


def test_a_first_table_counts_up_from_zero():
    """There is nothing to keep."""
    topology = _topology(LAB)
    plans, kept = number(_plans(topology), topology)

    assert list(range(len(plans))) == [plan.session for plan in plans]
    assert frozenset() == kept


def test_the_same_mesh_keeps_everything():
    """Ids, all of them."""
    topology = _topology(LAB)
    plans = _plans(topology)

    assert (plans, frozenset(range(len(plans)))) == number(plans, topology, plans, topology)


def test_sessions_over_another_relay_begin_anew_though_their_packets_are_the_same():
    """Path 0 leads over b2 instead of b1: same addresses, same ports. Standby links and what follows traffic go on."""
    before, after = _topology(LAB), _topology(B2_LEADS)
    plans, kept = number(_plans(after), after, _plans(before), before)

    assert not kept & {plan.session for plan in plans if plan.layer is Layer.RELAY and plan.path == 0}
    standing = {(plan.path, plan.peer, plan.flow) for plan in _plans(before)}
    over_links = [p for p in plans if p.layer is Layer.RELAY and p.path and (p.path, p.peer, p.flow) in standing]
    assert {1, 2, 3, 4} == {plan.path for plan in over_links}
    assert kept >= {plan.session for plan in over_links}
    others = {
        plan.session for plan in plans if plan.layer in (Layer.SELF, Layer.UNDERLAY, Layer.OVERLAY, Layer.EFFECTIVE)
    }
    assert others <= kept


def test_an_id_is_not_given_away_in_the_change_that_frees_it():
    """Answers to the session that had it may be on their way."""
    before, after = _topology(LAB), _topology(B2_LEADS)
    known = _plans(before)
    plans, kept = number(_plans(after), after, known, before)
    new = {plan.session for plan in plans} - kept

    assert len(plans) == len({plan.session for plan in plans})
    assert not new & {plan.session for plan in known}
    again, _ = number(known, before, plans, after)
    assert max(plan.session for plan in again) < 2 * len(plans), "and ids do not grow for ever"


def test_what_crosses_no_path_is_the_same_whatever_the_numbers():
    """A location that sorts in between shifts pairs, paths and ports; segments are where they were."""
    before, after = _topology(LAB), _topology(WITH_EDGE)
    plans, kept = number(_plans(after), after, _plans(before), before)
    segments = {plan.session for plan in plans if plan.layer in (Layer.UNDERLAY, Layer.OVERLAY)}

    assert segments <= kept
    relays = {plan.session for plan in plans if plan.layer is Layer.RELAY}
    assert not relays & kept, "their ports are others, on which nodes that have not heard of it yet do not listen"


@pytest.mark.parametrize(("places", "is_equal"), [(LAB, True), (B2_LEADS, True), (B3_STANDS_BY, False)])
def test_a_fingerprint_stands_for_the_relays(places, is_equal):
    """It is the same on every node, whoever leads, and another one when a rank means something else."""
    one, other = _topology(LAB, "a1"), _topology(places, "b3")
    prints = [relays_print(topology.local_paths()) for topology in (one, other)]

    assert is_equal == (prints[0] == prints[1])
    assert all(0 < each < 256 for each in prints)


def test_differences_are_sentences_and_few():
    """What an operator would say; a mesh that is another one altogether is cut short."""
    assert ("cloud is led by b2 instead of b1",) == tuple(
        text for text in differences(_topology(LAB), _topology(B2_LEADS)) if "led" in text
    )
    assert "location edge is new" in differences(_topology(LAB), _topology(WITH_EDGE))
    assert "location edge is gone" in differences(_topology(WITH_EDGE), _topology(LAB))
    assert "standbys of cloud: none" in differences(_topology(LAB), _topology({**LAB, "cloud": ("b1", "", "b2", "b3")}))
    many = {**LAB, "onprem": ("a1", "a2", "", "a3", *(f"a{index}" for index in range(4, 40)))}
    assert MAX_TOLD == len(differences(_topology(LAB), _topology(many)))


def test_words_alone_are_no_difference():
    """kilo0 that goes up is told, and changes no mesh."""
    topology = _topology(LAB)

    assert is_same(msgspec.structs.replace(topology, why=("other words",)), topology)
    assert not is_same(None, topology)
    carried = msgspec.structs.replace(topology, carrier="nebula1")
    assert is_same(carried, topology), "a device that is gone is still what was below"
    assert not is_same(topology, carried), "and one that turns up is news"
    assert not is_same(_topology(B2_LEADS), topology)
