"""All size sessions of one node: when they ask, how many at once, and what a change of the table keeps."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from meshwatchd.core.pmtu.pmtu import MAX_TRIALS, SizeWatch
from meshwatchd.core.pmtu.rest_intervals import TURN_NS
from meshwatchd.core.probing.session_plan import lay_out
from meshwatchd.model.events import Banner, RequestReceived
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.mtu import SMALL_BYTES, SendSizeProbe, SizeAnswered, SizeMeasured
from meshwatchd.model.settings import MS, SECOND
from meshwatchd.model.snapshot import Link
from tests.support.lab_mesh import planner_of, settings_for, snapshot_of

RTT_NS = 1 * MS


def _snapshot(name="b2"):
    """What a node's kernel shows; b2 relays, by standby links of its own."""
    own, devices = snapshot_of(name), [link.device for link in planner_of(name).provision().links]
    links = (
        Link(name=name, index=20 + n, kind="wireguard", is_up=True, mtu_bytes=1420) for n, name in enumerate(devices)
    )
    return msgspec.structs.replace(own, links=(*own.links, *links))


def _request(plan, size_bytes):
    """The peer of a session asks by the same way."""
    return RequestReceived(
        peer=NodeName(plan.peer),
        layer=plan.layer,
        path=plan.path,
        flow=FlowClass.PINNED,
        is_fresh_epoch=True,
        banner=Banner(),
        size_bytes=size_bytes,
    )


class Desk:
    """A watch whose probes pass up to a limit, each path its own.

    Attributes:
        limits: by session; what is not there passes all.
        rtt_ns: until an answer comes.
        sent: (instant, probe) of all.
        busiest: how many trials were under way at one time.
    """

    def __init__(self, name="b3", settings=None, rtt_ns=RTT_NS):
        self.rtt_ns = rtt_ns
        self.now = 100 * SECOND
        self.planner = planner_of(name)
        self.plans = lay_out(self.planner, has_standby=True)
        self.name = name
        self.watch = SizeWatch(settings or settings_for(name))
        self.limits = {}
        self.sent = []
        self.facts = []
        self.busiest = 0
        self.counts = {}
        self.configured = self.start()
        self.replies = []

    def start(self):
        """Take over the topology, again if need be."""
        begun = list(self.watch.start(self.planner, self.plans, _snapshot(self.name), self.now))
        self.watch.use_paths([path.number for path in self.planner.paths if path.is_primary], self.now)
        return begun

    def run(self, duration_ns, until=lambda: False):
        """From deadline to deadline."""
        end = self.now + duration_ns
        while not until():
            due = [at for at, _ in self.replies] + [self.watch.deadline() or end + 1]
            if min(due) > end:
                break
            self.now = max(self.now, min(due))
            for each in [each for each in self.replies if each[0] <= self.now]:
                self.replies.remove(each)
                self.facts += self.watch.answered(each[1], self.now)
            for output in self.watch.advance(self.now):
                self._take(output)
            self.busiest = max(self.busiest, sum(session.is_busy for session in self.watch.sessions))
        return self

    def _take(self, output):
        if isinstance(output, SizeMeasured):
            self.facts.append(output)
            return
        assert isinstance(output, SendSizeProbe)
        self.sent.append((self.now, output))
        if output.size_bytes <= self.limits.get(output.session, 65_535):
            count = self.counts[output.session] = self.counts.get(output.session, -1) + 1
            event = SizeAnswered(session=output.session, seq=output.seq, rtt_ns=self.rtt_ns, count=count)
            self.replies.append((self.now + self.rtt_ns, event))

    def sessions(self, layer):
        """Of one layer."""
        return [s for s in self.watch.sessions if s.plan.layer is layer and not s.plan.may_fragment]


def test_everything_is_measured_within_three_rounds_and_then_asked_seldom():
    """This node looks at the path in use every other second, and at all else a few times a minute."""
    desk = Desk().run(3 * SECOND)
    assert all(session.is_measured for session in desk.sessions(Layer.RELAY))
    desk.sent.clear()
    desk.run(10 * SECOND)

    assert 5 <= len(desk.sent) <= 10
    assert SMALL_BYTES not in {probe.size_bytes for _, probe in desk.sent}
    assert [] == desk.facts


def test_nobody_wakes_for_what_has_come():
    """An answer ends the wait for it, and a peer's full size puts this node's own look off."""
    desk = Desk().run(13 * SECOND)

    def is_stale():
        return desk.watch.deadline() < min(session.due for session in desk.watch.sessions)

    desk.run(20 * SECOND, is_stale)
    assert not is_stale()
    first = min(desk.watch.sessions, key=lambda session: session.due)
    desk.watch.heard(_request(first.plan, first.goal_bytes), desk.now)
    assert not is_stale()


