"""What the daemon will not do: start on a configuration that cannot be meant, or act where it must not."""

from __future__ import annotations

import tomllib
from contextlib import ExitStack
from functools import partial

import pytest
import tomli_w

from netnslab import Lab, faults, marks
from netnslab.daemons import CONFIGURATION, DAEMON, Daemons
from netnslab.live_state import kernel_objects
from netnslab.waiting import wait_until
from tests.support.stage import QUICK, READY_S, VERDICT_S

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

BAD_FILE = "/etc/meshwatchd/bad.toml"
OTHER_KEY = "/etc/meshwatchd/other.key"


@pytest.fixture(scope="module")
def lab():
    """One mesh without daemons for all tests of this file."""
    with Lab.up("kilo-flannel") as mesh:
        yield mesh


@pytest.fixture(autouse=True)
def untouched(lab):
    """After each test all kernels are as they were before it."""
    before = {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}
    yield before
    assert before == {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}


def start_with(place, change):
    """Run the daemon on a changed copy of a node's configuration until it refuses."""
    document = tomllib.loads(place.run(["cat", CONFIGURATION], check=True).stdout)
    change(document)
    place.run(["tee", BAD_FILE], input=tomli_w.dumps(document), check=True)
    return place.run([*DAEMON, "--config", BAD_FILE], timeout=30)


def unknown_key(document):
    """A misspelt setting."""
    document["probe"] = {"profil": "fast"}


def wrong_type(document):
    """A number where a text belongs."""
    document["policy"] = {"hold_down": 5}


def overlapping_prefixes(document):
    """Two nodes claim one range of pods."""
    document["mesh"]["node"][1]["pod_cidr"] = document["mesh"]["node"][0]["pod_cidr"]


def missing_key(document):
    """The mesh key is not there."""
    document["auth"] = {"key_file": "/etc/meshwatchd/absent.key"}


def open_key(document):
    """The mesh key can be read by everybody; the test makes it so."""
    document["auth"] = {"key_file": OTHER_KEY}


@pytest.mark.parametrize(
    ("change", "file", "key"),
    [
        (unknown_key, BAD_FILE, "probe.profil"),
        (wrong_type, BAD_FILE, "policy.hold_down"),
        (overlapping_prefixes, BAD_FILE, "mesh.node[1] (a2).pod_cidr"),
        (missing_key, "/etc/meshwatchd/absent.key", "auth.key_file"),
        (open_key, OTHER_KEY, "auth.key_file"),
    ],
)
def test_bad_input_ends_in_one_line_and_status_2(lab, change, file, key):
    """The line names the file, the key's path and what to do; no kernel object is made."""
    place = lab.node("b2")
    place.run(["sh", "-c", f"cp /etc/meshwatchd/mesh.key {OTHER_KEY}; chmod 0644 {OTHER_KEY}"], check=True)

    refused = start_with(place, change)

    assert 2 == refused.returncode
    assert 1 == len(refused.stderr.splitlines()), refused.stderr
    place_named, _, remedy = refused.stderr.partition(";")
    assert f"{file}: {key}: " in place_named
    assert len(remedy.split()) >= 2
    assert "" == refused.stdout


@pytest.mark.parametrize(
    ("taken", "named"),
    [("rule add pref 5410 lookup 100", "5410"), ("route add 9.0.0.0/8 dev lo table 7701 proto static", "7701")],
)
def test_beside_a_priority_or_table_of_somebody_else_a_node_only_watches(lab, tmp_path, taken, named):
    """It says what is there and which setting moves it elsewhere, and acts as soon as that is gone."""
    place = lab.node("b2")
    place.run(["ip", *taken.split()], check=True)
    before = kernel_objects(place)
    with ExitStack() as stack, Daemons(lab, tmp_path, settings=QUICK, nodes=["b2"]) as daemons:
        gone = partial(place.run, ["ip", *taken.replace(" add ", " delete ", 1).split()])
        stack.callback(gone)

        def told(field):
            return (daemons.status("b2") or {}).get(field)

        (held, *_) = wait_until(partial(told, "collisions"), timeout_s=READY_S, what="the collision")
        assert named in held
        assert "kernel." in held
        assert wait_until(partial(told, "pairs"), timeout_s=READY_S, what="b2 to watch")
        assert before == kernel_objects(place)
        gone()
        stack.pop_all()
        wait_until(lambda: marks.marked(place), timeout_s=READY_S, what="what b2 puts in place")
        wait_until(lambda: not told("collisions"), timeout_s=READY_S, what="the status")
        daemons.stop()
        assert [0] == [swept.returncode for swept in daemons.sweep()]


@pytest.mark.parametrize("mode", ["observe", "advise"])
def test_a_watcher_that_may_not_act_names_the_fault_and_marks_nothing(lab, untouched, tmp_path, mode):
    """The verdict is there, advice is given in advise alone, and no kernel has an object of ours."""
    with Daemons(lab, tmp_path, settings={**QUICK, "daemon": {"mode": mode}}) as daemons:
        daemons.wait_ready(timeout_s=READY_S)
        assert untouched == {node: kernel_objects(lab.node(node)) for node in lab.topology.nodes}
        with faults.overlay_black_hole(lab, "b1"):

            def named(node):
                status = daemons.status(node)
                verdict = status["pairs"][0]["verdict"] if status else {}
                return verdict.get("fault"), verdict.get("culprit")

            wait_until(
                lambda: {("overlay-black-hole", "b1")} == {named(node) for node in ("a3", "b2", "b3")},
                timeout_s=VERDICT_S,
                what="the verdict",
                poll_s=0.3,
            )
            if mode == "advise":
                wait_until(
                    lambda: [event for event in daemons.events() if event.name == "failover.advised"],
                    timeout_s=VERDICT_S,
                    what="advice",
                    poll_s=0.3,
                )
            assert {} == marks.marked_by_node(lab, lab.topology.nodes)
        told = {event.name for event in daemons.events()}

    assert not told & {"failover.applied", "failover.proposed"}
    assert (mode == "advise") == ("failover.advised" in told)
