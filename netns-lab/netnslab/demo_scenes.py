"""The two scenes of the demonstration: the same fault without and with the daemons.

The plot is here, what is said to the spectator in demo_view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from netnslab import faults, marks
from netnslab.daemons import Daemons, Event
from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.observation import Observation, Report
from netnslab.timeline import Entry, Tone, tell, tell_outage
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000
# The goal for the spectator's machine; the benchmark states what is usual.
RESTORE_GOAL_NS = SECOND
# The daemon's defaults are made for networks, not for an audience.
DEMO_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "policy": {"hold_down": "5s", "wait_to_restore": "2s", "half_life": "2s"}
}
# Long enough for every flow that lasts to be remembered, short enough that new flows rarely meet a
# remembered outer port: 400 a second of 28 232.
ARM_NS = 2 * SECOND

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How the demonstration is played.

    Attributes:
        fault_ns: how long the fault lasts.
        memory_s: how long the leader's switch remembers a flow.
        leader: where the fault sits.
        rate: new flows a second in each direction.
        config: what the daemons are told: "minimal", so that they find the mesh out, or "full".
    """

    directory: Path
    fault_ns: int = 5 * SECOND
    memory_s: int = 60
    leader: str = "b1"
    rate: int = 200
    config: str = "minimal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One promise and whether it was kept."""

    promise: str
    is_kept: bool
    measured: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What the kernels of all nodes held around the end of the daemons.

    Attributes:
        diverted: nodes that sent traffic over the standby path while the fault was on.
        is_returned: the mesh's own path was in use again, on every node, after the fault was healed.
        is_static: stopping the daemons changed no rule, route or device.
        leftovers: what `meshwatchctl sweep` left, by node.
        complaints: what stopping or sweeping said that it should not have.
    """

    diverted: tuple[str, ...]
    is_returned: bool
    is_static: bool
    leftovers: Mapping[str, tuple[str, ...]]
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The result of one scene; `aftermath` and `checks` belong to the scene with daemons."""

    report: Report
    entries: Sequence[Entry]
    aftermath: Aftermath | None = None
    checks: tuple[Check, ...] = ()


def scene_without_daemons(lab: Lab, plan: Plan, say: Say) -> Scene:
    """The fault strikes and nobody does anything about it."""
    with Observation(lab, plan.directory / "scene-one", rate=plan.rate) as seen:
        say("traffic and ping start")
        seen.wait_flowing()
        fault = faults.overlay_black_hole_new_flows(lab, leader=plan.leader, memory_s=plan.memory_s)
        with fault.armed():
            say(f"all is well; the switch of {plan.leader} learns the flows it sees")
            pause_until(seen.began_ns + ARM_NS)
            say(f"the fault is on: {plan.leader} loses every new overlay flow")
            struck_ns = seen.inject(fault)
            pause_until(struck_ns + plan.fault_ns)
            seen.heal(fault)
        say("the fault is healed")
        pause_until(struck_ns + plan.fault_ns + SECOND)
    report = seen.report()
    return Scene(report=report, entries=_frame(report, plan))


def scene_with_daemons(lab: Lab, plan: Plan, say: Say) -> Scene:
    """The same fault with a daemon on every node; the way back; and what is left when they stop."""
    nodes = tuple(lab.topology.nodes)
    say(f"{len(nodes)} daemons start in enforce mode")
    with Daemons(lab, plan.directory / "scene-two", settings=DEMO_SETTINGS, config=plan.config) as daemons:
        daemons.wait_ready(timeout_s=60)
        with Observation(lab, plan.directory / "scene-two", rate=plan.rate) as seen:
            say("the daemons are ready; traffic and ping start")
            seen.wait_flowing()
            diverted = _strike(lab, plan, seen, say)
            say("the fault is healed; the daemons wait until they trust the path again")
            is_returned = _returns(lab, nodes)
            say("traffic is watched for two more seconds")
            pause_until(time.monotonic_ns() + 2 * SECOND)
            events = daemons.events(since_ns=seen.began_ns)
            say("the daemons are stopped and swept away")
            is_static, leftovers, complaints = _curtain(lab, daemons)
    report = seen.report()
    aftermath = Aftermath(
        diverted=diverted,
        is_returned=is_returned,
        is_static=is_static,
        leftovers=leftovers,
        complaints=complaints,
    )
    return Scene(
        report=report,
        entries=_with_daemons(report, plan, events, aftermath),
        aftermath=aftermath,
        checks=judge(report, aftermath),
    )