def test_the_budget_stretches_the_rounds():
    """packets_per_second = 40 leaves one large packet a second for all."""
    small = settings_for("b2")
    small = msgspec.structs.replace(small, probe=msgspec.structs.replace(small.probe, packets_per_second=40))
    desk = Desk(settings=small).run(200 * SECOND)
    desk.sent.clear()
    desk.run(60 * SECOND)

    assert len(desk.sent) <= 66


def test_one_black_hole_makes_all_others_look_at_once():
    """So that the lowest layer is known before anybody is named; a few trials at one time, no more."""
    desk = Desk().run(5 * SECOND)
    for session in desk.watch.sessions:
        desk.limits[session.plan.session] = 1300
    began = desk.now
    desk.run(3 * SECOND, lambda: any(session.is_blocked for session in desk.watch.sessions))
    first = desk.now
    desk.run(2 * SECOND, lambda: all(s.is_blocked for s in desk.watch.sessions if s.plan.layer is not Layer.EFFECTIVE))

    assert first - began <= TURN_NS + 400 * MS
    assert desk.watch.settled_at >= first
    assert desk.busiest <= MAX_TRIALS
    desk.run(8 * SECOND)
    searched = {Layer.UNDERLAY, Layer.OVERLAY, Layer.RELAY}
    assert {1300} == {s.both_bytes for layer in searched for s in desk.sessions(layer)}
    assert {1300} == {fact.inbound_bytes for fact in desk.facts if fact.layer in searched}


def test_nobody_is_named_before_all_others_were_tried_where_answers_take_ten_milliseconds():
    """They take turns with the searches of those that are done. A slow machine took 0.8 s, and named the wrong end."""
    desk = Desk(rtt_ns=10 * MS).run(8 * SECOND)
    for session in desk.watch.sessions:
        desk.limits[session.plan.session] = 1300
    desk.run(3 * SECOND, lambda: any(session.is_blocked for session in desk.watch.sessions))
    settled_at = desk.watch.settled_at
    desk.run(3 * SECOND, lambda: all(session.is_blocked for session in desk.watch.sessions))

    assert desk.now < settled_at


def test_a_black_hole_is_spoken_of_as_soon_as_all_others_have_looked():
    """Not a whole second after the first: where answers are quick that is most of the time until it has a name."""
    desk = Desk().run(8 * SECOND)
    desk.limits = {session.plan.session: 1300 for session in desk.sessions(Layer.OVERLAY)}
    desk.run(35 * SECOND, lambda: any(session.is_blocked for session in desk.watch.sessions))
    alarmed = desk.now

    def is_settled():
        return desk.watch.settled_at <= desk.now

    assert not is_settled()
    desk.run(2 * SECOND, is_settled)
    assert all(session.is_blocked for session in desk.sessions(Layer.OVERLAY))
    assert all(session.passed_at >= alarmed for session in desk.sessions(Layer.UNDERLAY))
    assert desk.now - alarmed < SECOND // 2


def test_one_recovery_makes_the_others_that_lost_large_packets_look_at_once():
    """Not at the next deadline of the node, which may be far: here it is 20 ms."""
    desk = Desk().run(5 * SECOND)
    full = {session.plan.session: session.goal_bytes for session in desk.watch.sessions}
    desk.limits = dict.fromkeys(full, 1300)
    desk.run(20 * SECOND)
    blocked = sum(session.is_blocked for session in desk.watch.sessions)
    desk.limits.clear()
    desk.sent.clear()
    desk.run(9 * SECOND, lambda: any(probe.size_bytes == full[probe.session] for _, probe in desk.sent))
    looked = next(probe.session for _, probe in desk.sent if probe.size_bytes == full[probe.session])
    answer = next(answer for _, answer in desk.replies if answer.session == looked)
    for session in desk.watch.sessions:
        session.postpone(desk.now)
    desk.watch.observe(_snapshot(desk.name), desk.now)
    desk.watch.answered(answer, desk.now + RTT_NS)

    assert sum(session.is_blocked for session in desk.watch.sessions) == blocked - 1
    assert desk.watch.deadline() <= desk.now + RTT_NS + MS


def test_recovery_is_told_as_well():
    """The last fact of a path says that it carries what it should."""
    desk = Desk().run(5 * SECOND)
    (session, *_) = desk.sessions(Layer.OVERLAY)
    desk.limits[session.plan.session] = 1300
    desk.run(40 * SECOND)
    desk.limits.clear()
    desk.run(8 * SECOND)

    assert [1300, 1450] == [fact.inbound_bytes for fact in desk.facts]
    assert desk.watch.is_known_limit(1300)


def test_a_path_that_stays_keeps_what_is_known_of_it():
    """The topology changed elsewhere: no session of the old table begins anew, and ids are not given twice."""
    desk = Desk().run(5 * SECOND)
    before = {session.plan: session for session in desk.watch.sessions}
    (again,) = desk.start()

    assert [session.plan for session in desk.watch.sessions] == list(again.plans)
    assert all(before[session.plan] is session for session in desk.watch.sessions)


