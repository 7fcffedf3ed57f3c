"""The repair ladder: the right rung, nothing without leave, nothing without end."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.repair import (
    ANSWER_NS,
    FIGHT_NS,
    MAX_IN_FIGHT,
    Repairs,
    is_enabled,
    needed_rungs,
    plan_repair,
)
from meshwatchd.model.audit import Entries, RepairRung
from meshwatchd.model.audit_facts import RepairAdvised, RepairHeld, RepairStarted, RepairUndone, RepairVerified
from meshwatchd.model.events import RepairDone
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.outputs import Repair
from meshwatchd.model.settings import MINUTE, SECOND, Mode, RepairSettings
from meshwatchd.model.snapshot import Forwarding
from tests.support.flannel_node import DEVICE, changed, entries, good, hello, look, mac, snapshot

HELD, GOOD, NOW = entries(3), good(3), 100 * SECOND
ALL = RepairSettings(neighbour=True, fdb=True, route=True, move_fdb=True, reseed=True, bounce=True)
NO_FDB = changed(HELD, forwarding=HELD.forwarding[1:])
NO_NEIGHBOUR = changed(HELD, neighbours=HELD.neighbours[1:])
WRONG_FDB = changed(HELD, forwarding=(Forwarding(dev=DEVICE, lladdr=mac(1), dst="192.168.50.99"), HELD.forwarding[1]))


def _findings(held, **seen):
    return look(snapshot(held, **seen), known=GOOD)


def _of(outputs):
    """As a list of anything: what each is, its test says."""
    return list(outputs)


def _kinds(outputs):
    return [type(each) for each in outputs]


@pytest.mark.parametrize(
    ("held", "seen", "rung", "put"),
    [
        (NO_NEIGHBOUR, {}, RepairRung.NEIGHBOUR, Entries(neighbours=HELD.neighbours[:1])),
        (NO_FDB, {}, RepairRung.FDB, Entries(forwarding=HELD.forwarding[:1])),
        (WRONG_FDB, {}, RepairRung.FDB, Entries(forwarding=HELD.forwarding[:1])),
        (changed(HELD, routes=HELD.routes[1:]), {}, RepairRung.ROUTE, Entries(routes=HELD.routes[:1])),
        (changed(HELD, routes=(), neighbours=()), {}, RepairRung.RESEED, HELD),
        (Entries(forwarding=HELD.forwarding), {"is_up": False}, RepairRung.BOUNCE, HELD),
        (
            changed(HELD, neighbours=()),
            {"lladdr": "66:00:00:00:00:01"},
            RepairRung.RESEED,
            Entries(neighbours=HELD.neighbours),
        ),
    ],
)
def test_a_finding_has_its_rung_and_what_it_puts(held, seen, rung, put):
    """No more than what is missing; a bounce only for a device that is down."""
    (finding,) = _findings(held, **seen)
    plan = plan_repair(finding)

    assert plan is not None
    assert (rung, DEVICE, put, rung is RepairRung.BOUNCE) == (plan.rung, plan.device, plan.put, plan.is_bounce)
    assert (rung,) == needed_rungs(plan)


DEAD_END = msgspec.structs.replace(HELD.routes[0], dev="", via="", is_onlink=False, kind="blackhole")


def test_a_dead_end_is_deleted_before_the_route_is_added_and_the_inverse_the_other_way_round():
    """In that order each command finds its place free; the last brings back exactly what was there."""
    (finding,) = look(snapshot(changed(HELD, routes=HELD.routes[1:]), dead_ends=(DEAD_END,)), known=GOOD)
    plan = plan_repair(finding)
    route = "10.42.1.0/24 via 10.42.1.0 dev flannel.1 proto boot onlink"
    dead_end = "blackhole 10.42.1.0/24 proto boot"

    assert plan is not None
    assert (RepairRung.ROUTE,) == needed_rungs(plan)
    assert (f"ip route del {dead_end}", f"ip route add {route}") == plan.commands()
    assert (f"ip route del {route}", f"ip route add {dead_end}") == plan.inverse().commands()
    assert plan.commands() == plan.inverse().inverse().commands()
    assert 2 == len(plan.operations())


def test_filling_a_device_takes_leave_for_routes_where_a_dead_end_has_to_go():
    """Somebody made it."""
    (finding,) = look(snapshot(changed(HELD, routes=(), neighbours=()), dead_ends=(DEAD_END,)), known=GOOD)
    plan = plan_repair(finding)

    assert plan is not None
    assert (RepairRung.RESEED, RepairRung.ROUTE) == needed_rungs(plan)
    assert plan.commands().index("ip route del blackhole 10.42.1.0/24 proto boot") < len(plan.commands()) - 2


def test_a_peer_with_another_mac_takes_two_rungs():
    """Its neighbour and its FDB entry; one of them alone would be worse than neither."""
    (finding,) = look(snapshot(HELD), known=GOOD, hellos={"n1": hello(1, "66:00:00:00:00:01")})
    plan = plan_repair(finding)

    assert plan is not None
    assert (RepairRung.NEIGHBOUR, RepairRung.FDB) == needed_rungs(plan)
    assert Entries(neighbours=HELD.neighbours[:1]) == plan.before, "the old FDB entry has another key and stays"


def test_what_nobody_can_put_right_has_no_plan():
    """A device that is gone, a route of somebody else's."""
    (finding,) = look(snapshot(Entries(), has_device=False), known=GOOD)

    assert None is plan_repair(finding)


