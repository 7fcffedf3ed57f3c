"""The last release and this checkout in one mesh: they understand each other, and either takes the other's place.

What is kept of the last release is in tests/data/releases.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest

import meshwatchd
from meshwatchd.wire.hello import HelloRejection
from meshwatchd.wire.parse import RejectReason
from netnslab import faults
from netnslab.waiting import wait_until
from tests.support.releases import last_version, unpack_last
from tests.support.stage import QUICK, READY_S, stage

pytestmark = [pytest.mark.lab, pytest.mark.timeout(480)]

LEADERS, MEMBERS, OTHERS = ("a1", "b1"), ("a2", "b2"), ("a3", "b3")
"""The second are of this version from the beginning, and the others of the last release."""
SHORT_S = 90
STATE, JOURNAL = "/var/lib/meshwatchd", "/run/meshwatchd/journal"
SETTINGS: Mapping[str, Mapping[str, object]] = {**QUICK, "daemon": {"journal_mib": 16}}
NOW, LAST = meshwatchd.__version__, last_version()
# What a node says that does not understand another one, or that has moved what it should not.
MISHAPS = (
    "failover.rolled_back",
    "plan.refused",
    "collision.found",
    "topology.rejected",
    "agent.restarted",
    "generation.refused",
    "key.mismatched",
    "identity.changed",
)
REMARKS = ("hello.rejected", "input.refused", "control.refused")
# Counters of packets that were not understood. What was on its way to a daemon that has ended is no such thing.
UNREAD = {
    *RejectReason,
    *(reason for reason in HelloRejection if reason is not HelloRejection.REPEATED),
}


@pytest.fixture(scope="module")
def last(tmp_path_factory):
    """The folder of the last release."""
    return unpack_last(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def mesh(tmp_path_factory, last):
    """One mesh for all tests of this file, which build on each other; first all but MEMBERS are of the last release."""
    assert NOW != LAST
    releases = dict.fromkeys((*LEADERS, *OTHERS), last)
    with stage(tmp_path_factory.mktemp("mixed"), settings=SETTINGS, releases=releases) as built:
        yield built


def versions(mesh, nodes):
    """Those of the daemons of some nodes, by their own word."""
    said = [json.loads(mesh.daemons.control(node, "--json", "version").stdout) for node in nodes]
    return {each["meshwatchd"] for each in said}


def start(mesh, node, release):
    """Start a release on a node, or this checkout."""
    mesh.daemons.releases.pop(node, None)
    if release is not None:
        mesh.daemons.releases[node] = release
    mesh.daemons.start(node)


def change_under_way(mesh, node, release, *, state=None):
    """Replace a node's daemon during a failover, over a changed state: what is diverted stays so, by the same path."""
    rank, overrides, changed_ns = mesh.pair(node)["active_rank"], mesh.diverted(), time.monotonic_ns()
    mesh.daemons.stop(node)
    if state is not None:
        state(mesh, node)
    start(mesh, node, release)
    mesh.wait_ranks(rank)
    assert overrides == mesh.diverted()
    if node in overrides:
        assert [node] == [event.node for event in mesh.adopted(changed_ns)]


def bring_state_of_the_future(mesh, node):
    """Each state file says that a later version has written it, with a part that nobody knows."""
    for name in state_files(mesh, node):
        content = json.loads(mesh.lab.node(node).run(["cat", f"{STATE}/{name}"], check=True).stdout)
        text = json.dumps({**content, "version": 2, "of_the_future": {}})
        mesh.lab.node(node).run(["tee", f"{STATE}/{name}"], input=text, check=True)


def state_files(mesh, node):
    """The names of a node's files with a version."""
    return sorted(name for name in mesh.lab.node(node).run(["ls", STATE]).stdout.split() if name.endswith(".json"))


def assert_set_aside(mesh, node):
    """All of them were moved aside, nothing was refused for that, and what is written in their place is of today."""
    names = mesh.lab.node(node).run(["ls", STATE]).stdout.split()
    bad = sorted(name for name in names if name.endswith(".bad"))
    assert {"links.json.bad", "mesh.json.bad", "policy.json.bad"} <= set(bad)
    for name in state_files(mesh, node):
        content = json.loads(mesh.lab.node(node).run(["cat", f"{STATE}/{name}"], check=True).stdout)
        assert (1, False) == (content.get("version", 1), "of_the_future" in content), name


