"""The LAN is asked while somebody on it is suspected, and never otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from meshwatchd.core.audit.view import View
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import Link
from meshwatchd.model.underlay import ArpAnswers
from meshwatchd.runtime import underlay_watch
from meshwatchd.runtime.underlay_watch import UnderlayWatch, pause_s
from tests.support import hellos
from tests.support.bench import ready
from tests.support.lab_mesh import declared_mesh, snapshot_of

STRANGER, OWN, MAC = "02:de:ad:be:ef:01", "02:4e:00:00:00:05", "02:4e:00:00:00:04"


def _view():
    eth0 = Link(
        name="eth0",
        index=2,
        kind="veth",
        is_up=True,
        mtu_bytes=1500,
        addresses=("10.2.0.12",),
        prefix_lengths=(24,),
        lladdr=OWN,
    )
    heard = {"b1": hellos.hello("b1", seen={"node_macs": (MAC,)})}
    seen = msgspec.structs.replace(snapshot_of("b2"), links=(eth0,))
    return View(snapshot=seen, mesh=declared_mesh(), node="b2", hellos=heard, good=None)


def _status(culprit):
    bench = ready("b2")
    status = bench.engine.status(bench.now, {})
    entry = CATALOGUE[FaultCode.LEADER_DEAD if culprit else FaultCode.NONE]
    verdict = Verdict(fault=entry.code, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)
    return msgspec.structs.replace(status, pairs=(msgspec.structs.replace(status.pairs[0], verdict=verdict),))


def _play(*culprits, view=None, gone_after=9):
    """What is asked, and what is found in the end; each culprit's verdict stands for a moment.

    The stranger is gone after so many of them.
    """
    asked: list[tuple[str, str, str, tuple[str, ...]]] = []

    async def answer(device, own_mac, address, expected):
        asked.append((device, own_mac, address, expected))
        strangers = (STRANGER,) if played < gone_after else ()
        macs = (MAC, *strangers) if address == "10.2.0.11" else ()
        return ArpAnswers(macs=macs, asked=4, heard=4, heard_alone=4)

    played = 0

    async def scenario():
        nonlocal played
        watch = UnderlayWatch(lambda: (), asker=answer)

        def look():
            list(watch.findings(_view(), SECOND))

        look()
        for played, culprit in enumerate(culprits):  # noqa: B007 - the answers depend on it
            watch.note(_status(culprit))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await watch.watch(look)
        return [each.code for each in watch.findings(view or _view(), SECOND)]

    return asked, asyncio.run(scenario())


def test_at_rest_nothing_is_sent():
    """Broadcasts wake every machine of a LAN."""
    assert ([], []) == _play("")


def test_a_suspected_node_of_the_same_lan_is_asked_for():
    """With the MAC that its hello advertises, to be asked alone."""
    asked, found = _play("b1")

    assert [("eth0", OWN, "10.2.0.12", ()), ("eth0", OWN, "10.2.0.11", (MAC,))] == asked
    assert [FaultCode.DUPLICATE_ADDRESS] == found


def test_a_suspected_node_behind_a_router_is_not_asked_for():
    """Its LAN is another one; that it is silent may be the fault of whatever took the address of this node."""
    addresses = [address for _, _, address, expected in _play("a1")[0] if address == "10.2.0.12" or expected]
    assert ["10.2.0.12"] == addresses


def test_answers_are_forgotten_with_the_verdict():
    """What was so during the last outage says nothing of the next."""
    asked, found = _play("b1", "", gone_after=0)

    assert (2, []) == (len(asked), found)


def test_a_second_machine_is_told_until_it_is_gone_whatever_it_does():
    """Neighbours have the right entry again, and nothing is lost: until one of them asks anew."""
    asked, found = _play("b1", "", "")
    assert ({"10.2.0.12", "10.2.0.11"}, [FaultCode.DUPLICATE_ADDRESS]) == ({each[2] for each in asked[2:]}, found)

    asked, found = _play("b1", "", "", "", gone_after=2)
    assert [] == found
    assert 6 == len(asked), "one more round, in which it was not there"


def test_old_answers_explain_nothing_of_the_next_outage():
    """The second machine was switched off between the two; one round tells."""
    assert [] == _play("b1", "", "b1", gone_after=2)[1]


def test_whom_a_verdict_has_named_stays_suspected_while_any_stands():
    """A finding replaces the name by that of the node that has the wrong entry, and must not end by that."""
    assert [FaultCode.DUPLICATE_ADDRESS] == _play("b1", "b2")[1]


def test_a_mac_that_a_node_advertised_before_is_remembered():
    """Its network card was replaced while it was watched."""
    heard = {"b1": hellos.hello("b1", seen={"node_macs": (STRANGER,)})}
    view = View(snapshot=_view().snapshot, mesh=_view().mesh, node="b2", hellos=heard, good=None)

    assert [] == _play("b1", view=view)[1]


def test_rounds_become_rare():
    """A dead node stays dead for days: the first rounds follow each other, then there is one a minute."""
    assert [3.0, 3.0, 3.0, 6.0, 12.0, 24.0, 48.0, 60.0, 60.0] == [pause_s(count) for count in range(1, 10)]


class Stage:
    """A watch whose rounds follow each other at once, and what it does.

    Attributes:
        asked: addresses, round by round.
        counts: how many rounds there were when it paused.
        told: how often the audit was told of news.
        then: called in the round of that number, while the LAN is asked.
    """

    def __init__(self, monkeypatch, pause: Callable[[int], float] = lambda _count: 0.0):
        self.asked: list[list[str]] = [[]]
        self.counts: list[int] = []
        self.told = 0
        self.rounds = 0
        self.done = asyncio.Event()
        self.then: dict[int, Callable[[], object]] = {}
        self.watch = UnderlayWatch(lambda: (), asker=self._answer)

        def paused(count: int) -> float:
            self.counts.append(count)
            self.asked.append([])
            if len(self.counts) == self.rounds:
                self.done.set()
            return pause(count)

        monkeypatch.setattr(underlay_watch, "pause_s", paused)

    async def _answer(self, _device, _mac, address, _expected):
        self.asked[-1].append(address)
        if (then := self.then.pop(len(self.counts), None)) is not None:
            then()
        return ArpAnswers(macs=(MAC,), asked=4, heard=4, heard_alone=4)

    def look(self, view=None):
        """The audit looks; returns the codes of what is found."""
        return [each.code for each in self.watch.findings(view or _view(), SECOND)]

    def run(self, rounds, culprit="b1"):
        """So many rounds of a verdict."""

        async def scenario():
            self.done = asyncio.Event()
            self.rounds = rounds
            self.watch.note(_status(culprit))
            async with asyncio.TaskGroup() as group:
                duty = group.create_task(self.watch.watch(self._tell))
                async with asyncio.timeout(20):
                    await self.done.wait()
                duty.cancel()

        self.look()
        asyncio.run(scenario())

    def _tell(self):
        self.told += 1


def test_the_audit_is_told_of_each_round_and_the_last_three_count(monkeypatch):
    """Frames of a MAC that flaps are lost now and then; what was an hour ago says nothing."""
    stage = Stage(monkeypatch)
    stage.run(5)

    assert [1, 2, 3, 4, 5] == stage.counts[:5]
    assert stage.told >= 5
    assert {3} == {len(rounds) for rounds in stage.watch._seen(_view()).answers.values()}


def test_a_verdict_that_stands_restarts_nothing_and_a_new_name_does(monkeypatch):
    """The engine reports once a second; rounds become rare all the same."""
    stage = Stage(monkeypatch)
    stage.then = {2: lambda: stage.watch.note(_status("b1")), 4: lambda: stage.watch.note(_status("b3"))}
    stage.run(6)

    assert [1, 2, 3, 4, 1, 2] == stage.counts[:6]
    assert {"b2", "b1", "b3"} == set(stage.watch._suspects)


def test_what_was_found_is_looked_at_again_soon(monkeypatch):
    """It may be over while another verdict stands, and explains that one until then."""
    stage = Stage(monkeypatch)
    stage.then = dict.fromkeys(range(6), stage.look)
    stage.run(6)

    assert [1, 2, 3, 3, 3, 3] == stage.counts[:6]


def test_what_harms_nobody_any_more_is_looked_at_more_and_more_seldom(monkeypatch):
    """It may stay for days, and broadcasts wake every machine of a LAN."""
    stage = Stage(monkeypatch)
    stage.then = {
        0: lambda: setattr(stage.watch, "_has_found", True),
        4: lambda: stage.watch.note(_status("")),
    }
    stage.run(8)

    assert [1, 2, 3, 3, 4, 5, 6, 7] == stage.counts[:8]


def test_who_is_named_again_is_asked_for_at_once(monkeypatch):
    """Whose second machine harmed nobody for a while may be dead now, and old answers would tell the wrong cause."""
    stage = Stage(monkeypatch)
    stage.then = {
        0: lambda: setattr(stage.watch, "_has_found", True),
        2: lambda: stage.watch.note(_status("")),
        4: lambda: stage.watch.note(_status("b1")),
    }
    stage.run(7)

    assert [1, 2, 3, 4, 1, 2, 3] == stage.counts[:7]


def test_a_new_name_is_asked_for_at_once(monkeypatch):
    """Not when the pause of a minute is over."""
    stage = Stage(monkeypatch, pause=lambda _count: 60.0)
    stage.then = {0: lambda: asyncio.get_running_loop().call_later(0.05, stage.watch.note, _status("b3"))}
    stage.run(2)

    assert stage.asked[1]


def test_a_verdict_that_ends_before_anybody_was_asked_is_explained_all_the_same(monkeypatch):
    """Two machines with one address: neighbours have the right entry again before a busy node has a processor."""
    stage = Stage(monkeypatch)
    stage.then = {0: lambda: stage.watch.note(_status(""))}
    stage.run(1)

    assert [FaultCode.DUPLICATE_ADDRESS] == stage.look(), "somebody else answers for this node's address"


def test_answers_to_another_mac_than_the_advertised_one_are_forgotten(monkeypatch):
    """A card was replaced while its node was suspected: it did not answer for a MAC that it does not have."""
    stage = Stage(monkeypatch)
    heard = {"b1": hellos.hello("b1", seen={"node_macs": (STRANGER,)})}
    later = View(snapshot=_view().snapshot, mesh=_view().mesh, node="b2", hellos=heard, good=None)
    keys = set[object]()
    stage.then = {2: lambda: stage.look(later), 3: lambda: keys.update(stage.watch._rounds)}
    stage.run(4)

    assert ("10.2.0.11", (MAC,)) in keys, "until there are others"
    assert 3 > len(stage.watch._seen(later).answers["10.2.0.11"])
    assert {(STRANGER,)} == {expected for address, expected in stage.watch._rounds if address == "10.2.0.11"}


def test_a_mac_of_long_ago_is_remembered_however_often_the_audit_looks(monkeypatch):
    """Of a card that was replaced, in the neighbour tables of others for a while."""
    stage = Stage(monkeypatch)
    heard = {"b1": hellos.hello("b1", seen={"node_macs": (STRANGER,)})}
    stage.look(View(snapshot=_view().snapshot, mesh=_view().mesh, node="b2", hellos=heard, good=None))
    for _ in range(2 * underlay_watch.MAX_FORMER):
        stage.look()

    assert [STRANGER, MAC] == list(stage.watch._former["b1"])


def test_so_many_are_asked_for_in_a_round_at_most(monkeypatch):
    """Where a switch is broken all nodes of a LAN are suspected."""
    stage = Stage(monkeypatch)
    first = _view().mesh.node[3]
    names = [NodeName(f"x{number}") for number in range(10)]
    nodes = tuple(
        msgspec.structs.replace(first, name=name, node_ip=f"10.2.0.{100 + number}") for number, name in enumerate(names)
    )
    mesh = msgspec.structs.replace(_view().mesh, node=(*_view().mesh.node, *nodes))
    heard = {
        node.name: hellos.hello("b1", seen={"node": node.name, "node_ip": node.node_ip, "node_macs": (MAC,)})
        for node in nodes
    }
    crowd = View(snapshot=_view().snapshot, mesh=mesh, node="b2", hellos=heard, good=None)
    stage.watch._suspects = dict.fromkeys(names)
    stage.then = {0: lambda: stage.look(crowd)}
    stage.run(2)

    assert underlay_watch.MAX_ASKED == len(stage.asked[1])
