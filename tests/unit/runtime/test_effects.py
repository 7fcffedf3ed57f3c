"""Each command reaches its adapter."""

from __future__ import annotations

import socket
import time
from contextlib import closing

import msgspec
import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.model.events import (
    ActivePath,
    Banner,
    ReplyReceived,
    RequestReceived,
    SendFailed,
    SwitchApplied,
    SwitchFailed,
)
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import (
    ApplySwitch,
    ConfigureSessions,
    DaemonReady,
    EnsureProvision,
    ReplyOperator,
    SendProbe,
    SetBanner,
)
from meshwatchd.model.plan import Provision, Rule, Switch
from meshwatchd.model.process_facts import ConfigRefused
from meshwatchd.model.service_check import NOT_SEEN, ServiceSeen
from meshwatchd.model.settings import SECOND
from meshwatchd.model.stamp import StampMode, StampSettings
from meshwatchd.runtime.clocks import Clocks, JumpWatch
from meshwatchd.wire.auth import KeyRole, MeshSecret, key_id
from tests.support.engine_node import EngineNode, engine_node, no_agent, python_agent
from tests.support.netns import namespace
from tests.support.packet_node import SECRET, free_port, send, udp
from tests.support.pump import pump
from tests.support.service_frames import ASKED
from tests.support.stamp_peer import read_answer, sender_packet


def test_sessions_are_configured_probed_and_listened_for():
    """The ports of the plan and the two of the settings are open; a probe is answered."""
    with engine_node() as node:
        node.begin(monotonic_ns())
        assert frozenset() == node.effects.take_ended()
        base = node.effects._base_port
        for port in (base, base + 1):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, pytest.raises(OSError, match="in use"):
                other.bind(("", port))

        node.effects.carry_out(send(seq=4), monotonic_ns())
        assert 0 == node.effects.counters()["probes-open"]
        node.effects.flush()
        assert 1 == node.effects.counters()["probes-open"]
        pump(node.poller, lambda: bool(node.inbox))

        [reply] = node.inbox
        assert isinstance(reply, ReplyReceived)
        assert 4 == reply.seq


ANSWERING_AGENT = """
import select
from collections import Counter
from meshwatchd.model.frames import AnswerFrame, AskFrame
from meshwatchd.model.service_check import ServiceSeen
from meshwatchd.runtime.link import agent_end
end = agent_end(3, Counter())
asked = []
while len(asked) < 2:
    select.select([end], [], [])
    asked += [frame for frame in end.receive() if isinstance(frame, AskFrame)]
    for frame in asked[:1]:
        end.send(AnswerFrame(number=frame.number, event=ServiceSeen(session=frame.plan.session, seq=frame.seq)))
"""
"""Answers the first question for a service, and ends without a word when it has the second."""


def test_services_are_asked_for_by_the_agent_and_what_it_does_not_answer_is_not_seen():
    """The engine opens nothing for them; without an agent, or after its end, nobody has seen the service."""
    with engine_node(python_agent(ANSWERING_AGENT)) as node:
        plan = ASKED.plan
        node.effects.carry_out(ConfigureSessions(sessions=(plan,)), monotonic_ns())

        def ask(seq):
            node.effects.carry_out(SendProbe(session=plan.session, seq=seq, source_port=free_port()), monotonic_ns())

        def is_told():
            node.inbox.extend(node.agent.receive())
            return any(isinstance(each, ServiceSeen | SendFailed) for each in node.inbox)

        ask(1)
        assert [SendFailed(session=plan.session, seq=1, errno=NOT_SEEN)] == list(node.inbox)
        node.inbox.clear()
        node.agent.advance(monotonic_ns())
        ask(2)
        pump(node.poller, is_told)
        assert [ServiceSeen(session=plan.session, seq=2)] == list(node.inbox)
        node.inbox.clear()
        ask(3)
        pump(node.poller, is_told)
        assert SendFailed(session=plan.session, seq=3, errno=NOT_SEEN) in node.inbox
        assert 0 == node.effects.counters()["probes-open"]


def test_what_waits_for_a_node_that_leaves_is_sent_before():
    """In one turn: a first probe is commanded, and the mesh is known to be another one."""
    with engine_node() as node:
        node.begin(monotonic_ns())
        node.effects.carry_out(send(seq=4), monotonic_ns())
        node.effects.carry_out(ConfigureSessions(sessions=(), nodes=(NodeName("b2"),)), monotonic_ns())

        assert 1 == node.effects.counters()["probes-sent"]


def test_secrets_are_changed_while_probes_fly():
    """What signs is counted; the next probe carries it."""
    new = MeshSecret(secret=bytes(range(1, 33)))
    with engine_node() as node:
        node.begin(monotonic_ns())
        assert key_id(SECRET.secret) == node.effects.counters()["key-id-signing"]

        both = (new, MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY))
        expected = (key_id(new.secret), tuple(sorted(key_id(each.secret) for each in both)))
        assert expected == node.effects.use_secrets(both)
        assert key_id(new.secret) == node.effects.counters()["key-id-signing"]


def test_fact_of_the_runtime_is_told_like_one_of_the_core():
    """It waits for the agent, dated."""
    with engine_node() as node:
        node.effects.state(ConfigRefused(reason="no"))
        assert node.effects.take_stated()


def test_banner_is_on_the_next_probe():
    """The peer hears it."""
    banner = Banner(view_up=1, view_known=1, active=(ActivePath(pair=0, rank=2, generation=9),))
    with engine_node() as node:
        node.begin(monotonic_ns())
        node.effects.carry_out(SetBanner(banner=banner), monotonic_ns())
        node.effects.carry_out(send(), monotonic_ns())
        node.effects.flush()
        pump(node.poller, lambda: bool(node.peer.events))

        [heard] = node.peer.events
        assert isinstance(heard, RequestReceived)
        assert banner == heard.banner