def test_what_a_peer_sends_is_heard_by_the_session_of_the_same_path():
    """And by no other."""
    desk = Desk().run(5 * SECOND)
    (session, other) = desk.sessions(Layer.OVERLAY)
    desk.watch.heard(_request(session.plan, 1450), desk.now)
    session.failed_at = other.failed_at = desk.now - 1

    assert session.is_inbound_limited(desk.now) is False
    assert other.is_inbound_limited(desk.now) is None


def test_a_path_is_known_to_carry_or_not():
    """Before it was measured nothing is claimed."""
    desk = Desk()
    path = desk.planner.topology.local_paths()[0]
    assert desk.watch.carries(path) is None
    desk.run(5 * SECOND)
    assert desk.watch.carries(path) is True
    for session in desk.sessions(Layer.RELAY):
        if session.plan.path == path.number:
            desk.limits[session.plan.session] = 1300
    desk.run(3 * SECOND)
    assert desk.watch.carries(path) is False


def test_real_traffic_is_tried_at_once_when_asked_for():
    """After a move: the trial is over within the time that verification has."""
    desk = Desk().run(5 * SECOND)
    path = desk.planner.topology.local_paths()[0]
    for session in desk.sessions(Layer.EFFECTIVE):
        desk.limits[session.plan.session] = 1300
    desk.watch.verify(path, desk.now)
    desk.run(130 * MS)

    assert ("a1", "a2", "a3") == desk.watch.is_cramped(path)
    desk.limits.clear()
    desk.watch.verify(path, desk.now)
    desk.run(130 * MS)
    assert () == desk.watch.is_cramped(path)


def test_lost_answers_void_what_is_under_way():
    """Nobody is accused by a sleeper."""
    desk = Desk().run(5 * SECOND)
    desk.run(SECOND, lambda: any(session.trial for session in desk.watch.sessions))
    desk.watch.void(desk.now)

    assert not any(session.trial for session in desk.watch.sessions)


def _hear(desk, size_bytes):
    (session, *_) = (each for each in desk.sessions(Layer.RELAY) if each.plan.path == 0)
    desk.watch.heard(_request(session.plan, size_bytes), desk.now)


@pytest.mark.parametrize(("sizes", "looks"), [((1420, 300, 1420), 1), ((860, 860), 1), ((860, 1140), 22)])
def test_a_peer_that_searches_a_limit_makes_all_sessions_look(sizes, looks):
    """It has found a black hole. A trial has two sizes, full and small; rest at a known limit repeats the same."""
    desk = Desk().run(6 * SECOND)
    desk.sent.clear()
    for size_bytes in sizes:
        _hear(desk, size_bytes)
    desk.run(500 * MS)

    assert looks >= len({probe.session for _, probe in desk.sent}) >= looks - 1


def test_who_was_called_by_a_search_looks_at_everything_once_and_speaks():
    """Looking anew after its own first loss took another half a second, on each node that others had called."""
    desk = Desk().run(8 * SECOND)
    desk.limits = {session.plan.session: 1300 for session in desk.sessions(Layer.OVERLAY)}
    desk.sent.clear()
    for size_bytes in (860, 1140):
        _hear(desk, size_bytes)
    desk.run(2 * SECOND, lambda: any(session.is_blocked for session in desk.watch.sessions))
    desk.run(2 * SECOND, lambda: desk.watch.settled_at <= desk.now)
    asked = Counter(probe.session for _, probe in desk.sent)

    assert all(session.is_blocked for session in desk.sessions(Layer.OVERLAY))
    assert {1} == {asked[session.plan.session] for session in desk.sessions(Layer.UNDERLAY)}


def test_a_search_that_is_heard_within_the_pause_makes_all_sessions_look_after_it():
    """A black hole that was healed and came back within two seconds was not looked for on nodes that ask seldom."""
    desk = Desk().run(6 * SECOND)
    for size_bytes in (860, 1140):
        _hear(desk, size_bytes)
    desk.run(SECOND)
    desk.sent.clear()
    for size_bytes in (900, 1000):
        _hear(desk, size_bytes)
    heard_at = desk.now
    desk.run(2 * SECOND + 500 * MS)

    assert len({probe.session for at, probe in desk.sent if at > heard_at}) >= 21


def test_who_hears_the_other_sides_look_waits():
    """Two nodes look at the path in use, and it is seen once a second and not twice at one time."""
    desk = Desk().run(6 * SECOND)
    (own,) = (each for each in desk.watch.sessions if each.rest_ns == TURN_NS)
    desk.watch.heard(
        RequestReceived(
            peer=NodeName(own.plan.peer),
            layer=Layer.RELAY,
            path=0,
            flow=FlowClass.PINNED,
            is_fresh_epoch=True,
            banner=Banner(),
            size_bytes=1420,
        ),
        desk.now,
    )

    assert desk.now + TURN_NS // 2 <= own.due <= desk.now + TURN_NS