def _moved(number, address):
    said = hello(number, mac(number))
    return msgspec.structs.replace(said, view=msgspec.structs.replace(said.view, node_ip=address))


def test_a_peer_that_says_it_has_moved_is_followed_by_one_entry():
    """Flannel keeps sending to the address of its annotation; the way back is the entry that was there."""
    (finding,) = look(snapshot(HELD), known=GOOD, hellos={"n1": _moved(1, "192.168.60.11")})
    plan = plan_repair(finding)

    assert (FaultCode.FDB_ENTRY_WRONG, True) == (finding.code, finding.is_move)
    assert plan is not None
    assert (RepairRung.MOVE_FDB,) == needed_rungs(plan)
    assert (f"bridge fdb replace {mac(1)} dev {DEVICE} dst 192.168.60.11 self permanent",) == plan.commands()
    assert HELD.forwarding[:1] == plan.inverse().put.forwarding
    assert not plan.inverse().drop


def test_a_peer_whose_overlay_device_is_gone_has_not_moved():
    """It goes on telling the rest of itself, and its address is that of its uplink: nothing is to be sent there."""
    moved = _moved(1, "192.168.60.11")
    lost = msgspec.structs.replace(moved, view=msgspec.structs.replace(moved.view, vtep_mac=""))

    assert () == look(snapshot(HELD), known=GOOD, hellos={"n1": lost})


def test_where_a_mesh_sends_elsewhere_a_nodes_address_says_nothing():
    """With public-ip-overwrite no entry leads to the address that a node has, and a node that says so has not moved."""
    public = tuple(msgspec.structs.replace(each, dst=f"203.0.113.{n}") for n, each in enumerate(HELD.forwarding))
    held = changed(HELD, forwarding=public)
    known = msgspec.structs.replace(GOOD, entries=held)

    assert () == look(snapshot(held), known=known, hellos={"n1": hello(1, mac(1)), "n2": hello(2, mac(2))})


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_modes_that_change_nothing_tell_what_would_be_done(mode):
    """Once, with netlink operations and with commands to type."""
    repairs = Repairs(mode, ALL)
    (advice,) = _of(repairs.update(_findings(NO_FDB), NOW))

    assert isinstance(advice, RepairAdvised)
    assert f"daemon.mode is {mode}: nothing is changed" == advice.reason
    assert (f"bridge fdb replace {mac(1)} dev {DEVICE} dst 192.168.50.11 self permanent",) == advice.commands
    assert "NLM_F_REPLACE AF_BRIDGE NTF_SELF" in advice.operations[0]
    assert [] == list(repairs.update(_findings(NO_FDB), NOW + MINUTE)), "the same is told once"
    assert None is repairs.deadline()


