"""The agent's audit: what is told and when, what is remembered as good, and repairs that hold or are undone."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.model.audit import AuditFinding, DeviceAddress, Entries, RepairPlan, RepairRung
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.errors import KernelError
from meshwatchd.model.events import FindingsReported, PeerFault, PeersTold, RepairDone
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.ids import NodeName
from meshwatchd.model.outputs import Repair
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import Link, WireGuardState
from meshwatchd.runtime.auditor import GOOD_AFTER_NS, STATE_FILE, Auditor
from tests.support.example_status import status, verdict
from tests.support.flannel_node import DEVICE, LOCAL, changed, entries, good, hello, look, mac, mesh, snapshot
from tests.support.slow_disk import SlowDisk

HELD = entries(3)
BROKEN = changed(HELD, forwarding=HELD.forwarding[1:])
WELL = status(verdict(FaultCode.NONE))


class Bench:
    """An auditor with a kernel of its own, whose clock stands still."""

    def __init__(
        self, directory, *, refusal: str = "", is_forgetful: bool = False, unheard: frozenset[str] = frozenset()
    ) -> None:
        self.now = 100 * SECOND
        self.held = HELD
        self.sent: list[Any] = []
        self.warned: list[str] = []
        self.unheard = unheard
        self.carried: list[Any] = []
        self.views: list[Any] = []
        self.beside: dict[str, Any] = {}
        self.refusal, self.is_forgetful = refusal, is_forgetful
        self.auditor = Auditor(
            mesh=mesh(3),
            node=LOCAL,
            kernel=self,
            read_back=self.read_back,
            send=self.sent.append,
            clock=lambda: self.now,
            state_dir=directory,
            log=self,
            unheard=lambda: frozenset({*self.unheard}),
            sources=(self.source,),
        )

    def source(self, view, now):
        """Another look, which finds nothing."""
        self.views.append(view)
        return ()

    async def carry_out(self, plan):
        """As the kernel would."""
        self.carried.append(plan)
        if self.refusal:
            raise KernelError("put", 1, self.refusal)
        if not self.is_forgetful:
            self.held = self.held.without(plan.drop).joined(plan.put)

    async def read_back(self):
        """What it holds."""
        return snapshot(self.held)

    def warning(self, event, **fields):
        """Take down a line of the log."""
        self.warned.append(event)

    def look(self, held, *, after=0):
        """See entries, let time pass, and look."""
        self.now += after
        self.auditor.see(msgspec.structs.replace(snapshot(held), **self.beside))
        self.auditor.look()

    def stand(self, held, *, for_ns=GOOD_AFTER_NS):
        """Look at entries, and again once they have stood; what is kept of them is on the disk."""

        async def look_twice():
            self.look(held)
            self.look(held, after=for_ns)
            await self.auditor.close()

        asyncio.run(look_twice())


@pytest.fixture
def bench(tmp_path):
    """An auditor that has nothing to remember."""
    return Bench(tmp_path)


def test_the_engine_is_told_of_changes_and_of_nothing_else(bench):
    """First that all is well; a finding once it has stood; that it is gone."""
    bench.look(HELD)
    bench.look(HELD)
    assert [FindingsReported()] == bench.sent

    bench.look(BROKEN)
    bench.look(BROKEN, after=SECOND)
    bench.look(BROKEN, after=SECOND)
    bench.look(HELD)

    assert [(), (FaultCode.FDB_ENTRY_MISSING,), ()] == [
        tuple(each.code for each in report.findings) for report in bench.sent
    ]


def test_what_is_about_to_be_seen_anew_is_not_named_by_what_was_seen_before(bench):
    """An agent that had no processor for a second has seen a device between two commands of a script only."""
    bench.look(HELD)
    bench.look(BROKEN)
    bench.now += SECOND
    bench.auditor.expect()
    bench.auditor.look()
    bench.look(HELD)
    assert [FindingsReported()] == bench.sent

    for _ in range(3):
        bench.look(BROKEN, after=SECOND)
        bench.auditor.expect()
        bench.auditor.look()
    assert [FaultCode.FDB_ENTRY_MISSING] == [each.code for each in bench.sent[-1].findings], "changes never end"


def test_a_device_that_was_seen_is_missed_before_anything_is_known_to_be_good(bench):
    """It was there when this daemon started; what has never been there is nobody's loss."""
    gone = snapshot(Entries(), has_device=False)
    bench.auditor.see(gone)
    bench.auditor.look()
    bench.look(HELD)
    assert bench.auditor.good is None
    assert [FindingsReported()] == bench.sent

    for _ in range(5):
        bench.now += SECOND
        bench.auditor.see(gone)
        bench.auditor.look()

    assert [FaultCode.OVERLAY_DEVICE_MISSING] == [each.code for each in bench.sent[-1].findings]