def test_probes_of_a_machine_that_was_resumed_are_answered():
    """A snapshot brings back old numbers, of which b1 has seen more. Another epoch is proven, and goes on with them."""
    ahead_ns = 0
    clocks = Clocks(monotonic_ns=monotonic_ns, wall_ns=lambda: time.time_ns() + ahead_ns)

    def ask(node: EngineNode, number: int) -> None:
        node.effects._prober._sequences[0] = number
        node.effects.carry_out(send(), monotonic_ns())
        node.effects.flush()
        pump(node.poller, lambda: bool(node.peer.events) or bool(node.peer.counters["requests-replayed"]))

    with engine_node() as node:
        node.effects._jumps = JumpWatch(clocks)
        node.begin(monotonic_ns())
        guard = node.peer.peers.peer(NodeName("a1")).guard
        guard.confirm(node.effects._epoch)
        ask(node, 5000)
        assert isinstance(node.peer.events.pop(), RequestReceived)
        node.effects.retry()
        ask(node, 7)
        assert 1 == node.peer.counters.pop("requests-replayed"), "the clock goes on, and the epoch stays"

        ahead_ns = 3600 * SECOND
        node.effects.retry()
        assert guard.confirm(node.effects._epoch), "b1 has probed a1 meanwhile, and was answered"
        ask(node, 7)
        [heard] = node.peer.events
        assert isinstance(heard, RequestReceived)
        assert heard.is_fresh_epoch
        assert 1 == node.effects.counters()["epochs-renewed"]


def test_facts_are_stated_and_commands_to_the_agent_are_not():
    """A fact brings the next status nearer."""
    with engine_node() as node:
        node.effects.carry_out(EnsureProvision(provision=Provision()), 1)
        node.effects.carry_out(ReplyOperator(request=1, is_accepted=True, text=""), 1)
        assert not node.effects.take_stated()

        node.effects.carry_out(DaemonReady(pair=0), 1)
        assert node.effects.take_stated()
        assert not node.effects.take_stated()


def test_no_session_without_a_peer():
    """A plan for a node that the mesh does not have is counted and skipped."""
    with engine_node() as node:
        stranger = msgspec.structs.replace(node.core.plans[0], peer=NodeName("x9"))
        node.effects.carry_out(ConfigureSessions(sessions=(stranger,)), 1)

        assert 1 == node.counters["sessions-without-peer"]


@pytest.mark.lab
def test_switch_is_applied_or_its_failure_told():
    """The kernel's answer is an event, with the kernel's words."""
    with namespace() as space, closing(space.call(lambda: EngineNode(no_agent))) as node:
        good = Switch(add=(Rule(priority=5460, table=7701),))
        bad = Switch(add=(Rule(priority=5461, table=7701, iif="a-name-too-long-for-a-device"),))
        node.effects.carry_out(ApplySwitch(pair=0, generation=4, switch=good), 1)
        node.effects.carry_out(ApplySwitch(pair=0, generation=5, switch=bad), 1)

        applied, failed = node.inbox
        assert SwitchApplied(pair=0, generation=4) == applied
        assert isinstance(failed, SwitchFailed)
        assert "ip rule add pref 5461" in failed.error
        assert "5460:" in space.ip("rule")
        assert "5461:" not in space.ip("rule")


def test_other_makers_senders_are_answered_where_the_configuration_asks_for_it():
    """With the key that was read, in the same loop; the kernel's count of the others is told."""
    key = b"shared with the other maker"
    stamp = StampSettings(listen=free_port(), mode=StampMode.AUTHENTICATED, key_file="/k", allow=("127.0.0.1/32",))
    with engine_node(stamp=stamp, stamp_key=key) as node, udp() as sender, udp("127.0.0.2") as stranger:
        node.effects.retry()
        for asking in (stranger, sender):
            asking.sendto(sender_packet(0, key=key), ("127.0.0.1", stamp.listen))
        pump(node.poller, lambda: bool(node.counters["stamp-answered"]))

        assert 0 == read_answer(sender.recv(2048), key).sender_sequence
        assert 1 == node.effects.counters()["stamp-filtered"]
        node.effects.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("", stamp.listen))


def test_a_port_that_cannot_be_had_is_told(capsys):
    """Below 1024 the service may not listen without a drop-in, and nobody would be answered."""
    stamp = StampSettings(listen=free_port(), allow=("127.0.0.1/32",))
    with udp("0.0.0.0", stamp.listen), engine_node(stamp=stamp):
        pass

    told = msgspec.json.decode(capsys.readouterr().err.splitlines()[0])
    assert ("stamp.unheard", stamp.listen) == (told["event"], told["port"])
    assert "stamp.conf" in told["remedy"]


def test_a_refused_sender_is_a_fact():
    """For the log: address and reason."""
    key = b"shared with the other maker"
    stamp = StampSettings(listen=free_port(), mode=StampMode.AUTHENTICATED, key_file="/k", allow=("127.0.0.1/32",))
    with engine_node(stamp=stamp, stamp_key=key) as node, udp() as sender:
        sender.sendto(sender_packet(0, key=b"another"), ("127.0.0.1", stamp.listen))
        pump(node.poller, lambda: bool(node.counters["stamp-bad-base-tag"]))

        assert node.effects.take_stated()


def test_other_makers_senders_are_not_answered_by_default():
    """No socket, no counter."""
    with engine_node() as node:
        assert "stamp-filtered" not in node.effects.counters()
