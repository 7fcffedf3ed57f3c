import asyncio
import base64
import contextlib
import os
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from meshwatchd.adapters.netlink.monitor import Overrun
from meshwatchd.model.events import OperatorRequested, OperatorVerb, SendFailed
from meshwatchd.model.faults import Severity
from meshwatchd.model.frames import (
    AliveFrame,
    AnswerFrame,
    EventFrame,
    FactFrame,
    KeysFrame,
    OperatorReplyFrame,
    PingFrame,
    StateFrame,
    StatusFrame,
    StopFrame,
)
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import ReplyOperator, VerdictChanged
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.model.process_facts import AgentRestarted, ConfigReloaded
from meshwatchd.model.service_check import NOT_SEEN
from meshwatchd.model.settings import DaemonSettings, Settings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.status import Status
from meshwatchd.profiles.steady import Steady
from meshwatchd.runtime import link
from meshwatchd.runtime.agent import Agent
from meshwatchd.runtime.logging import make_log
from meshwatchd.wire.auth import MeshSecret
from tests.support.example_bisection import RESULT
from tests.support.lab_mesh import declared_mesh
from tests.support.node_states import kilo_flannel
from tests.support.service_frames import ASKED
from tests.unit.core.diagnosis.test_bisection_trigger import verdict

STATUS = Status(
    at_ns=1,
    node=NodeName("b3"),
    location="cloud",
    role="member",
    mode="enforce",
    is_ready=True,
    severity=Severity.OK,
    pairs=(),
    sessions=(),
    counters={},
)


RELOADED = ConfigReloaded(signing_key_id=1, accepted_key_ids=(1,), needs_restart=())


@pytest.fixture
def settings(tmp_path):
    """State and sockets in a scratch directory."""
    daemon = DaemonSettings(node="b3", state_dir=str(tmp_path / "state"), runtime_dir=str(tmp_path / "run"))
    return msgspec.structs.replace(Settings(), daemon=daemon)


def with_agent(settings, scenario, log=None, secrets=()):
    """Run a scenario with an agent that is not started and the engine's end of its link."""

    async def run():
        ours, theirs = link.pair()
        engine = link.engine_end(ours, Counter())
        end = link.agent_end(theirs.detach(), Counter())
        agent = Agent(settings, end, log or make_log("json", level="error"), secrets=secrets)
        try:
            return await scenario(agent, engine)
        finally:
            agent._link.close()
            agent._kernel.close()
            agent._dumper.close()
            agent._lookups.close()
            agent._rule_place.close()
            agent._care.close()
            agent._services.close()
            agent.events().close()
            engine.close()

    return asyncio.run(run())


def test_the_last_status_is_what_operators_get(settings):
    """With the memory of both processes; nothing else is computed for them."""

    async def scenario(agent, engine):
        before = agent.status()
        agent._take(StatusFrame(status=STATUS))
        return before, agent.status()

    before, after = with_agent(settings, scenario)

    assert before is None
    assert STATUS == msgspec.structs.replace(after, knowledge=None, resident_bytes=0)
    assert after.resident_bytes > 2**22


def test_who_asks_what_a_node_is_takes_no_role_from_discovery(settings):
    """A role that is due counts from the next look on: were that an operator's, nobody would be told of it. What others
    say wrongly is shown with the reasons.
    """

    async def scenario(agent, _engine):
        agent._own_view._steady = Steady(hold_ns=1)
        for name in ("a2", "a1"):
            agent._snapshot = kilo_flannel(name)
            agent._discovery._view = agent._own_view.look(agent._snapshot)
        agent._discovery._remarks.complain("b3", "pod_cidr 'everything' is no IPv4 prefix")
        return agent.view(), agent._own_view.deadline()

    log = make_log("json", level="error")
    shown, due_ns = with_agent(settings, scenario, log, (MeshSecret(secret=bytes(32)),))

    assert due_ns is not None
    assert not shown.is_leader
    assert "hello of b3" == shown.why[-1].source