def test_before_anything_was_seen_nothing_is_told(bench):
    """Nothing before the first complete dump."""
    bench.auditor.look()

    assert [] == bench.sent


def test_hellos_are_heard(bench):
    """A peer that has another MAC than flannel wrote is found by its own word."""
    bench.look(HELD)
    bench.auditor.hear({"n1": hello(1, "66:00:00:00:00:01")})
    bench.auditor.look()
    bench.look(HELD, after=SECOND)

    assert (FaultCode.VTEP_MAC_CHANGED,) == tuple(each.code for each in bench.sent[-1].findings)


def test_a_node_that_flannel_has_removed_is_unknown_to_every_look_and_what_is_left_becomes_good(bench):
    """`kubectl delete node n2`: it is missed until it is taken for dead, and then by nobody."""
    bench.auditor.note(WELL)
    bench.stand(HELD)
    bench.look(entries(2))
    bench.look(entries(2), after=5 * SECOND)
    assert 3 == len(bench.sent[-1].findings)

    bench.unheard = frozenset({"n2"})
    for _ in range(2):
        bench.auditor.look()
    assert bench.views[-1] is bench.views[-2], "nothing has changed"
    bench.stand(entries(2))
    assert FindingsReported() == bench.sent[-1]
    assert ["n0", "n1"] == [node.name for node in bench.views[-1].mesh.node]
    assert entries(2) == bench.auditor.good.entries

    bench.unheard = frozenset()
    bench.auditor.look()
    assert 3 == len(bench.views[-1].mesh.node)


def test_what_stands_while_a_path_is_broken_is_not_good_though_traffic_goes_around_it(bench):
    """Whatever broke it may be what stands: a peer with another key is silent for longer than it takes to be good."""
    around = status(verdict(FaultCode.WIREGUARD_BLOCKED), states="down good good good", active=1)
    bench.auditor.note(msgspec.structs.replace(around, severity=Severity.WARNING))
    bench.stand(HELD, for_ns=2 * GOOD_AFTER_NS)
    assert bench.auditor.good is None

    bench.auditor.note(msgspec.structs.replace(WELL, severity=Severity.WARNING))
    bench.stand(HELD)
    assert bench.auditor.good is not None


def test_what_peers_say_of_themselves_is_told_once_and_withdrawn(bench):
    """The engine gives verdicts its name."""
    gone = (ToldFault(FaultCode.OVERLAY_DEVICE_MISSING, NodeName("n1")),)
    quiet = hello(1, "66:00:00:00:00:01")
    for _ in range(2):
        bench.auditor.hear({"n1": msgspec.structs.replace(quiet, faults=gone)})
    bench.auditor.hear({"n1": quiet})

    told = PeerFault(fault=FaultCode.OVERLAY_DEVICE_MISSING, culprit=NodeName("n1"), source=NodeName("n1"))
    assert [PeersTold(faults=(told,)), PeersTold()] == bench.sent


def test_what_stands_while_all_is_well_is_remembered_across_a_restart(bench, tmp_path):
    """Then a wedge that is there when the daemon starts is told with what was lost."""
    bench.auditor.note(WELL)
    bench.stand(HELD)
    later = Bench(tmp_path)
    later.look(Entries())
    later.look(Entries(), after=SECOND)

    assert later.auditor.good is not None
    assert msgspec.structs.replace(good(3), boot=later.auditor.good.boot) == later.auditor.good
    assert [FaultCode.OVERLAY_EMPTIED] == [each.code for each in later.sent[-1].findings]
    assert (tmp_path / STATE_FILE).exists()


