"""Which nodes get conditions and taints, when, how many at most, and when they lose them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from meshwatchkube.actions import SetConditions, SetCordon, SetTaint, Tell
from meshwatchkube.cluster import CORDON_ANNOTATION, DEGRADED, OVERLAY_UNAVAILABLE, TAINT_KEY, Condition, Taint
from meshwatchkube.gating import Gating, is_overlay_fault
from meshwatchkube.mesh import SILENT, Report
from meshwatchkube.settings import GatingSettings, Mode
from tests.support.kube import PLACES, SECOND, cluster, mesh, node, report

SETTINGS = GatingSettings(mode=Mode.ENFORCE)
AGE_NS = 90 * SECOND
NAMED = (report("b3", by="b1"), report("b3", by="a1"))
FOREIGN = Taint(key="example.net/gpu", effect="NoSchedule", value="yes")


def _gating(**changes):
    return Gating(msgspec.structs.replace(SETTINGS, **changes), AGE_NS)


def _decide(gating, reports=(), *nodes, at_s=0):
    return list(gating.decide(mesh(reports=reports), cluster(*nodes), now=at_s * SECOND))


def _with(name, *, taints=(), conditions=(), cordoned=""):
    known = node(name)
    notes = {**known.annotations, **({CORDON_ANNOTATION: cordoned} if cordoned else {})}
    return msgspec.structs.replace(
        known,
        metadata=msgspec.structs.replace(known.metadata, annotations=notes),
        spec=msgspec.structs.replace(known.spec, taints=taints, unschedulable=bool(cordoned)),
        status=msgspec.structs.replace(known.status, conditions=conditions),
    )


OURS = Taint(key=TAINT_KEY, effect="NoSchedule", value="overlay-new-flows")
BAD = tuple(Condition(type=kind, status="True", reason="OverlayNewFlows") for kind in (DEGRADED, OVERLAY_UNAVAILABLE))


def test_a_node_that_two_others_name_gets_its_conditions_at_once_and_a_taint_after_the_wait():
    """Other taints stay as they are."""
    gating, b3 = _gating(), _with("b3", taints=(FOREIGN,))
    conditions, *told = _decide(gating, NAMED, b3)
    assert isinstance(conditions, SetConditions)
    assert [(DEGRADED, "True", "OverlayNewFlows"), (OVERLAY_UNAVAILABLE, "True", "OverlayNewFlows")] == [
        (each.type, each.status, each.reason) for each in conditions.conditions
    ]
    assert [("OverlayNewFlows", True)] == [(each.reason, each.is_warning) for each in told]
    assert "new flows die at b3 (by b1)" == told[0].message

    b3 = _with("b3", taints=(FOREIGN,), conditions=BAD)
    assert [] == _decide(gating, NAMED, b3, at_s=119)
    (taint,) = _decide(gating, NAMED, b3, at_s=120)
    assert SetTaint(node="b3", version="7", taints=(FOREIGN, OURS)) == taint


@pytest.mark.parametrize(
    "reports",
    [
        (report("b3", by="b1"),),
        (report("b3", by="b1"), report("b3", by="b1", fault="overlay-black-hole")),
        (report("b3", by="b1", age_s=91), report("b3", by="a1")),
        (report("c9", by="b1"), report("c9", by="a1")),
    ],
    ids=["one says it", "one says it twice", "one said it long ago", "the node is none of this cluster"],
)
def test_the_word_of_one_is_too_little(reports):
    """However long it stands."""
    gating = _gating()
    assert [] == _decide(gating, reports)
    assert [] == _decide(gating, reports, at_s=9999)


def test_a_node_that_names_itself_is_believed():
    """It has looked at its own kernel."""
    (conditions, *_) = _decide(_gating(), (report("b3", by="b3", fault="overlay-device-missing", towards=""),))
    assert "b3" == conditions.node


@pytest.mark.parametrize(
    ("fault", "is_broken"),
    [
        ("overlay-black-hole", True),
        ("overlay-silent", True),
        ("wireguard-device-missing", True),
        ("pod-network-broken", True),
        ("leader-dead", False),
        ("conntrack-full", False),
        ("standby-down", False),
        ("neighbour-not-permanent", False),
        ("fault-of-the-future", False),
    ],
)
def test_only_what_cuts_pods_off_taints(fault, is_broken):
    """A dead node is Kubernetes' own business; a warning is for people."""
    reports = tuple(report("b3", by=by, fault=fault) for by in ("b1", "a1"))
    assert is_broken == is_overlay_fault(reports[0])
    gating = _gating()
    (conditions, *_) = _decide(gating, reports)
    kinds = [each.type for each in conditions.conditions]
    assert ([DEGRADED, OVERLAY_UNAVAILABLE] if is_broken else [DEGRADED]) == kinds
    assert is_broken == any(isinstance(each, SetTaint) for each in _decide(gating, reports, at_s=500))


