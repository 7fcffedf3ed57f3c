"""The order of a turn, and what the loop does for itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

import msgspec
import pytest

from meshwatchd.adapters.clock import monotonic_ns
from meshwatchd.model.events import (
    AgentLost,
    Event,
    LatenessMeasured,
    ReplyReceived,
    SendFailed,
    SnapshotReceived,
    Stalled,
    Tick,
)
from meshwatchd.model.faults import Severity
from meshwatchd.model.frames import StatusFrame
from meshwatchd.model.ids import SessionId
from meshwatchd.model.load import LoadMeasured
from meshwatchd.model.outputs import ConfigureSessions, DaemonReady, Output
from meshwatchd.model.status import Status
from meshwatchd.runtime.lateness import STALL_NS
from meshwatchd.runtime.loop import HOUSEKEEPING_NS, QUIET_GAP_NS, SLIM_AFTER, STATUS_GAP_NS, STATUS_TAIL_NS
from meshwatchd.runtime.share import Share
from tests.support.engine_node import REPORTING_AGENT, EngineNode, engine_node, python_agent
from tests.support.packet_node import send

pytestmark = pytest.mark.timeout(20)


def test_probes_are_sent_on_ticks_and_answers_heard():
    """Twenty rounds with a real peer: every probe is answered."""
    with engine_node() as node:
        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(ReplyReceived)) >= 20)

        replies = [event for event in node.core.seen(ReplyReceived) if isinstance(event, ReplyReceived)]
        assert list(range(20)) == [reply.seq for reply in replies]
        assert ["STOPPING=1"] == node.notices


def test_time_given_to_the_core_never_runs_back():
    """The core may subtract."""
    with engine_node() as node:
        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.events) >= 50)

        times = [now for now, _event in node.core.events]
        assert sorted(times) == times


def test_stall_is_told_after_the_answers_and_before_the_tick():
    """Whoever slept hears first what came meanwhile, then says that it slept, and only then counts time."""
    with engine_node() as node:
        slept: list[int] = []

        def sleep_once(event: Event, _now: int) -> None:
            if isinstance(event, Tick) and len(node.core.seen(Tick)) == 3:
                # Awake but not looking, until the answer to this probe has come and the next round is long due.
                until_ns = monotonic_ns() + 3 * STALL_NS
                while monotonic_ns() < until_ns:
                    pass
                slept.append(len(node.core.events))

        node.begin(monotonic_ns())
        node.run_until(lambda: bool(slept) and len(node.core.events) >= slept[0] + 3, sleep_once)

        after = [type(event) for _now, event in node.core.events[slept[0] :]][:3]
        assert Stalled in after
        assert after.index(Stalled) < after.index(Tick)
        stalled = node.core.seen(Stalled)[-1]
        assert isinstance(stalled, Stalled)
        assert stalled.late_ns > STALL_NS
        assert node.counters["loop-stalls"] >= 1


def test_the_tick_says_up_to_when_everything_was_heard():
    """Reading takes time: an answer that came meanwhile waits in its socket, and is heard before the next Tick."""
    with engine_node() as node:
        busy: list[tuple[int, int]] = []

        def read_slowly(event: Event, now: int) -> None:
            if isinstance(event, ReplyReceived) and len(node.core.seen(ReplyReceived)) in {3, 6, 9}:
                until_ns = now + 15_000_000
                while monotonic_ns() < until_ns:
                    pass
                busy.append((now, monotonic_ns()))

        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(Tick)) >= 30, read_slowly)

        ticks = [(now, event.heard_ns) for now, event in node.core.events if isinstance(event, Tick)]
        assert 3 == len(busy)
        for began_ns, ended_ns in busy:
            [late] = [heard_ns for now, heard_ns in ticks if now >= ended_ns][:1]
            assert late <= began_ns
        assert all(heard_ns <= now for now, heard_ns in ticks)


def test_what_ends_while_sockets_are_read_is_judged_in_the_next_turn_without_delay():
    """The core's wait is not over yet for the Tick, whose instant is past; that is no core which is stuck."""
    with engine_node() as node:
        judged: list[int] = []
        due_ns = monotonic_ns() + 5_000_000

        def handle(event: Event, now: int) -> list[Output]:
            if isinstance(event, AgentLost):
                while monotonic_ns() < due_ns + 1_000_000:
                    pass
            if isinstance(event, Tick):
                node.core.events.append((now, event))
                if event.heard_ns >= due_ns:
                    judged.append(event.heard_ns)
                    node.core._due_ns = None
                    node.loop.stop()
            return []

        node.core._due_ns = due_ns
        node.core.handle = handle  # type: ignore[method-assign]
        node.inbox.append(AgentLost(exit_status=0))
        node.loop.run()

        assert 1 == len(judged)
        assert 2 == len(node.core.seen(Tick))
        assert 0 == node.counters["loop-ticks-stuck"]


