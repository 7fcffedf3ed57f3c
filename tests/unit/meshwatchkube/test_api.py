"""The API as one of several processes has it: who writes, and what happens when it is slow, forbidden or strange."""

from __future__ import annotations

import json
from functools import partial

import msgspec
import pytest

from meshwatchkube.actions import SetConditions, SetMark, SetTaint, Tell
from meshwatchkube.api import Api, Clocks
from meshwatchkube.cluster import TAINT_KEY, Condition, Taint
from meshwatchkube.http import connect
from meshwatchkube.leaders import Mark, stands
from meshwatchkube.memory import ANNOTATION, Change, Memory
from meshwatchkube.settings import ApiSettings, DrainSettings, LeaseSettings, Settings
from netnslab.kube_api.resources import LEASES, NODES
from tests.support.kube import NOW_S, SECOND, Log, eventually, served

SETTINGS = Settings(api=ApiSettings(timeout=SECOND), lease=LeaseSettings(duration=30 * SECOND))
MARK = Mark(node="b2", field="annotations", key="kilo.squat.ai/leader", value="true")
MEMORY = Memory(changes=(Change(location="cloud", remote="onprem", leader="b2", former="b1"),), spent_s=(7,))


class _Time:
    """A clock that tests move, and nobody else: a slow machine makes no lease old."""

    def __init__(self):
        self.skipped = 0

    def monotonic(self):
        return NOW_S * SECOND + self.skipped

    def unix(self):
        return NOW_S * SECOND + self.skipped

    def skip(self, seconds):
        self.skipped += seconds * SECOND


@pytest.fixture
def clock():
    """Moved by tests."""
    return _Time()


@pytest.fixture
def log():
    """What is logged."""
    return Log()


@pytest.fixture
def cluster(tmp_path):
    """Six Nodes."""
    with served(tmp_path) as api:
        yield api


@pytest.fixture
def start(cluster, clock, log):
    """Makes processes that end with the test."""
    made = []

    def make(identity="x", settings=SETTINGS, node="a3"):
        clocks = Clocks(monotonic=clock.monotonic, unix=clock.unix)
        reach = partial(connect, str(cluster.kubeconfig), settings.api.timeout / 1e9)
        made.append(Api(settings, reach, identity=identity, node=node, say=log, clocks=clocks))
        return made[-1]

    yield make
    for api in made:
        api.close()


def _lease(cluster):
    return json.loads(json.dumps(cluster.store.get(LEASES, "meshwatchd-kube", "kube-system")))


def _fresh(api):
    eventually(lambda: api.look()[0].is_fresh, "the picture of all Nodes")
    return api.look()[0]


def _await_watches(cluster, count):
    """A picture is fresh with its list; the watch is asked for a moment later."""
    eventually(lambda: count == cluster.asked["watch", "nodes"], "the watch")


def test_the_first_process_takes_the_lease_and_sees_all_nodes(cluster, start):
    """It makes the Lease where there is none."""
    api = start()
    known = _fresh(api)
    assert known.is_writer
    assert 6 == len(known.nodes)
    assert ("x", 30) == (_lease(cluster)["spec"]["holderIdentity"], _lease(cluster)["spec"]["leaseDurationSeconds"])
    assert Memory() == api.look()[1]


def test_the_second_one_waits_until_the_first_is_gone(cluster, start, clock):
    """Its word for half a minute; then the Lease is taken over with all that is remembered."""
    first, second = start("x"), start("y")
    assert first.look()[0].is_writer
    assert first.remember(MEMORY)
    assert not second.look()[0].is_writer
    assert MEMORY == second.look()[1], "it steers by what the first one remembers"

    clock.skip(29)
    assert not second.look()[0].is_writer
    assert not first.is_writer, "nobody may think it free while it believes to hold it"
    clock.skip(11)
    assert second.look()[0].is_writer
    assert MEMORY == second.look()[1]
    assert ("y", 1) == (_lease(cluster)["spec"]["holderIdentity"], _lease(cluster)["spec"]["leaseTransitions"])
    clock.skip(11)
    assert not first.look()[0].is_writer


def test_renewals_keep_the_lease(start, clock):
    """Each third of its duration."""
    first, second = start("x"), start("y")
    for _ in range(9):
        assert first.look()[0].is_writer
        assert not second.look()[0].is_writer
        clock.skip(11)


def test_a_lease_is_given_back_at_the_end(start):
    """Nobody has to wait for its duration."""
    first, second = start("x"), start("y")
    first.look()
    first.close()
    assert second.look()[0].is_writer