def test_never_more_than_a_third_of_a_location():
    """Of three nodes one; the first by name."""
    gating = _gating()
    reports = tuple(report(each, by=by) for each in ("b1", "b2", "b3") for by in ("a1", "a2"))
    _decide(gating, reports)
    taints = [each for each in _decide(gating, reports, at_s=500) if isinstance(each, SetTaint)]
    assert ["b1"] == [each.node for each in taints]

    tainted = _with("b1", taints=(OURS,), conditions=BAD)
    assert not [each for each in _decide(gating, reports, tainted, at_s=502) if isinstance(each, SetTaint)]


def test_never_more_than_so_many_of_all():
    """Those of other locations, and of nodes that are well meanwhile, count."""
    gating = _gating(max_share=1, max_tainted=2)
    reports = tuple(report(each, by=by) for each in PLACES for by in ("a1", "b1") if by != each)
    a1 = _with("a1", taints=(OURS,))
    _decide(gating, reports, a1)
    taints = [each.node for each in _decide(gating, reports, a1, at_s=200) if isinstance(each, SetTaint)]
    assert ["a2"] == taints


def test_a_location_of_two_nodes_is_never_tainted():
    """A third of it is none."""
    gating = _gating()
    known = {name: node(name) for name in ("a1", "a2", "a3", "b2", "b3")}
    picture = _cluster_of(known)
    for at_s in (0, 500):
        actions = list(gating.decide(mesh(reports=NAMED), picture, now=at_s * SECOND))
    assert not [each for each in actions if isinstance(each, SetTaint)]


def _cluster_of(nodes):
    """A cluster of these nodes alone."""
    return type(cluster())(nodes=nodes, is_fresh=True, is_writer=True)


def test_calm_takes_conditions_and_taint_back():
    """Five minutes of it; foreign taints stay."""
    gating, b3 = _gating(), _with("b3", taints=(FOREIGN, OURS), conditions=BAD)
    assert [] == _decide(gating, NAMED, b3)
    assert [] == _decide(gating, (), b3, at_s=10)
    assert [] == _decide(gating, (), b3, at_s=309)
    conditions, *told, taint = _decide(gating, (), b3, at_s=310)
    assert ["False", "False"] == [each.status for each in conditions.conditions]
    assert all(isinstance(each, Tell) and not each.is_warning for each in told)
    assert SetTaint(node="b3", version="7", taints=(FOREIGN,)) == taint


def test_a_fault_that_comes_back_keeps_the_taint():
    """Calm begins anew."""
    gating, b3 = _gating(), _with("b3", taints=(OURS,), conditions=BAD)
    _decide(gating, (), b3)
    _decide(gating, NAMED, b3, at_s=299)
    assert [] == _decide(gating, (), b3, at_s=301)
    assert [] == _decide(gating, (), b3, at_s=600)