def test_load_is_measured_and_told_each_second():
    """How much of its time the loop is at work: a core that works for 30 of 60 ms is busy by half."""
    with engine_node() as node:

        def tick(now: int) -> list[Output]:
            node.core._due_ns = now + 60_000_000
            while monotonic_ns() < now + 30_000_000:
                pass
            return []

        node.core._due_ns = monotonic_ns()
        node.core._tick = tick  # type: ignore[method-assign]
        node.run_until(lambda: bool(node.core.seen(LoadMeasured)))

        [told] = node.core.seen(LoadMeasured)
        assert isinstance(told, LoadMeasured)
        assert 40 <= told.busy_percent == node.counters["loop-busy-percent"] <= 100


def test_core_that_asks_for_the_same_instant_for_ever_is_slowed_down():
    """At real-time priority a spinning loop would take the whole core."""
    with engine_node() as node:
        node.core._due_ns = monotonic_ns()
        node.core._tick = lambda now: []  # type: ignore[method-assign]
        began_ns = monotonic_ns()
        node.run_until(lambda: len(node.core.seen(Tick)) >= 20)

        assert monotonic_ns() - began_ns >= 18_000_000
        assert node.counters["loop-ticks-stuck"] >= 18


def test_answers_to_an_earlier_table_of_sessions_are_not_told():
    """Ids of sessions that end mean nothing: what still waits in the queue for them is forgotten."""
    with engine_node() as node:
        node.begin(monotonic_ns())
        node.core.answers[Tick] = []
        stale = SendFailed(session=SessionId(0), seq=0, errno=1)
        node.inbox.extend((AgentLost(exit_status=0), stale, AgentLost(exit_status=1)))
        node.core.answers[AgentLost] = [ConfigureSessions(sessions=())]
        node.loop._settle()

        assert [0, 1] == [event.exit_status for event in node.core.seen(AgentLost) if isinstance(event, AgentLost)]
        assert [] == node.core.seen(SendFailed)


def test_probe_that_could_not_leave_is_told_before_the_loop_rests():
    """Probes leave when the core has said everything; what comes of it is an event like any other."""
    with engine_node() as node:
        seen: list[Event] = []

        def handle(event: Event, _now: int) -> list[Output]:
            seen.append(event)
            return [send(seq=6), send(seq=7)] if isinstance(event, AgentLost) else []

        node.core.plans = (msgspec.structs.replace(node.core.plans[0], destination="240.0.0.1"),)
        node.begin(monotonic_ns())
        node.core.handle = handle  # type: ignore[assignment]
        node.inbox.append(AgentLost(exit_status=0))
        node.loop._settle()

        assert [AgentLost, SendFailed, SendFailed] == [type(event) for event in seen]
        assert [6, 7] == [event.seq for event in seen if isinstance(event, SendFailed)]


def test_systemd_is_told_when_the_first_snapshot_was_handled():
    """READY comes after the core has seen the kernel, WATCHDOG while the loop goes round, STOPPING at the end."""
    with engine_node(python_agent(REPORTING_AGENT)) as node:
        node.core.plans = ()
        seen_first: list[str] = []
        node.core.interval_ns = 10_000_000
        node.core._due_ns = monotonic_ns()

        def note(event: Event, _now: int) -> None:
            if isinstance(event, SnapshotReceived):
                seen_first.extend(node.notices)

        def tick(now: int) -> list[Output]:
            node.core._due_ns = now + 10_000_000
            return []

        node.core._tick = tick  # type: ignore[method-assign]
        node.run_until(lambda: "WATCHDOG=1" in node.notices, note)

        assert [] == seen_first
        assert ["READY=1", "WATCHDOG=1", "STOPPING=1"] == node.notices


def test_a_loop_that_is_always_late_leaves_others_their_share():
    """The core's deadline is long past whatever is done; time that is not slept counts as the CPU's."""
    with engine_node() as node:
        node.core.plans = ()
        node.loop._share = Share(monotonic_ns)

        def work(now: int) -> list[Output]:
            while monotonic_ns() < now + 3_000_000:
                pass
            node.core._due_ns = now
            return []

        node.core._tick = work  # type: ignore[method-assign]
        node.core._due_ns = monotonic_ns()
        node.run_until(lambda: node.counters["loop-rests"] >= 3)

        assert node.counters["loop-rests"] >= 3


