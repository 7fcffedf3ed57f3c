"""The agent process on the real kernel, with the test in the engine's place."""

import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from meshwatchd.config.load import load
from meshwatchd.model.events import ObjectLost, Provisioned, SnapshotReceived
from meshwatchd.model.frames import EventFrame, ProvisionFrame
from meshwatchd.model.outputs import EnsureProvision
from meshwatchd.model.plan import Provision, Route, Rule, StandbyLink
from meshwatchd.runtime import link
from meshwatchd.runtime.boot import Boot, hand_over
from netnslab.waiting import wait_until
from tests.conftest import ROOT
from tests.support.throwaway import nodes

pytestmark = pytest.mark.lab

DEADLINE_S = 30
LINK = StandbyLink(
    device="mw0",
    peer="a1",
    listen_port=51830,
    mtu_bytes=1420,
    peer_public_key="L6Yk4ScDtGWXVvhNWZJBnDDf/tkZbWWcJmQkbQV1qzQ=",
    endpoint="10.9.0.2:51830",
    allowed_ips=("10.244.1.0/24",),
    keepalive_s=10,
)
OUT = Route(dst="10.244.1.0/24", table=7701, dev="mw0", src="10.9.0.1")
DELIVERY = Rule(priority=5400, table=7799, iif="mw0")
OVERRIDE = Rule(priority=5460, table=7701)
WANTED = ProvisionFrame(command=EnsureProvision(provision=Provision(links=(LINK,), routes=(OUT,), rules=(DELIVERY,))))
CONFIGURATION = """
[daemon]
node = "b2"
mode = "observe"
state_dir = "{state}"
runtime_dir = "{state}/run"
[standby]
private_key_file = "{state}/standby.key"
"""


class Session:
    """One agent, and the engine's end of its link."""

    def __init__(self, node):
        config = node.state_dir / "meshwatchd.toml"
        config.write_text(CONFIGURATION.format(state=node.state_dir))
        ours, theirs = link.pair()
        argv = [sys.executable, "-P", "-m", "meshwatchd.runtime.agent_process"]
        boot = hand_over(Boot(config=str(config), settings=load(config)))
        argv += ["--link-fd", str(theirs.fileno()), "--boot-fd", str(boot)]
        self.process = subprocess.Popen(
            node.space.command(argv),
            pass_fds=[theirs.fileno(), boot],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        theirs.close()
        os.close(boot)
        self.engine = link.engine_end(ours, Counter())
        self.events = []

    def expect(self, kind, condition=lambda event: True):
        """The next event of a kind that fits; earlier ones are passed over."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            while self.events:
                event = self.events.pop(0)
                if isinstance(event, kind) and condition(event):
                    return event
            select.select([self.engine], [], [], deadline - time.monotonic())
            self.events += [frame.event for frame in self.engine.receive() if isinstance(frame, EventFrame)]
        raise AssertionError(f"no {kind.__name__} within {DEADLINE_S} s")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=DEADLINE_S)
        self.engine.close()

    def end(self, number=None):
        """End the agent by a signal, or by closing the link; returns its exit status."""
        if number is None:
            self.engine.close()
        else:
            self.process.send_signal(number)
        return self.process.wait(timeout=DEADLINE_S)


@pytest.fixture
def node(tmp_path):
    """One node."""
    with nodes(tmp_path, "b2") as (only,):
        yield only


def test_a_snapshot_comes_first_and_shows_what_was_provided(node):
    """Nothing is changed before it; what is changed shows in the next one."""
    with Session(node) as agent:
        first = agent.expect(SnapshotReceived).snapshot
        agent.engine.send(WANTED)

        assert ((), (), ()) == (first.rules, first.routes, first.collisions)
        assert agent.expect(Provisioned).is_complete
        seen = agent.expect(SnapshotReceived, lambda event: event.snapshot.link("mw0")).snapshot
        assert ((DELIVERY,), (OUT,)) == (seen.rules, seen.routes)
        assert 0 == agent.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_the_agent_leaves_the_network_as_it_is(node, number):
    """The standby device outlives it, and the next agent finds everything in place."""

    def view():
        return node.ip("rule"), node.ip("route show table 7701"), node.ip("-o link show mw0")

    with Session(node) as agent:
        agent.engine.send(WANTED)
        agent.expect(Provisioned)
        before = view()
        assert agent.end(number) in {0, -signal.SIGKILL}
        assert before == view()

    with Session(node) as successor:
        found = successor.expect(SnapshotReceived).snapshot
        assert ((DELIVERY,), (OUT,), ()) == (found.rules, found.routes, found.collisions)
        successor.engine.send(WANTED)
        assert successor.expect(Provisioned).is_complete
        assert before == view()


def test_removals_are_told_and_overrides_are_left_to_the_engine(node):
    """A standing rule is put back at once; an override is only reported."""
    with Session(node) as agent:
        agent.engine.send(WANTED)
        agent.expect(Provisioned)
        node.ip("rule add pref 5460 lookup 7701 protocol 117")
        agent.expect(SnapshotReceived, lambda event: OVERRIDE in event.snapshot.rules)

        node.ip("rule del pref 5460")
        node.ip("rule del pref 5400")

        assert f"rule {OVERRIDE.render()}" == agent.expect(ObjectLost).what
        assert f"rule {DELIVERY.render()}" == agent.expect(ObjectLost).what
        wait_until(lambda: "5400:" in node.ip("rule"), timeout_s=DEADLINE_S, what="the standing rule")
        assert "5460:" not in node.ip("rule")


def test_the_peers_of_a_tunnel_are_told(node):
    """By the kernel or by a process: key, endpoint and prefixes; the handshake is still to come."""
    with Session(node) as agent:
        agent.engine.send(WANTED)
        (tunnel,) = agent.expect(SnapshotReceived, lambda event: event.snapshot.wireguard).snapshot.wireguard
        (peer,) = tunnel.peers

        assert ("mw0", LINK.listen_port) == (tunnel.device, tunnel.listen_port)
        assert (LINK.peer_public_key, LINK.endpoint, LINK.allowed_ips) == (
            peer.public_key,
            peer.endpoint,
            peer.allowed_ips,
        )
        assert 0 == peer.handshake_ns


def test_a_collision_stops_every_change(node):
    """Told in the snapshot, and again as the reason for refusing."""
    node.ip("rule add pref 5411 lookup 100")
    with Session(node) as agent:
        assert 1 == len(agent.expect(SnapshotReceived).snapshot.collisions)
        agent.engine.send(WANTED)

        outcome = agent.expect(Provisioned)
        assert not outcome.is_complete
        assert "kernel.priority_base" in outcome.errors[0]
        assert "mw0" not in node.ip("link")


def test_an_interrupt_is_for_the_engine_to_act_on(node):
    """^C in a terminal reaches both processes; the agent waits for the end of the link."""
    with Session(node) as agent:
        agent.expect(SnapshotReceived)

        agent.process.send_signal(signal.SIGINT)
        agent.engine.send(WANTED)

        assert agent.expect(Provisioned).is_complete
        assert 0 == agent.end()