@pytest.mark.parametrize("rung", list(RepairRung))
def test_each_rung_is_off_until_it_is_wanted(rung):
    """And is enabled by the setting of its name."""
    assert not is_enabled(RepairSettings(), rung)
    assert is_enabled(RepairSettings(**{rung: True}), rung)


def test_a_rung_that_is_off_is_advised_in_enforce_too():
    """The reason names the setting."""
    (advice,) = _of(Repairs(Mode.ENFORCE, msgspec.structs.replace(ALL, fdb=False)).update(_findings(NO_FDB), NOW))

    assert "repair.fdb is off" == advice.reason


def test_a_repair_is_asked_for_once_and_its_success_told():
    """The agent answers; when the finding is gone nothing is left to do."""
    repairs = Repairs(Mode.ENFORCE, ALL)
    started, command = _of(repairs.update(_findings(NO_FDB), NOW))

    assert isinstance(started, RepairStarted)
    assert isinstance(command, Repair)
    assert command.plan == plan_repair(_findings(NO_FDB)[0])
    assert [] == list(repairs.update(_findings(NO_FDB), NOW + SECOND))
    (verified,) = _of(repairs.done(RepairDone(request=command.request, is_verified=True), NOW + SECOND))
    assert (RepairVerified, SECOND) == (type(verified), verified.took_ns)
    assert "verified" == repairs.state(_findings(NO_FDB)[0].name)[0]
    assert [] == list(repairs.update((), NOW + 2 * SECOND))
    assert ("none", ()) == repairs.state(_findings(NO_FDB)[0].name)


def test_one_repair_is_under_way_at_a_time():
    """The second begins when the first has its outcome."""
    repairs = Repairs(Mode.ENFORCE, ALL)
    both = _findings(changed(NO_FDB, neighbours=(HELD.neighbours[0],)))
    outputs = _of(repairs.update(both, NOW))

    assert 2 == len(both)
    assert [RepairStarted, Repair] == _kinds(outputs)
    after = list(repairs.done(RepairDone(request=outputs[1].request, is_verified=True), NOW + SECOND))
    assert [RepairVerified, RepairStarted, Repair] == _kinds(after)


def test_a_repair_that_was_undone_is_told_and_tried_again_a_minute_later():
    """The kernel's words are in it."""
    repairs = Repairs(Mode.ENFORCE, ALL)
    _, command = _of(repairs.update(_findings(NO_FDB), NOW))
    (undone,) = _of(repairs.done(RepairDone(request=command.request, is_verified=False, error="EPERM"), NOW))

    assert (RepairUndone, "EPERM") == (type(undone), undone.reason)
    assert NOW + MINUTE == repairs.deadline()
    assert [] == list(repairs.advance(NOW + MINUTE - 1))
    assert [RepairStarted, Repair] == _kinds(repairs.advance(NOW + MINUTE))


def test_who_keeps_undoing_a_repair_has_his_way():
    """Three times within ten minutes; then it is left alone and told, and tried again when those are over."""
    repairs, now = Repairs(Mode.ENFORCE, ALL), NOW
    for _ in range(MAX_IN_FIGHT):
        _, command = _of(repairs.update(_findings(NO_FDB), now))
        list(repairs.done(RepairDone(request=command.request, is_verified=True), now))
        list(repairs.update((), now))
        now += 10 * SECOND
    (held,) = _of(repairs.update(_findings(NO_FDB), now))

    assert isinstance(held, RepairHeld)
    assert "undone by another program: it is left" in held.reason
    assert "held" == repairs.state(_findings(NO_FDB)[0].name)[0]
    assert [RepairStarted, Repair] == _kinds(repairs.advance(NOW + FIGHT_NS + MINUTE))


def _try(repairs, now, error):
    """One repair from its command to its outcome; empty is a success."""
    (command,) = [each for each in repairs.update(_findings(NO_FDB), now) if isinstance(each, Repair)]
    return _of(repairs.done(RepairDone(request=command.request, is_verified=not error, error=error), now))