def test_own_lateness_is_measured_exported_and_told():
    """Once for each housekeeping round, and to the core only when it has changed."""
    with engine_node() as node:
        node.begin(monotonic_ns())
        node.run_until(lambda: bool(node.core.seen(LatenessMeasured)))

        [told] = node.core.seen(LatenessMeasured)
        assert isinstance(told, LatenessMeasured)
        counters = node.counters
        assert 0 < told.p99_ns == counters["loop-lateness-p99-ns"]
        assert counters["loop-lateness-p50-ns"] <= told.p99_ns <= counters["loop-lateness-max-ns"]


def test_memory_is_settled_once_everything_stands():
    """After the first dump of the kernel was handled, and never again."""
    with engine_node(python_agent(REPORTING_AGENT)) as node:
        node.core.plans = ()
        node.core._due_ns = monotonic_ns()
        at: list[int] = []

        def is_a_second_later() -> bool:
            if node.settled and not at:
                at.append(node.loop._housekeepings)
            return bool(at) and node.loop._housekeepings > at[0]

        node.run_until(is_a_second_later)

        assert 1 == len(node.settled)


def test_what_the_start_needed_is_given_back_once_it_is_over():
    """Half a minute later, and never again."""
    with engine_node(python_agent(REPORTING_AGENT)) as node:
        node.core.plans = ()
        node.loop._housekeepings = SLIM_AFTER - 2
        node.run_until(lambda: node.loop._housekeepings > SLIM_AFTER)

        assert 1 == len(node.slimmed)


def test_signals_stop_the_loop_and_hangup_does_not():
    """SIGHUP asks for a reload; SIGTERM ends the loop in good order."""
    with engine_node() as node:
        sent: list[int] = []

        def send_signals(event: Event, _now: int) -> None:
            ticks = len(node.core.seen(Tick))
            if isinstance(event, Tick) and ticks in {2, 6}:
                sent.append(ticks)
                os.kill(os.getpid(), signal.SIGHUP if ticks == 2 else signal.SIGTERM)

        node.begin(monotonic_ns())
        node.run_until(lambda: False, send_signals)

        assert [2, 6] == sent
        assert 1 == len(node.reloads)
        assert ["STOPPING=1"] == node.notices


def test_death_of_the_agent_is_told_and_it_is_started_again():
    """The core hears AgentLost with the status, and the next agent reports again."""
    dying = REPORTING_AGENT.split("try:")[0] + "raise SystemExit(3)"
    with engine_node(python_agent(dying)) as node:
        node.run_until(lambda: len(node.core.seen(SnapshotReceived)) >= 2)

        assert AgentLost(exit_status=3) in node.core.seen(AgentLost)


def test_facts_and_status_wait_for_an_agent():
    """What the core says without an agent reaches the next one; statuses do not pile up."""
    with engine_node() as node:
        for pair in range(3):
            node.effects.carry_out(DaemonReady(pair=pair), 1)
        for now_ns in range(3):
            node.agent.send(StatusFrame(status=node.core.status(now_ns, {})))

        assert 2 == node.counters["link-status-superseded"]


def test_who_has_little_to_do_does_not_rest_between_turns():
    """The rest keeps packets of a busy node together; where they come one by one it would be one more wake-up each."""
    with engine_node() as node:
        loop = node.loop

        def shortest_rest_ns(gap_ns: int) -> int:
            rests = []
            for _ in range(20):
                loop._gap_ns, loop._rested_ns = gap_ns, monotonic_ns()
                loop._rest()
                rests.append(monotonic_ns() - loop._rested_ns)
            return min(rests)

        assert loop._rest_ns > 0
        assert shortest_rest_ns(0) >= loop._rest_ns
        assert shortest_rest_ns(QUIET_GAP_NS) < loop._rest_ns // 2


def test_who_is_awake_anyway_lets_the_core_send_what_may_leave_early():
    """An answer has come; the next probe is due in a minute, and may leave now."""
    with engine_node() as node:
        core = node.core

        def wait_for_company(event: Event, now: int) -> None:
            if isinstance(event, Tick):
                core.early_ns, core._due_ns = (now, now + 60_000_000_000) if core.early_ns is None else (None, now)

        node.begin(monotonic_ns())
        node.run_until(lambda: len(core.seen(Tick)) >= 2, wait_for_company)

        first, second = [now for now, event in core.events if isinstance(event, Tick)]
        assert second - first < 1_000_000_000