@pytest.mark.parametrize(
    ("code", "is_of_few", "is_learned"),
    [
        (FaultCode.RP_FILTER_STRICT, False, True),
        (FaultCode.MTU_MISCONFIGURED, False, False),
        (FaultCode.POD_ROUTE_DIVERTED, True, True),
        (FaultCode.POD_ROUTE_DIVERTED, False, False),
    ],
)
def test_a_warning_that_says_nothing_against_the_entries_keeps_nothing_from_being_good(
    bench, code, is_of_few, is_learned
):
    """A hardened machine has a strict rp_filter for good, or a pod shut out, and would never know what it has lost."""
    standing = AuditFinding(code=code, device="kilo0", subject="x", culprit=LOCAL, is_of_few=is_of_few)
    bench.auditor._sources = (lambda _view, _now: (standing,),)
    bench.auditor.note(WELL)
    bench.stand(HELD)

    assert is_learned is (bench.auditor.good is not None)


def test_a_tunnel_that_gives_no_answer_for_long_is_remembered_with_its_peers(bench):
    """wireguard-go may hang for hours while all is well, and lose a peer before it is read again."""
    wg0 = Link(name="wg0", index=7, kind="tun", is_up=True, mtu_bytes=1420)
    state = WireGuardState(device="wg0", public_key="OWN", listen_port=1, at_ns=0, peers=())
    bench.auditor.note(WELL)
    for read in ((state,), ()):
        bench.beside = {"links": (*snapshot(HELD).links, wg0), "wireguard": read}
        bench.stand(HELD)

    assert (state,) == bench.auditor.good.wireguard


def test_what_may_become_good_is_looked_at_when_it_has_stood(bench):
    """A look that took long on a busy machine put off the next one, and a wedge was faster than the memory.

    Calm wakes the watch as well: what stands is a candidate from that instant on.
    """

    async def begin():
        bench.auditor.see(snapshot(HELD))
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(bench.auditor.watch())
            await rounds()
            bench.auditor.note(WELL)
            await rounds()
            watching.cancel()

    async def rounds():
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(begin())
    bench.auditor._pause_ns = 10 * GOOD_AFTER_NS
    bench.now += 7 * SECOND
    assert GOOD_AFTER_NS - 7 * SECOND == bench.auditor._wait_ns()
    bench.now += 3 * SECOND
    bench.stand(HELD, for_ns=0)

    assert HELD == bench.auditor.good.entries
    assert 10 * GOOD_AFTER_NS == bench.auditor._wait_ns(), "nothing is waited for any more"


@pytest.mark.parametrize("held", [BROKEN, HELD])
def test_what_is_wrong_or_young_or_told_to_be_bad_is_not_remembered(bench, held):
    """A finding, a critical verdict, an engine that is not ready yet."""
    if held is HELD:
        bench.auditor.note(msgspec.structs.replace(WELL, severity=Severity.CRITICAL))
    else:
        bench.auditor.note(WELL)
    bench.stand(held, for_ns=10 * GOOD_AFTER_NS)
    bench.auditor.note(WELL)
    bench.look(HELD)

    assert None is bench.auditor.good


@pytest.mark.parametrize(
    "content", [b"{broken", b'{"boot":"\xff"}', b"[" * 100_000, msgspec.json.encode(GoodState(boot="another"))]
)
def test_a_memory_that_cannot_be_read_or_is_of_another_boot_is_no_memory(tmp_path, content):
    """Said once, and written anew."""
    (tmp_path / STATE_FILE).write_bytes(content)
    bench = Bench(tmp_path)

    assert None is bench.auditor.good
    assert ([] if b"another" in content else ["good_state.unread"]) == bench.warned