class Refusals:
    """A log that keeps warnings."""

    def __init__(self):
        self.told: list[tuple[str, dict[str, object]]] = []

    def warning(self, event, **fields):
        """Keep it."""
        self.told.append((event, fields))


def test_notifications_that_cannot_be_read_are_told_with_their_reason(settings):
    """Everything is read again then, which people may wonder about."""
    log = Refusals()

    async def scenario(agent, _engine):
        agent._mirror.is_in_sync = True
        for _ in range(2):
            agent._mirror.take(Overrun(reason="netlink route: short"))

    with_agent(settings, scenario, log)

    assert [("netlink.overrun", {"reason": "netlink route: short"})] == log.told


def test_facts_become_events(settings):
    """Kept and numbered for `meshwatchctl events`."""

    async def scenario(agent, engine):
        agent._take(FactFrame(at_ns=time.monotonic_ns(), fact=AgentRestarted(exit_status=-9)))
        return agent.events().read()

    (event,) = with_agent(settings, scenario)

    assert ("agent.restarted", -9) == (event["event"], event["exit_status"])


def test_a_disk_that_hangs_does_not_keep_the_agent_from_answering(settings):
    """A pipe in the place of the file that is to be written: opening it takes until somebody reads."""
    folder = Path(settings.daemon.state_dir)
    folder.mkdir()
    os.mkfifo(folder / "policy.new")

    async def scenario(agent, engine):
        agent._take(StateFrame(state=PolicyState()))
        agent._take(PingFrame())
        answers = engine.receive()
        with (folder / "policy.new").open("rb") as disk:
            written = await asyncio.to_thread(disk.read)
            await agent._state.close()
        return answers, written

    answers, written = with_agent(settings, scenario)

    assert [AliveFrame()] == answers
    assert b'"version":1' in written


def test_a_question_for_a_service_goes_to_the_desk_and_its_answer_back(settings):
    """This one has waited for hours, so that nobody is asked."""

    async def scenario(agent, engine):
        agent._take(ASKED)
        return engine.receive()

    unseen = SendFailed(session=ASKED.plan.session, seq=ASKED.seq, errno=NOT_SEEN)
    assert [AnswerFrame(number=ASKED.number, event=unseen)] == with_agent(settings, scenario)


def test_an_operators_request_goes_to_the_engine_and_its_answer_back(settings):
    """The number ties them together."""

    async def scenario(agent, engine):
        asking = asyncio.get_running_loop().create_task(
            agent.operate(OperatorRequested(request=0, verb=OperatorVerb.FAILOVER, location="cloud", is_dry_run=True))
        )
        await asyncio.sleep(0)
        (frame,) = engine.receive()
        request = frame.event
        answer = ReplyOperator(request=request.request, is_accepted=False, text="no standby is good")
        engine.send(OperatorReplyFrame(reply=answer))
        agent._receive()
        return frame, await asking

    frame, answer = with_agent(settings, scenario)

    wanted = OperatorRequested(request=1, verb=OperatorVerb.FAILOVER, location="cloud", to_rank=None, is_dry_run=True)
    assert EventFrame(event=wanted) == frame
    assert "no standby is good" == answer.text


def test_a_verdict_on_an_overlay_is_proven_and_the_place_becomes_an_event(settings):
    """The engine's fact wakes the duty; its process gets the mesh, and its result is an event of that pair."""
    asked = []

    async def spawn(peer, mesh):
        asked.append((peer, mesh))
        return msgspec.json.encode(RESULT)

    async def scenario(agent, engine):
        agent._prover._bisections._spawn = spawn
        fact = VerdictChanged(verdict=verdict(), previous="none")
        engine.send(FactFrame(at_ns=1, fact=fact))
        agent._receive()
        async with asyncio.TaskGroup() as group:
            duty = group.create_task(agent._prover._bisections.prove_verdicts())
            batch = await agent.events().read_next(agent.events().last_seq, limit=9)
            duty.cancel()
        return batch[-1], await agent.bisect("b2")

    declared = msgspec.structs.replace(settings, mesh=declared_mesh())
    told, by_hand = with_agent(declared, scenario)

    assert ["b1", "b2"] == [peer for peer, _mesh in asked]
    assert {msgspec.json.encode(declared_mesh())} == {mesh for _peer, mesh in asked}
    assert ("path.bisected", 0, "local-fdb") == (told["event"], told["pair"], told["place"])
    assert RESULT == by_hand