def test_chores_are_done_a_little_early_by_who_is_awake():
    """A second's chores never wake a loop that has packets: they are done in a turn of somebody else's."""
    with engine_node() as node:
        node.core.interval_ns = 20_000_000
        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(LoadMeasured)) >= 3)

        done = [now for now, event in node.core.events if isinstance(event, LoadMeasured)]
        assert all(gap < HOUSEKEEPING_NS for gap in (done[1] - done[0], done[2] - done[1]))


def test_the_core_is_asked_once_between_two_events_when_it_is_due():
    """It says the same, and at rest each question finds cold caches."""
    with engine_node() as node:
        asked = 0
        deadline = node.core.deadline

        def count() -> int | None:
            nonlocal asked
            asked += 1
            return deadline()

        node.core.deadline = count  # type: ignore[method-assign]
        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(ReplyReceived)) >= 20)

        assert asked <= len(node.core.events) + 1


def _statuses(node: EngineNode) -> list[int]:
    """When statuses are made from here on, in nanoseconds of the clock that the core is told."""
    made: list[int] = []
    status = node.core.status

    def count(now: int, counters: Mapping[str, int]) -> Status:
        made.append(now)
        return status(now, counters)

    node.core.status = count  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize(("severity", "is_made"), [(Severity.OK, False), (Severity.WARNING, True)])
def test_who_is_asked_by_nobody_makes_no_status_while_all_is_well(severity, is_made):
    """The last fact is half a minute old. As long as anything is wrong there is one each second."""
    with engine_node() as node:
        node.core.severity = severity
        made, loop = _statuses(node), node.loop
        loop._stirred_ns = monotonic_ns() - STATUS_TAIL_NS
        loop._tell_status(monotonic_ns() + HOUSEKEEPING_NS)
        assert 1 == len(made)

        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(LoadMeasured)) >= 3)

        assert is_made is (len(made) > 1)


def test_a_fact_a_word_of_the_agent_and_who_asks_have_a_status_made_soon():
    """And for half a minute after the first two one each second."""
    with engine_node() as node:
        made, loop = _statuses(node), node.loop

        def fact() -> None:
            node.effects.carry_out(DaemonReady(pair=0), 1)
            loop._settle()

        def asked() -> None:
            node.agent._is_asked = True

        for stir, goes_on in ((fact, True), (loop._stir, True), (asked, False)):
            loop._stirred_ns, loop._status_due_ns = monotonic_ns() - STATUS_TAIL_NS, None
            loop._status_sent_ns = monotonic_ns() - STATUS_GAP_NS
            made.clear()
            stir()
            if node.agent.take_asked():
                loop._hasten_status()
            assert not loop._tell_status(monotonic_ns())
            assert 1 == len(made)
            assert goes_on is (loop._status_due_ns is not None)


def test_an_agent_that_asks_gets_a_status_of_that_moment():
    """From an engine that makes none for anybody else; this one asks with each of its signs of life."""
    asking = REPORTING_AGENT.replace("end.send(AliveFrame())", "end.send(AliveFrame()); end.send(StatusAskedFrame())")
    asking = asking.replace("import AliveFrame", "import StatusAskedFrame, AliveFrame")
    with engine_node(python_agent(asking)) as node:
        made = _statuses(node)

        def be_quiet(event: Event, _now: int) -> None:
            node.loop._stirred_ns = -STATUS_TAIL_NS
            if isinstance(event, LoadMeasured) and len(node.core.seen(LoadMeasured)) == 3:
                made.clear()

        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(LoadMeasured)) >= 6, be_quiet)

        assert 2 <= len(made) <= 4


def test_a_turn_in_which_no_chore_is_due_does_none():
    """At rest there are two dozen turns a second, and each call finds cold caches."""
    with engine_node() as node:
        advanced = 0
        advance = node.agent.advance

        def count(now_ns: int, ahead_ns: int = 0) -> None:
            nonlocal advanced
            advanced += 1
            advance(now_ns, ahead_ns)

        node.agent.advance = count  # type: ignore[method-assign]
        node.core.interval_ns = 50_000_000
        node.begin(monotonic_ns())
        node.run_until(lambda: len(node.core.seen(LoadMeasured)) >= 2)

        assert 2 * advanced < node.counters["loop-turns"]