def test_a_cordon_of_ours_is_taken_back_and_nobody_elses():
    """It carries our annotation."""
    gating = _gating(cordon=True)
    _decide(gating, NAMED, _with("b3", conditions=BAD))
    (cordon,) = _decide(gating, NAMED, _with("b3", conditions=BAD), at_s=120)
    assert SetCordon(node="b3", version="7", is_cordoned=True, fault="overlay-new-flows") == cordon

    ours, somebodys = _with("b3", cordoned="overlay-new-flows"), _with("b2")
    somebodys = msgspec.structs.replace(somebodys, spec=msgspec.structs.replace(somebodys.spec, unschedulable=True))
    _decide(gating, (), ours, somebodys, at_s=130)
    (release,) = _decide(gating, (), ours, somebodys, at_s=500)
    assert SetCordon(node="b3", version="7", is_cordoned=False) == release


def test_a_dry_run_writes_no_event_and_asks_for_everything_dry():
    """The API is asked whether it would."""
    gating = _gating(mode=Mode.DRY_RUN)
    (conditions,) = _decide(gating, NAMED)
    taints = [each for each in _decide(gating, NAMED, at_s=120) if isinstance(each, SetTaint)]
    assert conditions.is_dry
    assert [True] == [each.is_dry for each in taints]


def test_a_calm_cluster_costs_nothing_and_off_is_off():
    """No heartbeat of conditions that nobody has ever set."""
    gating = _gating()
    assert [] == _decide(gating)
    assert [] == _decide(gating, at_s=9999)
    assert [] == _decide(_gating(mode=Mode.OFF), NAMED)


def test_forgetting_begins_each_wait_anew():
    """As after a time without the API."""
    gating, b3 = _gating(), _with("b3", conditions=BAD)
    _decide(gating, NAMED, b3)
    gating.forget()
    assert [] == _decide(gating, NAMED, b3, at_s=120)


def test_a_fault_that_one_alone_has_seen_taints_nobody_though_another_names_the_node_for_something_else():
    """The second one reports a warning."""
    gating = _gating()
    reports = (report("b3", by="b1"), report("b3", by="a1", fault="conntrack-full"))
    b3 = _with("b3", conditions=BAD[:1])
    assert [] == _decide(gating, reports, b3) + _decide(gating, reports, b3, at_s=500)


def test_nodes_whose_own_overlay_is_broken_have_no_neighbours_tainted():
    """Two of five: each finds all others silent, and so would the first by name be named by two."""
    names = ("b1", "b2", "b3", "b4", "b5")
    pairs = [(one, other) for one in names for other in names if one != other and {one, other} & {"b4", "b5"}]
    reports = tuple(Report(reporter=one, location="cloud", towards="", fault=SILENT, culprit=two) for one, two in pairs)
    known = type(cluster())(nodes={name: node(name) for name in names}, is_fresh=True, is_writer=True)
    seen = mesh(reports=reports)
    members = {name: replace(seen.members["b1"], name=name) for name in names}
    gating, seen = _gating(max_share=1), replace(seen, members=members)
    list(gating.decide(seen, known, now=0))
    actions = list(gating.decide(seen, known, now=500 * SECOND))
    assert ["b4", "b5"] == [each.node for each in actions if isinstance(each, SetTaint)]


def test_a_warning_that_comes_and_goes_leaves_its_condition_for_the_wait():
    """Else each gap between two reports would be an Event."""
    gating, degraded = _gating(), _with("b3", conditions=BAD[:1])
    full = tuple(report("b3", by=by, fault="conntrack-full") for by in ("b1", "a1"))
    for at_s in (0, 1000):
        assert [] == _decide(gating, full, degraded, at_s=at_s)
    assert [] == _decide(gating, (), degraded, at_s=1005) + _decide(gating, (), degraded, at_s=1304)
    (conditions, _) = _decide(gating, (), degraded, at_s=1305)
    assert [(DEGRADED, "False")] == [(each.type, each.status) for each in conditions.conditions]