def test_requests_grow_with_changes_and_not_with_time(cluster, start, clock):
    """A Lease is read and renewed each ten seconds, however often somebody looks; Nodes come by themselves."""
    api = start()
    _fresh(api)
    _await_watches(cluster, 1)
    cluster.asked.clear()
    for _ in range(50):
        api.look()
    assert {} == dict(cluster.asked)
    clock.skip(11)
    for _ in range(50):
        api.look()
    assert {("get", "leases"): 1, ("update", "leases"): 1} == dict(cluster.asked)


def test_a_thousand_nodes_cost_two_pages_and_then_changes_alone(tmp_path, clock, log):
    """One process writes; nineteen others read the Lease. Ten minutes of them."""
    names = [f"n{number:04}" for number in range(1000)]
    with served(tmp_path, names=names, bookmark_s=5) as cluster:
        clocks = Clocks(monotonic=clock.monotonic, unix=clock.unix)
        reach = partial(connect, str(cluster.kubeconfig), 5)
        made = [
            Api(SETTINGS, reach, identity=f"p{number}", node=names[number], say=log, clocks=clocks)
            for number in range(20)
        ]
        assert 1000 == len(_fresh(made[0]).nodes)
        for _ in range(60):
            for api in made:
                api.look()
            clock.skip(10)
        for number in range(50):
            version = made[0].look()[0].nodes[names[number]].metadata.resource_version
            mark = Mark(node=names[number], field="labels", key="x", value="y")
            assert made[0].write(SetMark(mark=mark, version=version))
        eventually(lambda: "y" == made[0].look()[0].nodes[names[49]].labels.get("x"), "all changes")
        assert (2, 1, 50) == tuple(cluster.asked[verb, "nodes"] for verb in ("list", "watch", "patch"))
        assert [True] + 19 * [False] == [api.is_writer for api in made]
        for api in made:
            api.close()


def test_readers_watch_no_nodes_but_their_own_where_it_is_followed(cluster, start):
    """A thousand of them would watch a thousand Nodes each."""
    first = start("x")
    _fresh(first)
    _await_watches(cluster, 1)
    cluster.asked.clear()
    reader, follower = start("y"), start("z", msgspec.structs.replace(SETTINGS, drain=DrainSettings(follow=True)))
    reader.look()
    assert ({}, False) == (reader.look()[0].nodes, reader.look()[0].is_fresh)
    assert ["a3"] == list(_fresh(follower).nodes)
    _await_watches(cluster, 1)

    eventually(lambda: ["b3"] == list(follower.look("b3")[0].nodes), "the Node of the daemon's name")


def test_writes_reach_nodes(cluster, start):
    """A mark, a taint, conditions and an Event."""
    api = start()
    version = _fresh(api).nodes["b2"].metadata.resource_version
    assert api.write(SetMark(mark=MARK, version=version))
    assert "true" == cluster.annotations("b2")["kilo.squat.ai/leader"]

    taint = Taint(key=TAINT_KEY, effect="NoSchedule", value="overlay-black-hole")
    assert api.write(SetTaint(node="b3", version=api.look()[0].nodes["b3"].metadata.resource_version, taints=(taint,)))
    condition = Condition(type="OverlayUnavailable", status="True", reason="R", message="M")
    assert api.write(SetConditions(node="b3", conditions=(condition,)))
    assert api.write(Tell(node="b3", reason="R", message="M"))
    b3 = json.loads(json.dumps(cluster.node("b3")))
    assert [TAINT_KEY] == [each["key"] for each in b3["spec"]["taints"]]
    assert ["OverlayUnavailable"] == [each["type"] for each in b3["status"]["conditions"]]
    assert [("R", "b3")] == cluster.events()
    eventually(lambda: api.look()[0].nodes["b3"].is_tainted, "the picture to show it")


def test_a_process_knows_what_it_has_written_before_the_watch_says_so(cluster, start):
    """Without its own mark it would give up the change that it has just made; what was only asked for is no mark."""
    cluster.failing["watch", "nodes"] = 500
    api = start()
    version = _fresh(api).nodes["b2"].metadata.resource_version

    assert api.write(SetMark(mark=MARK, version=version, is_dry=True))
    assert not stands(MARK, api.look()[0].nodes)
    assert api.write(SetMark(mark=MARK, version=version))
    assert stands(MARK, api.look()[0].nodes)


def test_a_node_that_has_changed_meanwhile_is_not_written_to(cluster, start, log):
    """What was decided on is not what there is; the next look decides again, and nothing is reported."""
    api = start()
    version = _fresh(api).nodes["b2"].metadata.resource_version

    def changed(before):
        return {**before, "metadata": {**before["metadata"], "labels": {"x": "y"}}}

    cluster.store.edit(NODES, "b2", "", changed)
    assert not api.write(SetMark(mark=MARK, version=version))
    assert "kilo.squat.ai/leader" not in cluster.annotations("b2")
    assert [] == log.events()
    eventually(lambda: version != api.look()[0].nodes["b2"].metadata.resource_version, "the new version")
    assert api.write(SetMark(mark=MARK, version=api.look()[0].nodes["b2"].metadata.resource_version))


