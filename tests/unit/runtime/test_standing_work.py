"""When standing objects are put in place or back, by virtual seconds."""

import asyncio
import contextlib
import dataclasses

import msgspec
import pytest

from meshwatchd.adapters.netlink.news import Lost
from meshwatchd.model.errors import KernelError
from meshwatchd.model.events import ObjectLost, Provisioned
from meshwatchd.model.plan import Provision, Route, Rule
from meshwatchd.model.settings import KernelSettings
from meshwatchd.model.snapshot import ForeignObject, Link, Snapshot
from meshwatchd.runtime import beat
from meshwatchd.runtime.provisioning import Standing
from meshwatchd.runtime.standing_work import AUDIT_S, Counterparts, StandingWork
from tests.support.fake_kernel import FakeKernel
from tests.unit.runtime.test_debounce import VirtualLoop
from tests.unit.runtime.test_provisioning import FakeDevices

RULE = Rule(priority=5400, table=7799)
TEXT = f"rule {RULE.render()}"
KERNEL = KernelSettings()
TAKEN = "table 7701 is not ours"
REFUSED = Provisioned(is_complete=False, errors=(TAKEN,), is_pending=True)


class Room:
    """Objects that are put in place at once, and everything that is told, with its virtual second.

    Args:
        missing: what each look finds missing, one after the other.
    """

    def __init__(self, *missing):
        self.loop, self.missing = VirtualLoop(), list(missing)
        self.taken: list[str] = []
        self.sent: list[object] = []
        self.logged: list[str] = []
        self.did: list[tuple[float, str]] = []
        self.refusal: KernelError | None = None
        self.news: Provisioned | None = None
        self.losses: asyncio.Queue[Lost] = asyncio.Queue()
        others = Counterparts(
            losses=self.losses,
            collisions=lambda: self.taken,
            public_key=lambda: "key",
            send=self.sent.append,
        )
        self.work = StandingWork(self, others, self)  # type: ignore[arg-type]

    async def ensure(self, _wanted):
        """As `Standing.ensure`."""
        self._do("ensure")
        return Provisioned(is_complete=True)

    async def restore(self):
        """As `Standing.restore`."""
        self._do("restore")
        return (self.missing.pop(0) if self.missing else []), self.news

    def concerns(self, lost):
        """As `Standing.concerns`."""
        return lost.rule == RULE

    def info(self, event, **_fields):
        """As a logger."""
        self.logged.append(event)

    def _do(self, what):
        self.did.append((round(self.loop.time(), 2), what))
        if self.refusal is not None:
            raise self.refusal

    def live(self, seconds, *acts):
        """For so long; each act is a second and what is done then."""

        async def scenario():
            for at, act in acts:
                self.loop.call_at(at, act)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*self.work.duties())

        try:
            self.loop.run_until_complete(scenario())
        finally:
            self.loop.close()
        return self


@pytest.fixture(autouse=True)
def _steady_beat(monkeypatch):
    monkeypatch.setattr(beat, "rest", asyncio.sleep)


def snapshot(*devices, **parts):
    """A kernel with these devices."""
    links = tuple(Link(name=name, index=at, kind="", is_up=True, mtu_bytes=1420) for at, name in enumerate(devices))
    return Snapshot(links=links, **parts)


def test_what_is_asked_for_is_put_in_place_and_told():
    """Once; and looked at again when an audit is due."""
    room = Room()
    room.live(AUDIT_S + 1, (1, lambda: room.work.request(Provision())))
    assert [(1, "ensure"), (AUDIT_S, "restore")] == room.did
    assert [Provisioned(is_complete=True)] == room.sent
    assert ["provision.applied"] == room.logged


def test_nothing_is_put_where_somebody_elses_object_is():
    """The engine hears what it is; what was put before is looked after all the same."""
    room = Room()
    room.taken = [TAKEN]
    room.live(2, (1, lambda: room.work.request(Provision())))
    assert [(1, "restore")] == room.did
    assert [REFUSED] == room.sent


def test_what_was_refused_is_put_as_soon_as_the_place_is_free():
    """The snapshot that shows the stranger's object gone is reason enough."""
    room = Room()
    room.taken = [TAKEN]
    stranger = ForeignObject(what=TAKEN, owner_protocol=4)

    def free():
        room.taken = []
        room.work.compare(snapshot(collisions=(stranger,)), snapshot(), KERNEL)

    room.live(AUDIT_S + 1, (1, lambda: room.work.request(Provision())), (2, free))
    assert [(1, "restore"), (2, "ensure"), (AUDIT_S, "restore")] == room.did
    assert [REFUSED, Provisioned(is_complete=True)] == room.sent


def test_what_was_refused_is_tried_again_when_an_audit_is_due_and_told_once():
    """Nothing has said that the place is free; another object in it is news."""
    room = Room()
    room.taken = [TAKEN]
    other = "rule 5470 is not ours"
    room.live(
        3 * AUDIT_S + 1,
        (1, lambda: room.work.request(Provision())),
        (AUDIT_S + 1, lambda: room.taken.append(other)),
        (2 * AUDIT_S + 1, room.taken.clear),
    )
    assert [(1, "restore"), (AUDIT_S, "restore"), (2 * AUDIT_S, "restore"), (3 * AUDIT_S, "ensure")] == room.did
    both = msgspec.structs.replace(REFUSED, errors=(TAKEN, other))
    assert [REFUSED, both, Provisioned(is_complete=True)] == room.sent