def test_a_cordon_of_somebody_elses_is_not_made_ours():
    """It would be taken back with the fault, in the middle of their work."""
    gating, drained = _gating(cordon=True), _with("b3", conditions=BAD)
    drained = msgspec.structs.replace(drained, spec=msgspec.structs.replace(drained.spec, unschedulable=True))
    assert [] == _decide(gating, NAMED, drained) + _decide(gating, NAMED, drained, at_s=500)


def test_who_takes_our_cordon_back_takes_our_annotation_with_it():
    """It is left by kubectl, and their next cordon would count as ours: `kubectl drain` would be undone at once."""
    left = _with("b3", cordoned="overlay-new-flows")
    left = msgspec.structs.replace(left, spec=msgspec.structs.replace(left.spec, unschedulable=False))
    assert [SetCordon(node="b3", version="7", is_cordoned=False)] == _decide(_gating(cordon=True), (), left)


def test_a_dry_run_asks_once_for_what_it_would_do():
    """Nothing changes by it, so it would be asked for at each look; and again when it has been otherwise meanwhile."""
    gating = _gating(mode=Mode.DRY_RUN)
    assert 1 == len(_decide(gating, NAMED))
    assert [] == _decide(gating, NAMED, at_s=5)
    assert [SetTaint] == [type(each) for each in _decide(gating, NAMED, at_s=120)]
    assert [] == _decide(gating, NAMED, at_s=125) + _decide(gating, (), at_s=130)
    assert 1 == len(_decide(gating, NAMED, at_s=135))


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.DRY_RUN])
def test_what_an_earlier_mode_has_set_is_taken_back_for_real(mode):
    """Though the node is still named: nobody would do so later. Nothing is set anew, and other taints stay."""
    gating, b3 = _gating(mode=mode), _with("b3", taints=(FOREIGN, OURS), conditions=BAD, cordoned="overlay-new-flows")
    conditions, taint = _decide(gating, NAMED, b3)
    assert [("MeshGatingOff", "False", f'gating.mode is "{mode}"')] * 2 == [
        (each.reason, each.status, each.message) for each in conditions.conditions
    ]
    assert [DEGRADED, OVERLAY_UNAVAILABLE] == [each.type for each in conditions.conditions]
    assert not conditions.is_dry
    assert SetTaint(node="b3", version="7", taints=(FOREIGN,)) == taint
    cordoned = _with("b3", taints=(FOREIGN,), cordoned="overlay-new-flows")
    assert [SetCordon(node="b3", version="7", is_cordoned=False)] == _decide(gating, NAMED, cordoned, at_s=5)


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.DRY_RUN])
def test_an_annotation_that_kubectl_uncordon_has_left_is_taken_back_with_the_mode(mode):
    """Else the next cordon of a person would count as ours when the mode is enforce again."""
    left = _with("b3", cordoned="overlay-new-flows")
    left = msgspec.structs.replace(left, spec=msgspec.structs.replace(left.spec, unschedulable=False))
    assert [SetCordon(node="b3", version="7", is_cordoned=False)] == _decide(_gating(mode=mode), (), left)


def test_off_leaves_alone_what_is_not_ours():
    """A taint, a cordon and a condition of somebody else's; a condition of ours that is False already."""
    others = (Condition(type="Ready", status="True"), Condition(type=DEGRADED, status="False", reason="MeshHealthy"))
    theirs = _with("b3", taints=(FOREIGN,), conditions=others)
    theirs = msgspec.structs.replace(theirs, spec=msgspec.structs.replace(theirs.spec, unschedulable=True))
    assert [] == _decide(_gating(mode=Mode.OFF), NAMED, theirs)


def test_a_dry_run_that_has_taken_all_back_asks_dry_for_what_it_would_set():
    """The node is broken still, and the log is to tell what enforce would do."""
    gating = _gating(mode=Mode.DRY_RUN)
    before = _decide(gating, NAMED, _with("b3", conditions=BAD))
    after = _decide(gating, NAMED, _with("b3"), at_s=5)
    assert [[False], [True]] == [[each.is_dry for each in actions] for actions in (before, after)]