def test_a_key_that_comes_with_a_reload_begins_discovery(settings, tmp_path):
    """A fresh package has none; whoever brings it later reloads, and need not restart."""
    key, config = tmp_path / "mesh.key", tmp_path / "meshwatchd.toml"
    fresh = msgspec.structs.replace(settings, auth=msgspec.structs.replace(settings.auth, key_file=str(key)))
    config.write_text(f'[daemon]\nnode = "b3"\n[auth]\nkey_file = "{key}"\n')

    async def scenario(agent, engine):
        agent._config = config
        agent._take(StatusFrame(status=STATUS))
        agent._snapshot = Snapshot()
        agent._take(FactFrame(at_ns=1, fact=RELOADED))
        without = agent.status().knowledge
        key.write_bytes(base64.b64encode(bytes(range(32))))
        key.chmod(0o600)
        agent._take(FactFrame(at_ns=1, fact=RELOADED))
        return without, agent.status().knowledge, agent._discovery

    without, knowledge, discovery = with_agent(fresh, scenario)

    assert ("nothing", True) == (without.origin, "systemctl reload meshwatchd" in without.problems[0])
    assert (True, ()) == (discovery is not None, knowledge.problems)


def test_the_engine_hears_of_the_own_key_before_the_first_snapshot(settings):
    """It must not take a probe for one of its own that any node of the mesh could have signed."""

    async def scenario(_agent, engine):
        return engine.receive()

    (frame,) = with_agent(settings, scenario, secrets=[MeshSecret(secret=bytes(range(32)))])

    assert isinstance(frame, KeysFrame)
    assert [("b3", True, True)] == [(each.peer, each.signs, each.is_alone) for each in frame.bindings]


def test_what_was_seen_is_outdated_from_a_change_until_the_kernel_is_seen_anew(settings):
    """Else a device between two commands would be named by an agent that had no processor in the meantime."""
    steps = []

    async def scenario(agent, _engine):
        async def show():
            steps.append(("shown", agent._auditor._is_outdated))
            raise asyncio.CancelledError

        agent._show_kernel = show
        agent._mirror.is_dirty.set()
        steps.append(("before", agent._auditor._is_outdated))
        with contextlib.suppress(asyncio.CancelledError):
            await agent._watch()
        agent._auditor.see(Snapshot())
        steps.append(("seen", agent._auditor._is_outdated))

    with_agent(settings, scenario)

    assert [("before", False), ("shown", True), ("seen", False)] == steps


def test_the_engines_word_that_it_stops_is_taken_before_the_end_of_the_link(settings):
    """And without it the agent knows of no order."""

    async def scenario(agent, engine):
        loop, stopping = asyncio.get_running_loop(), [agent._care._is_stopping]
        loop.add_reader(agent._link, agent._receive)
        engine.send(StopFrame())
        engine.close()
        async with asyncio.timeout(5):
            await agent._ended.wait()
        return [*stopping, agent._care._is_stopping]

    assert [False, True] == with_agent(settings, scenario)


def test_the_end_of_the_link_is_the_end_of_the_agent(settings):
    """An engine that is gone needs nobody to watch the kernel for it."""

    async def scenario(agent, engine):
        engine.close()
        agent._receive()
        return agent._ended.is_set()

    assert with_agent(settings, scenario)