def judge(report: Report, aftermath: Aftermath) -> tuple[Check, ...]:
    """Compare what was seen with what is promised."""
    outage_ns = report.both.duration_ns
    stalls = {pair: stream.longest_stall_ns for pair, stream in report.streams.items()}
    return (
        Check(
            promise="new flows work again within 1 s",
            is_kept=outage_ns is not None and outage_ns <= RESTORE_GOAL_NS,
            measured="never" if outage_ns is None else f"{outage_ns / 1e6:.0f} ms",
        ),
        Check(
            promise="the long-lived connections survive",
            is_kept=all(stream.survived for stream in report.streams.values()),
            measured=f"longest stall {max(stalls.values(), default=0) / 1e6:.0f} ms",
        ),
        Check(
            promise="the way back to the leader loses no flow",
            is_kept=bool(aftermath.diverted) and aftermath.is_returned and report.lost_afterwards == 0,
            measured=_tell_return(report, aftermath),
        ),
        Check(
            promise="stopping the daemons changes no route",
            is_kept=aftermath.is_static and not aftermath.complaints,
            measured="; ".join(aftermath.complaints) or ("unchanged" if aftermath.is_static else "changed"),
        ),
        Check(
            promise="sweep leaves nothing marked",
            is_kept=not aftermath.leftovers,
            measured=", ".join(f"{node}: {len(lines)} objects" for node, lines in aftermath.leftovers.items())
            or "nothing",
        ),
    )


def _tell_return(report: Report, aftermath: Aftermath) -> str:
    if not aftermath.diverted:
        return "never left it"
    return f"{report.lost_afterwards} lost" if aftermath.is_returned else "did not return"


def _strike(lab: Lab, plan: Plan, seen: Observation, say: Say) -> tuple[str, ...]:
    """Inject, wait for service, hold the fault for its full time; returns who was diverted meanwhile."""
    fault = faults.overlay_black_hole_new_flows(lab, leader=plan.leader, memory_s=plan.memory_s)
    with fault.armed():
        pause_until(seen.began_ns + ARM_NS)
        say("the same fault is on")
        struck_ns = seen.inject(fault)
        with suppress(LabError):  # an outage without end is a result, not a reason to stop watching
            wait_until(
                seen.is_restored,
                timeout_s=plan.fault_ns / SECOND,
                what="service to be restored",
                poll_s=0.25,
            )
        diverted = marks.diverted(lab, lab.topology.nodes)
        pause_until(struck_ns + plan.fault_ns)
        seen.heal(fault)
    return diverted


def _returns(lab: Lab, nodes: Sequence[str]) -> bool:
    with suppress(LabError):
        wait_until(lambda: not marks.diverted(lab, nodes), timeout_s=30, what="traffic to return", poll_s=0.25)
        return True
    return False


def _curtain(lab: Lab, daemons: Daemons) -> tuple[bool, Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """Stop, compare, sweep, look again."""
    complaints: list[str] = []
    running = marks.marked_by_node(lab, daemons.nodes)
    try:
        daemons.stop()
    except LabError as error:
        complaints.append(str(error))
    is_static = bool(running) and running == marks.marked_by_node(lab, daemons.nodes)
    for node, swept in zip(daemons.nodes, daemons.sweep(), strict=True):
        if swept.returncode != 0:
            complaints.append(f"sweep on {node}: {swept.stderr.strip() or swept.returncode}")
    return is_static, marks.marked_by_node(lab, daemons.nodes), tuple(complaints)


def _frame(report: Report, plan: Plan, *, back_over: str = "the path") -> list[Entry]:
    """What the lab did, and what traffic felt."""
    entries = [
        Entry(
            at_ns=report.injected_ns,
            who="lab",
            text=f"fault: new overlay flows out of {plan.leader} vanish; remembered ones pass",
            tone=Tone.FAULT,
        ),
        Entry(at_ns=report.healed_ns, who="lab", text="the fault is healed", tone=Tone.FAULT),
    ]
    entries += tell_outage(report.both, back_over=back_over)
    return sorted(entries, key=lambda entry: entry.at_ns)


def _with_daemons(report: Report, plan: Plan, events: Sequence[Event], aftermath: Aftermath) -> list[Entry]:
    back_over = "the standby path" if aftermath.diverted else "the path"
    told = [entry for entry in tell(events) if entry.at_ns >= report.injected_ns]
    return sorted([*_frame(report, plan, back_over=back_over), *told], key=lambda entry: entry.at_ns)