def test_what_is_forbidden_is_reported_once_and_hinders_nothing_else(cluster, start, log):
    """A role that may not write Events."""
    api = start()
    version = _fresh(api).nodes["b2"].metadata.resource_version
    cluster.failing["create", "events"] = 403
    assert not api.write(Tell(node="b3", reason="R", message="M"))
    assert not api.write(Tell(node="b3", reason="R", message="M"))
    assert 1 == cluster.asked["create", "events"], "it is left alone for a while"
    assert api.write(SetMark(mark=MARK, version=version))
    assert ["api.failed"] == log.events()


@pytest.mark.parametrize("trouble", ["500", "slow"])
def test_an_api_in_trouble_costs_the_lease_and_one_line_each(cluster, start, clock, log, *, trouble):
    """Ten minutes of it: nothing is written, and everything works again afterwards."""
    api = start(settings=msgspec.structs.replace(SETTINGS, api=ApiSettings(timeout=SECOND // 5)))
    version = _fresh(api).nodes["b2"].metadata.resource_version
    if trouble == "500":
        cluster.failing["*", "leases"] = cluster.failing["*", "events"] = 500
    else:
        cluster.delay_s = 0.5
    for _ in range(12):
        clock.skip(50)
        known, memory = api.look()
    assert not known.is_writer
    assert memory is None, "what was read ten minutes ago is no memory"
    assert not api.write(SetMark(mark=MARK, version=version))
    assert not api.remember(MEMORY)
    assert 1 == sum(event == "api.failed" and fields["what"] == "lease" for event, fields in log.lines)

    cluster.failing.clear()
    cluster.delay_s = 0
    clock.skip(61)
    assert api.look()[0].is_writer
    assert api.write(SetMark(mark=MARK, version=_fresh(api).nodes["b2"].metadata.resource_version))


def test_another_ones_write_to_the_lease_is_a_conflict_and_costs_it(cluster, start, log):
    """Whoever has taken it meanwhile has it."""
    api = start()
    api.look()

    def stolen(before):
        return {**before, "spec": {**before["spec"], "holderIdentity": "thief"}}

    cluster.store.edit(LEASES, "meshwatchd-kube", "kube-system", stolen)
    assert not api.remember(MEMORY)
    assert not api.look()[0].is_writer
    assert [] == log.events()


def test_memory_that_makes_no_sense_is_reported_once_and_kept(cluster, start, log):
    """Nothing is done on it, and nothing is written over it."""
    api = start()
    api.look()

    def spoiled(before):
        return {**before, "metadata": {**before["metadata"], "annotations": {ANNOTATION: "{"}}}

    cluster.store.edit(LEASES, "meshwatchd-kube", "kube-system", spoiled)
    api.close()
    other = start("y")
    assert [None, None] == [other.look()[1], other.look()[1]]
    assert ["memory.unreadable"] == log.events()
    assert "{" == _lease(cluster)["metadata"]["annotations"][ANNOTATION]


def test_a_process_without_its_daemon_leaves_the_lease_to_one_that_has_one(cluster, start, clock):
    """Its daemon is gone: it would keep everybody from deciding, with nothing to decide by itself."""
    first, second, third = start("x"), start("y"), start("z")
    assert first.look()[0].is_writer
    assert first.remember(MEMORY)
    assert not second.look()[0].is_writer
    clock.skip(11)
    first.look(is_fit=False)
    assert MEMORY == first.look(is_fit=False)[1], "it steers by it all the same"
    assert not third.look(is_fit=False)[0].is_writer, "that one has no daemon either"
    assert second.look()[0].is_writer, "at once"
    assert MEMORY == second.look()[1]

    assert not first.look()[0].is_writer, "it has its daemon again, and looks at the Lease before it writes"
    clock.skip(11)
    assert not third.look()[0].is_writer, "the note is gone with the holder"


def test_a_daemon_that_comes_back_finds_its_process_writing(start, clock):
    """Nobody else wanted the Lease."""
    api = start()
    for is_fit in (False, True, False, True):
        assert api.look(is_fit=is_fit)[0].is_writer
        clock.skip(11)


def test_a_kubeconfig_that_is_being_written_ends_nothing(cluster, start, clock, log):
    """The Lease comes in that moment: the watch of all Nodes is begun a little later."""
    api, text = start(), cluster.kubeconfig.read_text()
    cluster.kubeconfig.write_text("")
    assert api.look()[0].is_writer
    assert [("api.failed", "kubeconfig")] == [(event, fields["what"]) for event, fields in log.lines]
    cluster.kubeconfig.write_text(text)
    clock.skip(2)
    assert 6 == len(_fresh(api).nodes)
