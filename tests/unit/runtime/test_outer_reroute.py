"""The agent's part: who is suspected, what is asked for in the kernel, and what an earlier process has left."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from meshwatchd.core.audit.view import View
from meshwatchd.core.routes.outer_way import ROUND_NS
from meshwatchd.model.errors import KernelError
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NO_PATH, FlowClass, Layer, NodeName
from meshwatchd.model.outer_reroute import Way, WayAnswer
from meshwatchd.model.plan import Provision, Route, Rule
from meshwatchd.model.policy_state import Order, OrderKind
from meshwatchd.model.settings import CiliumSettings, DaemonSettings, Mode, Settings
from meshwatchd.model.status import SessionStatus
from meshwatchd.runtime.outer_reroute import UNARMED_NS, Rerouting
from tests.support.cluster_node import mesh, node_ip, snapshot
from tests.support.example_status import HEALTHY, finding
from tests.support.fake_kernel import FakeKernel

ON = CiliumSettings(outer_reroute=True)
LEFT = Route(table=7797, dst="10.82.0.11/32", dev="eth0", via="10.81.0.12", src="10.81.0.11")
LEFT_RULE = Rule(priority=5410, table=7797, iif="lo", dport=(8472, 8472))
STANDBY = Rule(priority=5400, table=7799, iif="mw0")
RUNNER = asyncio.Runner()
"""Events belong to a loop, and rounds of one stage go on where those before have ended."""


@pytest.fixture(autouse=True, scope="module")
def _runner():
    yield
    RUNNER.close()


def _sessions(state, *names):
    return tuple(
        SessionStatus(
            peer=NodeName(name),
            layer=Layer.RELAY,
            path=NO_PATH,
            flow=FlowClass.FRESH,
            address="",
            state=state,
            rtt_ns=0,
            sent=9,
            lost=9,
            last_heard_ns=0,
        )
        for name in names
    )


class Stage:
    """Standing work, a desk, a log and a clock."""

    def __init__(self, settings=None, *, mode=Mode.ENFORCE, cilium=ON):
        self.now, self.renewed, self.lines, self.asked = 0, 0, [], []
        self.is_armed, self.is_keeping, self.until, self.is_over = True, True, 0, asyncio.Event()
        self.rests, self.serving = 0, 0
        self.answers = {Way.VOUCHED: WayAnswer(), Way.RELAYED: WayAnswer(seen=node_ip("e1"))}
        settings = settings or Settings(daemon=DaemonSettings(node="e1", mode=mode), cilium=cilium)
        self.rerouting = Rerouting(settings, log=self, desk=self, clock=lambda: self.now, rest=self.rest)
        assert self is self.rerouting.kept_by(self)

    def renew(self):
        """As standing work."""
        self.renewed += 1

    async def serve(self):
        """As the desk."""
        self.serving += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.serving -= 1

    def bind(self, bindings):
        """As the desk."""
        self.lines.append(("bound", tuple(bindings)))

    async def ask(self, question, far, relay, mtu_bytes):
        """As the desk."""
        assert far.name == question.node
        assert (relay is not None) is (question.way is Way.VOUCHED)
        assert mtu_bytes == 1500
        self.asked.append(question)
        return self.answers.get(question.way)

    def warning(self, event, **fields):
        """As a log."""
        self.lines.append((event, fields))

    info = error = debug = warning

    async def rest(self, seconds):
        """Until the next round."""
        self.rests += 1
        self.now += round(seconds * 1e9)
        if self.now >= self.until:
            self.is_over.set()
        await asyncio.sleep(0)

    def see(self, found=None, declared=None):
        """A snapshot with the mesh."""
        self.rerouting.see(msgspec.structs.replace(found or snapshot("e1"), mesh=declared or mesh()))

    def lose(self, *names, orders=(), state="down"):
        """What the engine says."""
        self.rerouting.note(msgspec.structs.replace(HEALTHY, sessions=_sessions(state, *names), orders=orders))

    def rounds(self, count, kernel=None):
        """So many rounds of the duty."""
        told = []

        async def scenario():
            duties = self.rerouting.duties(kernel or FakeKernel("eth0"), lambda: told.append(self.now))
            self.until, self.is_over = self.now + count * ROUND_NS, asyncio.Event()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(duty) for duty in duties]
                await self._until_over()
                for task in tasks:
                    task.cancel()

        RUNNER.run(scenario())
        return told

    async def _until_over(self):
        """So long as rounds go on; without any the time passes at once."""
        before, turns = -1, 0
        while not self.is_over.is_set() and turns < 50:
            before, turns = self.rests, turns + 1 if self.rests == before else 0
            await asyncio.sleep(0)
        self.now = max(self.now, self.until)

    def said(self):
        """Findings."""
        view = View(snapshot=snapshot("e1"), mesh=mesh(), node="e1", hellos={}, good=None)
        return list(self.rerouting.findings(view, 0))


def _kernel(*rules):
    kernel = FakeKernel("eth0")

    async def fill():
        await kernel.add_route(LEFT, 1)
        for rule in rules:
            await kernel.add_rule(rule)

    asyncio.run(fill())
    return kernel


def test_a_node_that_the_engine_misses_is_led_around_and_logged():
    """By routes and rules beside what the engine wants."""
    stage = Stage()
    stage.see()
    stage.lose("w1", "e2")
    assert stage.rounds(20)

    assert {"w1"} == {each.node for each in stage.asked}
    found = stage.rerouting.standing()
    assert {7796, 7797} == {each.table for each in found.routes}
    assert {(8472, 8472), (51_871, 51_871)} <= {each.dport for each in found.rules}
    assert stage.renewed == 2
    assert ["outer_reroute.begun"] == [event for event, _ in stage.lines]
    (finding,) = stage.said()
    assert (FaultCode.OUTER_WAY_BROKEN, "w1") == (finding.code, finding.subject)

    stage.answers = {}
    stage.rounds(40)
    assert "outer_reroute.ended" == stage.lines[-1][0]
    assert {7797} & {each.table for each in stage.rerouting.standing().routes} == set()


def test_what_answers_and_what_is_of_other_layers_is_not_suspected():
    """A session that is up; and nothing before the mesh is known."""
    stage = Stage()
    stage.lose("w1")
    stage.see()
    stage.lose("w1", state="up")
    stage.rounds(4)
    assert [] == stage.asked
    stage.rerouting.note(msgspec.structs.replace(HEALTHY, sessions=(*_sessions("down", "w1"), *_sessions("up", "w1"))))
    stage.rounds(4)
    assert [] == stage.asked


def test_a_node_whose_silence_has_a_name_is_not_looked_for():
    """What this node has found wrong with its peer: a way around would carry it along."""
    stage = Stage()
    stage.see()
    found = finding(FaultCode.ALLOWED_IPS_MISSING, device="cilium_wg0", subject="w1", peer="w1", culprit="e1")
    missed = _sessions("down", "w1", "w2")
    stage.rerouting.note(msgspec.structs.replace(HEALTHY, sessions=missed, findings=(found,)))
    stage.rounds(20)

    assert {"w2"} == {each.node for each in stage.asked}


@pytest.mark.parametrize(("mode", "cilium"), [(Mode.ADVISE, ON), (Mode.OBSERVE, ON), (Mode.ENFORCE, CiliumSettings())])
def test_without_the_switch_or_the_mode_the_commands_are_told_and_nothing_is_wanted(mode, cilium):
    """In each of them who would relay is known."""
    stage = Stage(mode=mode, cilium=cilium)
    stage.see()
    stage.lose("w1")
    stage.rounds(60)
    assert Provision() == stage.rerouting.standing()
    assert 0 == stage.renewed
    (finding,) = stage.said()
    assert any("ip route add 10.82.0.11/32 via" in each for each in finding.because)


def test_paused_or_without_standing_work_nothing_is_wanted():
    """An operator's order, and an engine that has put nothing or is in somebody's way."""
    for stage, orders, is_armed in (
        (Stage(), (Order(kind=OrderKind.PAUSE, name="ann", until_ns=0),), True),
        (Stage(), (), False),
    ):
        stage.is_armed = is_armed
        stage.see()
        stage.lose("w1", orders=orders)
        stage.rounds(40)
        assert Provision() == stage.rerouting.standing()


def test_without_a_tunnel_whose_packets_could_be_led_nothing_is_wanted():
    """Cilium routes pods natively there, or the devices are down."""
    stage = Stage()
    found = snapshot("e1")
    links = tuple(each for each in found.links if each.name not in ("cilium_vxlan", "cilium_wg0"))
    stage.see(msgspec.structs.replace(found, links=links))
    stage.lose("w1")
    stage.rounds(40)
    assert Provision() == stage.rerouting.standing()


def test_in_another_mesh_nobody_is_asked():
    """Outer packets of Kilo go to a leader, and those of flannel over WireGuard into a tunnel."""
    stage = Stage()
    stage.see(declared=msgspec.structs.replace(mesh(), profile="kilo"))
    stage.lose("w1")
    stage.rounds(10)
    assert [] == stage.asked
    third = msgspec.structs.replace(mesh(), profile="other", traits=("host-routed",))
    stage.see(declared=third)
    stage.lose("w1")
    stage.rounds(2)
    assert stage.asked


def test_where_nothing_is_missed_nothing_wakes():
    """In whatever mesh: half a second is dear on a battery, and each round would read links and ports."""
    stage = Stage()
    stage.rounds(20)
    stage.see()
    stage.lose("w1", state="up")
    stage.rounds(20)
    assert 0 == stage.rests
    stage.answers[Way.OVERLAY] = WayAnswer()
    stage.lose("w1")
    stage.rounds(2)
    assert 2 == stage.rests
    stage.rounds(20)
    stage.lose()
    stage.rounds(2)
    assert [] == stage.said()
    before = stage.rests
    stage.rounds(20)
    assert before == stage.rests
    stage.lose("w1")
    stage.rounds(2)
    assert before < stage.rests


def test_the_ports_are_closed_where_the_mesh_becomes_another_kind():
    """And opened again with it."""
    stage, served = Stage(), []

    async def scenario():
        serve, watch = stage.rerouting.duties(FakeKernel("eth0"), lambda: None)
        watch.close()
        async with asyncio.TaskGroup() as group:
            duty = group.create_task(serve)
            for profile in ("kilo", mesh().profile, "kilo", mesh().profile):
                stage.see(declared=msgspec.structs.replace(mesh(), profile=profile))
                for _ in range(9):
                    await asyncio.sleep(0)
                served.append(stage.serving)
            duty.cancel()

    asyncio.run(scenario())
    assert [0, 1, 0, 1] == served


def test_the_next_process_goes_on_from_the_route_in_the_kernel():
    """Without a moment in which it is not wanted."""
    stage = Stage()
    stage.see(msgspec.structs.replace(snapshot("e1"), routes=(LEFT,), rules=(LEFT_RULE,)))
    assert LEFT in stage.rerouting.standing().routes
    stage.answers[Way.OVERLAY] = WayAnswer()
    stage.rounds(20)
    assert LEFT in stage.rerouting.standing().routes


def test_what_stands_is_wanted_until_the_mesh_is_known_and_not_for_ever():
    """The engine may ask for its objects first, and what is not wanted beside them is removed."""
    left = Provision(routes=(LEFT,), rules=(LEFT_RULE,))
    for more, standing in ((-2, left), (4, Provision())):
        kernel, stage = _kernel(LEFT_RULE), Stage()
        stage.is_keeping = False
        stage.rerouting.see(msgspec.structs.replace(snapshot("e1"), routes=(LEFT,), rules=(LEFT_RULE,)))
        assert left == stage.rerouting.standing()
        stage.rounds(UNARMED_NS // ROUND_NS + more, kernel)
        assert standing == stage.rerouting.standing()
        assert list(standing.rules) == [each.rule for each in asyncio.run(kernel.rules())]


def test_routes_that_the_next_process_may_not_have_are_taken_away():
    """The switch is off, or nobody keeps them: and nothing else of ours or of others is."""
    kernel = _kernel(LEFT_RULE, STANDBY)
    stage = Stage(cilium=CiliumSettings())
    stage.is_keeping = False
    stage.see(msgspec.structs.replace(snapshot("e1"), routes=(LEFT,), rules=(LEFT_RULE,)))
    stage.rounds(2, kernel)
    assert [STANDBY] == [each.rule for each in asyncio.run(kernel.rules())]
    assert [] == asyncio.run(kernel.marked_routes({1: "eth0"}))

    kernel = _kernel(LEFT_RULE)
    stage = Stage()
    stage.is_armed = stage.is_keeping = False
    stage.answers[Way.OVERLAY] = WayAnswer()
    stage.see(msgspec.structs.replace(snapshot("e1"), routes=(LEFT,), rules=(LEFT_RULE,)))
    stage.rounds(UNARMED_NS // ROUND_NS - 2, kernel)
    assert [LEFT_RULE] == [each.rule for each in asyncio.run(kernel.rules())]
    stage.rounds(6, kernel)
    assert [] == asyncio.run(kernel.rules())


def test_what_is_kept_is_given_up_by_those_who_keep_it():
    """They would put back what somebody else takes away, and tell the engine of a loss."""
    kernel, stage = _kernel(LEFT_RULE), Stage(cilium=CiliumSettings())
    stage.see(msgspec.structs.replace(snapshot("e1"), routes=(LEFT,), rules=(LEFT_RULE,)))
    before = list(kernel.operations)
    stage.rounds(2, kernel)
    assert 1 == stage.renewed
    assert Provision() == stage.rerouting.standing()
    assert before == kernel.operations


def test_a_route_in_use_stays_where_something_foreign_is_in_a_place_of_ours():
    """It is looked after as ever; nothing new is begun, the way home neither."""
    stage = Stage()
    stage.see()
    stage.lose("w1")
    stage.rounds(20)
    stage.answers[Way.OVERLAY] = stage.answers[Way.DIRECT] = WayAnswer(seen=node_ip("e1"))
    stage.is_armed = False
    stage.rounds(3 * UNARMED_NS // ROUND_NS)
    assert 7797 in {each.table for each in stage.rerouting.standing().routes}


def test_a_process_that_ends_in_order_leaves_nothing():
    """Nobody would watch the relay; a kernel that refuses is told with the remedy."""
    kernel, stage = _kernel(LEFT_RULE, STANDBY), Stage()
    stage.see(msgspec.structs.replace(snapshot("e1"), routes=(LEFT,)))
    asyncio.run(stage.rerouting.withdraw(kernel))
    assert [STANDBY] == [each.rule for each in asyncio.run(kernel.rules())]
    assert Provision() == stage.rerouting.standing()

    class Broken(FakeKernel):
        async def rules(self):
            raise KernelError("read rules", 5, "no")

    asyncio.run(stage.rerouting.withdraw(Broken("eth0")))
    assert "outer_reroute.left" == stage.lines[-1][0]
    assert "sweep" in stage.lines[-1][1]["remedy"]


def test_keys_are_handed_on():
    """And returned, for the next who needs them."""
    stage = Stage()
    assert () == stage.rerouting.bind(())
    assert [("bound", ())] == stage.lines


def test_a_drained_node_says_that_it_is_no_relay():
    """It is taken out of service; a paused one relays."""
    stage = Stage()
    stage.see()
    assert stage.rerouting._is_willing()
    stage.lose(orders=(Order(kind=OrderKind.PAUSE, name="ann", until_ns=0),))
    assert stage.rerouting._is_willing()
    stage.lose(orders=(Order(kind=OrderKind.DRAIN, name="ann", until_ns=0),))
    assert not stage.rerouting._is_willing()