def test_a_slow_disk_keeps_nobody_waiting(bench, tmp_path, monkeypatch):
    """An agent that answers no heartbeat is killed."""
    disk = SlowDisk(monkeypatch)

    async def scenario():
        bench.auditor.note(WELL)
        bench.look(HELD)
        bench.look(HELD, after=GOOD_AFTER_NS)
        disk.go_on()
        await bench.auditor.close()

    asyncio.run(scenario())
    assert [True] == disk.waits
    assert bench.auditor.good == Bench(tmp_path).auditor.good


def test_a_full_disk_costs_the_memory_and_nothing_else(tmp_path):
    """The state stays known to this process."""
    (tmp_path / "file").write_text("")
    bench = Bench(tmp_path / "file")
    bench.auditor.note(WELL)
    bench.stand(HELD)

    assert bench.auditor.good is not None
    assert "good_state.unsaved" in bench.warned


def _command():
    plan = plan_repair(look(snapshot(BROKEN), known=good(3))[0])
    assert plan is not None
    return Repair(request=4, plan=plan)


def test_a_repair_is_carried_out_and_read_back(bench):
    """Success is what the kernel holds afterwards."""
    bench.held = BROKEN

    assert RepairDone(request=4, is_verified=True) == asyncio.run(bench.auditor.carry_out(_command()))
    assert set(HELD.forwarding) == set(bench.held.forwarding)


@pytest.mark.parametrize("fault", [{"refusal": "not permitted"}, {"is_forgetful": True}])
def test_a_repair_that_does_not_hold_is_undone(tmp_path, fault):
    """Refused by the kernel, or not there when it is read back."""
    bench = Bench(tmp_path, **fault)
    bench.held = BROKEN
    done = asyncio.run(bench.auditor.carry_out(_command()))

    assert not done.is_verified
    assert fault.get("refusal", f"FDB entry {mac(1)}") in done.error
    assert [_command().plan, _command().plan.inverse()] == bench.carried


@pytest.mark.parametrize("device", [DEVICE, "liqo.0a1b2c3d4e"])
def test_an_address_is_verified_on_its_device(bench, device):
    """Where it is not, or where there is no device, the repair has failed."""
    held = Entries(addresses=(DeviceAddress(dev=device, address="10.80.0.12"),))
    plan = RepairPlan(rung=RepairRung.RESEED, device=device, put=held)
    done = asyncio.run(bench.auditor.carry_out(Repair(request=4, plan=plan)))

    assert f"address 10.80.0.12 of {device} is not as it was put" == done.error


def test_repairs_and_looks_go_on_by_themselves(bench):
    """News wake the one, commands the other."""

    async def scenario():
        bench.held = BROKEN
        bench.auditor.see(snapshot(BROKEN))
        bench.auditor.ask(_command())
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2), asyncio.TaskGroup() as group:
                for duty in (bench.auditor.watch(), bench.auditor.repair()):
                    group.create_task(duty)

    asyncio.run(scenario())

    assert {FindingsReported, RepairDone} == {type(each) for each in bench.sent}


def test_what_is_half_put_back_is_no_finding_of_its_own(bench):
    """Between the first entry and the last of a repair the device lacks what comes next, for as long as that takes."""
    bounce = Repair(request=5, plan=RepairPlan(rung=RepairRung.BOUNCE, device=DEVICE, is_bounce=True, put=HELD))
    half = changed(HELD, routes=())
    found_meanwhile: list[FindingsReported] = []

    async def slowly(plan):
        for _ in range(3):
            bench.look(half, after=SECOND)
        found_meanwhile.extend(each for each in bench.sent if isinstance(each, FindingsReported) and each.findings)
        bench.held = HELD

    async def scenario():
        bench.carry_out = slowly
        bench.auditor.ask(bounce)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await bench.auditor.repair()

    bench.look(HELD)
    asyncio.run(scenario())
    assert [] == found_meanwhile

    for _ in range(2):
        bench.now += SECOND
        bench.auditor.look()
    assert not [each for each in bench.sent if isinstance(each, FindingsReported) and each.findings]

    for _ in range(2):
        bench.look(half, after=SECOND)
    assert {FaultCode.POD_ROUTE_MISSING} == {each.code for each in bench.sent[-1].findings}, "and then it is one"
