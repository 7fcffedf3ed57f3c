"""The mesh secret is changed under traffic: nothing goes down, nothing is refused, and a laggard is named."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from netnslab.daemons import Process
from netnslab.waiting import wait_until
from tests.support.stage import READY_S, VERDICT_S

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

KEY = "/etc/meshwatchd/mesh.key"
ACCEPTED = "/etc/meshwatchd/accepted.key"
CONFIG = "/etc/meshwatchd/overridden.toml"
REJECTED = ("bad-base-tag", "bad-tlv-tag", "wrong-key-id", "unknown-key", "unknown-peer", "replayed")
OUTCOMES = ("config.reloaded", "config.refused")
MOVES = ("verdict.changed", "failover.proposed", "failover.applied", "key.mismatched", "config.refused")


def new_secret() -> str:
    """As `head -c 32 /dev/urandom | base64` makes it."""
    return base64.b64encode(secrets.token_bytes(32)).decode()


def place_key(mesh, node: str, path: str, text: str) -> None:
    """Put a secret into a file that only root can read, in one step."""
    script = f"umask 277; cat > {path}.new && mv {path}.new {path}"
    mesh.lab.node(node).run(["sh", "-c", script], input=text, check=True)


def accept(mesh, node: str, path: str) -> None:
    """Name the second key in the file."""
    script = f"sed -i '/^accepted_key_file/d; s|^key_file = .*|&\\naccepted_key_file = \"{path}\"|' {CONFIG}"
    mesh.lab.node(node).run(["sh", "-c", script], check=True)


def reload(mesh, *nodes: str) -> list[dict[str, Any]]:
    """As systemd's ExecReload on each node; returns what each daemon tells of it."""
    began_ns = time.monotonic_ns()
    for node in nodes:
        mesh.daemons.reload(node)

    def told(node: str) -> list[dict[str, Any]]:
        events = mesh.daemons.events(node, since_ns=began_ns)
        return [{"event": each.name, **each.fields} for each in events if each.name in OUTCOMES]

    return [
        wait_until(partial(told, node), timeout_s=READY_S, what=f"the reload of {node}", poll_s=0.05)[0]
        for node in nodes
    ]


def step(mesh, nodes: Sequence[str], prepare: Callable[[str], None]) -> list[dict[str, Any]]:
    """One of the three, over some nodes; nobody waits for anybody else."""
    for node in nodes:
        prepare(node)
    return reload(mesh, *nodes)


def rotate(mesh, nodes: Sequence[str]) -> tuple[list[dict[str, Any]], ...]:
    """All three steps: learn a new key, sign with it, forget the old one."""
    old, new = mesh.lab.node("a1").run(["cat", KEY], check=True).stdout, new_secret()

    def learn(node: str) -> None:
        place_key(mesh, node, ACCEPTED, new)
        accept(mesh, node, ACCEPTED)

    def sign(node: str) -> None:
        place_key(mesh, node, ACCEPTED, old)
        place_key(mesh, node, KEY, new)

    return (
        step(mesh, nodes, learn),
        step(mesh, nodes, sign),
        step(mesh, nodes, lambda node: accept(mesh, node, "")),
    )


def rejected(mesh) -> dict[str, int]:
    """How many packets each node has refused, by reason."""
    counts = {}
    for node in mesh.nodes:
        for name, count in mesh.daemons.status(node)["counters"].items():
            if name.partition("-")[0] in {"requests", "replies"} and name.partition("-")[2] in REJECTED:
                counts[f"{node} {name}"] = count
    return counts


def test_a_rotation_in_three_steps_loses_nothing(mesh):
    """All learn the new key, all sign with it, all forget the old one; traffic and sessions notice none of it."""
    mesh.settle()
    began_ns, before = time.monotonic_ns(), rejected(mesh)
    learnt, signed, forgotten = rotate(mesh, mesh.nodes)

    assert 1 == len({each["signing_key_id"] for each in learnt})
    assert {2} == {len(each["accepted_key_ids"]) for each in (*learnt, *signed)}
    [signing_id] = {each["signing_key_id"] for each in (*signed, *forgotten)}
    assert {(signing_id,)} == {tuple(each["accepted_key_ids"]) for each in forgotten}
    assert {()} == {tuple(each["needs_restart"]) for each in (*learnt, *signed, *forgotten)}
    mesh.settle()
    assert before == rejected(mesh)
    assert [] == mesh.events(began_ns, *MOVES)
    fallen = [event for event in mesh.events(began_ns, "session.changed") if event.fields["state"] != "up"]
    assert [] == [event for event in fallen if event.fields["state"] == "down"]


def test_an_agent_that_is_started_anew_needs_no_file(mesh):
    """Somebody is in the middle of editing it: engine and agent go on with what the daemon was started with."""
    mesh.settle()
    place, before = mesh.lab.node("b3"), mesh.daemons.agent_pid("b3")
    place.run(["sh", "-c", f"cp {CONFIG} {CONFIG}.good && echo '[daemon' > {CONFIG}"], check=True)
    try:
        mesh.daemons.kill("b3", Process.AGENT)
        wait_until(
            lambda: mesh.daemons.agent_pid("b3") != before and mesh.daemons.status("b3"),
            timeout_s=READY_S,
            what="the next agent to answer",
        )
        mesh.settle()
    finally:
        place.run(["mv", f"{CONFIG}.good", CONFIG], check=True)


def test_a_file_that_cannot_be_used_leaves_everything_as_it_is(mesh):
    """A key that others can read, and a setting that no reload applies: told with place and remedy."""
    mesh.settle()
    place = mesh.lab.node("b3")
    before = mesh.daemons.status("b3")["counters"]["key-id-signing"]
    place.run(["chmod", "0644", KEY], check=True)
    [refused] = reload(mesh, "b3")
    place.run(["chmod", "0400", KEY], check=True)
    place.run(["sed", "-i", 's/^hold_down = .*/hold_down = "200ms"/', CONFIG], check=True)
    [changed] = reload(mesh, "b3")

    assert "config.refused" == refused["event"]
    assert f"{KEY}: auth.key_file: is open to everybody (mode 0644); run: chmod 0400" in str(refused["reason"])
    assert ("config.reloaded", ["policy.hold_down"]) == (changed["event"], changed["needs_restart"])
    assert before == mesh.daemons.status("b3")["counters"]["key-id-signing"]


def test_a_daemon_that_missed_a_step_is_named_and_not_taken_for_dead(mesh):
    """All but a3 take a key it has never heard of: the others name it and its key, and no traffic moves."""
    mesh.settle()
    began_ns = time.monotonic_ns()
    others = [node for node in mesh.nodes if node != "a3"]
    rotate(mesh, others)

    def verdicts() -> set[tuple[object, object]]:
        told = mesh.events(began_ns, "verdict.changed")
        return {(each.fields["fault"], each.fields["culprit"]) for each in told if each.node != "a3"}

    wait_until(lambda: ("key-mismatch", "a3") in verdicts(), timeout_s=VERDICT_S, what="the verdict", poll_s=0.3)
    told = mesh.events(began_ns, "key.mismatched")
    assert {"a3"} == {event.fields["peer"] for event in told if event.node != "a3"}
    assert [] == mesh.events(began_ns, "failover.proposed", "failover.applied")

    place_key(mesh, "a3", KEY, mesh.lab.node("a1").run(["cat", KEY], check=True).stdout)
    reload(mesh, "a3")
    mesh.settle()
    assert {("key-mismatch", "a3"), ("none", "")} == verdicts()