def mishaps(mesh, since_ns):
    """Those of all nodes; that a wireguard-go of the laboratory is starved of CPU says nothing of versions."""
    found = mesh.events(since_ns, *MISHAPS)
    return [event for event in found if "nothing answers on" not in str(event.fields.get("reason", ""))]


def assert_understood(mesh, since_ns):
    """No node has found fault with what another one sent, nor with its own kernel."""
    assert [] == mishaps(mesh, since_ns)
    assert [] == [line for line in mesh.log_lines("warning") if line["event"] in REMARKS]
    assert [] == [line for line in mesh.log_lines("error") if line["event"] != "verdict.changed"]
    for node in mesh.nodes:
        counters = mesh.daemons.status(node)["counters"]
        unread = {name: count for name, count in counters.items() if name.removeprefix("replies-") in UNREAD and count}
        assert {} == unread, node


def test_either_meshwatchctl_asks_the_daemon_of_the_other(mesh, last):
    """Each answers; `doctor` names both versions, and a journal is replayed by the version that wrote it alone."""
    assert ({LAST}, {NOW}) == (versions(mesh, LEADERS), versions(mesh, MEMBERS))
    for release, node, own, other in ((None, "a1", NOW, LAST), (last, "b2", LAST, NOW)):
        for words in (("status",), ("explain",), ("pause", "--reason", "two versions"), ("resume",)):
            done = mesh.daemons.control_of(release, node, *words)
            assert (0, "") == (done.returncode, done.stderr), (node, words, done.stdout)
        checked = mesh.daemons.control_of(release, node, "doctor")
        assert "" == checked.stderr
        assert f"meshwatchd {other} runs, and {own} is installed" in " ".join(checked.stdout.split())
        refused = mesh.daemons.control_of(release, node, "replay", JOURNAL)
        assert (64, "") == (refused.returncode, refused.stdout)
        assert f"written by meshwatchd {other}; replay it with that version" in " ".join(refused.stderr.split())
    same = mesh.daemons.control("a1", "replay", JOURNAL)
    assert (0, "the same") == (same.returncode, same.stdout.strip()[-8:]), same.stderr


def test_nodes_of_this_version_say_little_to_each_other_alone(mesh):
    """Once nobody has anything new to say their hellos are short; those of the last release get whole ones."""
    began_ns = time.monotonic_ns()

    def are_short():
        told = [mesh.daemons.status(node)["counters"] for node in MEMBERS]
        return all(each.get("hello-sent-short") for each in told)

    wait_until(are_short, timeout_s=SHORT_S, what="hellos of members to be short")
    assert_understood(mesh, began_ns)


def test_both_heal_a_fault_and_either_takes_the_others_place_meanwhile(mesh, last):
    """Named by nodes of both, moved by relays of both; none is lost on the way home.

    While traffic is away the leaders are upgraded, one relay goes back to the last release, over the state of this one,
    and the other finds state of the future.
    """
    mesh.settle()
    began_ns = time.monotonic_ns()
    with mesh.struck(faults.overlay_black_hole_new_flows(mesh.lab, "b1")) as strike:
        relay, other = mesh.relays(mesh.wait_switched())
        mesh.wait_restored(strike.began_ns)
        mesh.wait_verdicts("overlay-new-flows", "b1", mesh.nodes)
        assert_understood(mesh, began_ns)
        for node in LEADERS:
            change_under_way(mesh, node, None)
        assert_understood(mesh, began_ns)
        change_under_way(mesh, other, last)
        change_under_way(mesh, relay, None, state=bring_state_of_the_future)
        assert mesh.connections_live_on()

    assert 0 == mesh.lost(strike.healed_ns, time.monotonic_ns())
    mesh.daemons.wait_ready(relay, timeout_s=READY_S)
    assert_set_aside(mesh, relay)
    # Until the next hello of each, the relay does not know the keys that it had agreed on with others.
    assert [] == [event for event in mishaps(mesh, began_ns) if event.name != "key.mismatched"]
    assert ({LAST}, {NOW}) == (versions(mesh, (other, *OTHERS)), versions(mesh, (relay, "b1")))