def test_news_of_what_was_put_before_is_none_of_what_was_refused():
    """A link of the former mesh came up at last: the standbys of this one do not stand."""
    room = Room()
    room.taken, room.news = [TAKEN], Provisioned(is_complete=True)
    room.live(2, (1, lambda: room.work.request(Provision())))
    assert [REFUSED, Provisioned(is_complete=True, is_pending=True)] == room.sent


def test_a_removal_is_told_before_it_is_mended_and_only_once():
    """Also where the look finds more missing, of which the kernel has said nothing."""
    room = Room([TEXT, "route 10.2.0.0/16 dev mw0"])
    room.live(2, (1, lambda: room.losses.put_nowait(Lost(text=TEXT, rule=RULE))))
    assert [(1, "restore")] == room.did
    assert [ObjectLost(what=TEXT), ObjectLost(what="route 10.2.0.0/16 dev mw0")] == room.sent


def test_the_loss_of_what_nobody_here_wants_is_no_work():
    """Such as an override, which is the engine's to put back."""
    room = Room()
    room.live(2, (1, lambda: room.losses.put_nowait(Lost(text="rule 5460", rule=Rule(priority=5460, table=7701)))))
    assert ([], []) == (room.did, room.sent)


def test_a_refusal_is_told_and_the_work_goes_on():
    """With the kernel's words."""
    room = Room()
    room.refusal = KernelError("add a rule", 1, "not permitted")
    room.live(3, *((at, lambda: room.work.request(Provision())) for at in (1, 2)))
    assert [(1, "ensure"), (2, "ensure")] == room.did
    assert 2 == len([each for each in room.sent if isinstance(each, Provisioned) and each.is_pending])


@pytest.mark.parametrize(
    ("before", "after", "is_look"),
    [
        (None, snapshot(), True),
        (snapshot("mw0", "eth0"), snapshot("eth0"), True),
        (snapshot("mw0", "eth0"), snapshot("mw0"), False),
        (snapshot(rules=(RULE,)), snapshot(), True),
        (snapshot(), snapshot(), False),
    ],
)
def test_only_a_change_of_what_is_ours_is_looked_at(before, after, is_look):
    """Devices of others come and go all day."""
    room = Room()
    room.live(2, (1, lambda: room.work.compare(before, after, KERNEL)))
    assert ([(1, "restore")] if is_look else []) == room.did


def test_what_has_to_stand_no_longer_beside_goes_where_the_place_is_not_free_as_well():
    """The relay has died, and somebody's rule is in a place of ours: nothing is put, and packets go their own way."""
    kernel, beside, room = FakeKernel("eth0"), [Provision()], Room()
    standing = Standing(kernel, FakeDevices(kernel), KERNEL, lambda: 0, log=room)  # type: ignore[arg-type]
    others = dataclasses.replace(room.work._others, beside=lambda: beside[0])
    room.work = StandingWork(standing, others, room)  # type: ignore[arg-type]
    led = Provision(
        routes=(Route(dst="10.82.0.11/32", table=7797, dev="eth0", via="10.81.0.12"),),
        rules=(Rule(priority=5410, table=7797, iif="lo", dport=(8472, 8472)),),
    )
    later, held = Provision(rules=(RULE, Rule(priority=5411, table=7701))), []

    def change(found, *taken):
        beside[0], room.taken = found, list(taken)
        room.work.renew()

    def look():
        held.append(([each.rule for each in kernel.held_rules], len(kernel.held_routes)))

    def ask():
        room.taken = [TAKEN]
        room.work.request(later)

    room.live(
        10,
        (1, lambda: room.work.request(Provision(rules=(RULE,)))),
        *((2, lambda: change(led)), (3, look)),
        *((4, ask), (5, lambda: change(Provision(), TAKEN)), (6, look)),
        *((7, lambda: change(Provision())), (8, look)),
    )
    assert [([RULE, *led.rules], 1), ([RULE], 0), (list(later.rules), 0)] == held
    assert not standing.concerns(Lost(text="a rule", rule=led.rules[0]))


def test_what_stands_beside_is_put_with_what_the_engine_wants_and_renewed_without_it():
    """Not before the engine has asked, nor while somebody else's object is in a place of ours."""
    wanted, beside = Provision(rules=(RULE,)), [Provision()]
    put = []

    class Beside(Room):
        async def ensure(self, asked):
            put.append(asked)
            return await super().ensure(asked)

    room = Beside()
    room.work._others = dataclasses.replace(room.work._others, beside=lambda: beside[0])
    assert not room.work.is_armed
    other = Rule(priority=5410, table=7796, iif="lo", dport=(19_109, 19_109))

    def change():
        beside[0] = Provision(rules=(other,))
        room.work.renew()

    room.live(4, (1, room.work.renew), (2, lambda: room.work.request(wanted)), (3, change))
    assert [(2, "ensure"), (3, "ensure")] == room.did
    assert [(RULE,), (RULE, other)] == [each.rules for each in put]
    assert room.work.is_armed