def test_what_the_kernel_refuses_is_left_with_its_error_and_blames_no_program():
    """Three EPERMs are nobody's doing: who reads that another program undid it looks for one that does not exist."""
    repairs, now = Repairs(Mode.ENFORCE, ALL), NOW
    for error in ("EINVAL", "EBUSY", "EPERM"):
        assert [RepairUndone] == _kinds(_try(repairs, now, error))
        now += MINUTE
    (held,) = _of(repairs.update(_findings(NO_FDB), now))

    assert isinstance(held, RepairHeld)
    assert "its repair failed 3 times in 10 min, the last time with: EPERM" == held.reason
    assert "held" == repairs.state(_findings(NO_FDB)[0].name)[0]
    assert [] == list(repairs.advance(now + MINUTE)), "the same is told once"
    assert [] == list(repairs.advance(NOW + FIGHT_NS - 1))
    assert [RepairStarted, Repair] == _kinds(repairs.advance(NOW + FIGHT_NS + MINUTE))


def test_failures_between_are_no_fight_and_a_success_ends_their_row():
    """Only what was read back was put back; a kernel that took it once may take it again."""
    repairs, now = Repairs(Mode.ENFORCE, ALL), NOW
    for error in ("EPERM", "EPERM", "", "EPERM", "EPERM", ""):
        assert [RepairUndone if error else RepairVerified] == _kinds(_try(repairs, now, error))
        now += MINUTE

    assert [RepairVerified] == _kinds(_try(repairs, now, "")), "put back twice so far"
    (held,) = _of(repairs.update(_findings(NO_FDB), now + MINUTE))
    assert "it was put back 3 times in 10 min and undone by another program: it is left" == held.reason


@pytest.mark.parametrize("is_told", [True, False])
def test_a_repair_over_which_the_agent_dies_each_time_is_left(is_told):
    """Whether somebody says that it died, or it just does not answer."""
    repairs, now = Repairs(Mode.ENFORCE, ALL), NOW
    for _ in range(3):
        assert [RepairStarted, Repair] == _kinds(repairs.update(_findings(NO_FDB), now))
        if is_told:
            repairs.forget_under_way()
        now += ANSWER_NS
    (held,) = _of(repairs.update(_findings(NO_FDB), now))

    assert "its repair failed 3 times in 10 min, the last time with: the agent has not answered" == held.reason


@pytest.mark.parametrize(
    ("budget", "name"), [({"actions_per_minute": 2}, "actions_per_minute"), ({"actions_per_day": 2}, "actions_per_day")]
)
def test_the_budget_ends_a_flood_of_repairs(budget, name):
    """Twenty peers broken at once are put right as fast as the operator allows."""
    repairs = Repairs(Mode.ENFORCE, msgspec.structs.replace(ALL, **budget))
    findings = look(snapshot(Entries(neighbours=entries(6).neighbours, routes=entries(6).routes)), 6, known=good(6))
    outputs, now = _of(repairs.update(findings, NOW)), NOW
    for _ in range(4):
        for command in [each for each in outputs if isinstance(each, Repair)][-1:]:
            now += SECOND
            outputs += repairs.done(RepairDone(request=command.request, is_verified=True), now)

    assert 5 == len(findings)
    assert 2 == sum(isinstance(each, Repair) for each in outputs)
    reasons = {each.reason for each in outputs if isinstance(each, RepairHeld)}
    assert {f"repair.{name} is used up"} == reasons
    later = list(repairs.advance(now + 2 * MINUTE))
    assert (name == "actions_per_minute") == any(isinstance(each, Repair) for each in later)


def test_an_agent_that_dies_over_a_repair_holds_up_nothing():
    """Its outcome is not waited for for ever, and an answer to an older request means nothing."""
    repairs = Repairs(Mode.ENFORCE, ALL)
    _, command = _of(repairs.update(_findings(NO_FDB), NOW))

    assert NOW + ANSWER_NS == repairs.deadline()
    assert [] == list(repairs.done(RepairDone(request=command.request + 7, is_verified=True), NOW))
    assert [RepairStarted, Repair] == _kinds(repairs.advance(NOW + ANSWER_NS))
    repairs.forget_under_way()
    assert FaultCode.FDB_ENTRY_MISSING in {name[0] for name in repairs._work}
