"""The LAN is asked while somebody on it is suspected, and never otherwise."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from meshwatchd.core.audit.overlay_entries import View
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import Link
from meshwatchd.model.underlay import ArpAnswers
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


def _play(*culprits, view=None):
    """What is asked, and what is found in the end; each culprit's verdict stands for a moment."""
    asked: list[tuple[str, str, str, tuple[str, ...]]] = []

    async def answer(device, own_mac, address, expected):
        asked.append((device, own_mac, address, expected))
        macs = (MAC, STRANGER) if address == "10.2.0.11" else ()
        return ArpAnswers(macs=macs, asked=4, heard=4, heard_alone=4)

    async def scenario():
        watch = UnderlayWatch(lambda: (), asker=answer)
        list(watch.findings(_view(), SECOND))
        for culprit in culprits:
            watch.note(_status(culprit))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await watch.watch(lambda: None)
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
    asked, found = _play("b1", "")

    assert (2, []) == (len(asked), found)


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
