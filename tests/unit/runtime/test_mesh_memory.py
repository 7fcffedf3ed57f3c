"""From what is known to the file and back."""

from __future__ import annotations

import asyncio

from meshwatchd.adapters.identity import NodeIdentity
from meshwatchd.adapters.storage import mesh_file
from meshwatchd.core.membership.replay_protection import Acquaintances, Judgement
from meshwatchd.core.membership.roster import Roster
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND, DaemonSettings, Settings
from meshwatchd.runtime.clocks import Clocks
from meshwatchd.runtime.mesh_memory import MeshKeeper, Moment, restore, to_keep
from meshwatchd.runtime.pair_keys import PairKeys
from meshwatchd.wire.hello import Greeting, Stamp
from tests.support import hellos
from tests.support.discovery_stage import Time

A1, B1 = NodeName("a1"), NodeName("b1")
WALL_NS = 1_700_000_000 * SECOND


def _node(folder):
    roster = Roster(Settings(daemon=DaemonSettings(node=A1)))
    pairs = PairKeys(A1, folder, forget_ns=roster.forget_ns, tell=lambda _bindings: None)
    return {"roster": roster, "known": Acquaintances(1), "pairs": pairs}


def test_a_process_goes_on_where_the_one_before_it_ended(tmp_path):
    """Hellos, proven epochs and identities."""
    before, now = _node(tmp_path), 1000 * SECOND
    before["known"].restore(B1, 7, 3)
    before["roster"].hear(hellos.hello("b1"), now)
    before["pairs"].hear(
        Greeting(sender=B1, stamp=Stamp(7, 3), hello=hellos.hello("b1"), identity=NodeIdentity(b"b" * 32).public), now
    )
    kept = to_keep(A1, Moment(now, WALL_NS), **before)

    after = _node(tmp_path)
    restore(kept, Moment(5 * SECOND, WALL_NS + SECOND), **after)

    assert [B1] == list(after["roster"].peers)
    assert Judgement.REPEATED is after["known"].judge(B1, (7, 3), answers=None, now=0)
    unsigned = Greeting(sender=B1, stamp=Stamp(8, 1), hello=hellos.hello("b1"))
    assert not after["pairs"].accepts(unsigned, 5 * SECOND)


def test_what_is_too_old_is_left_in_the_file(tmp_path):
    """Forgetting goes by the wall clock, since the machine may have been off."""
    before = _node(tmp_path)
    before["known"].restore(B1, 7, 3)
    before["roster"].hear(hellos.hello("b1"), 0)
    kept = to_keep(A1, Moment(0, WALL_NS), **before)

    after = _node(tmp_path)
    restore(kept, Moment(0, WALL_NS + after["roster"].forget_ns + 1), **after)

    assert {} == after["roster"].peers


def test_the_file_follows_a_change_within_seconds_and_who_was_heard_within_minutes(tmp_path):
    """And is written at the end, if anything has changed since."""
    time, before = Time(), _node(tmp_path)
    clocks = Clocks(monotonic_ns=time.monotonic_ns, wall_ns=time.wall_ns)
    complaints: list[str] = []

    def age_of_file():
        kept, _ = mesh_file.load(tmp_path, A1)
        return None if kept is None else time.wall_ns() - kept.saved_ns

    async def scenario():
        keeper = MeshKeeper(tmp_path, A1, **before, clocks=clocks, complain=complaints.append)

        async def wait(seconds):
            time.now += seconds * SECOND
            keeper.save_if_due()
            await keeper._writer.close()
            return age_of_file()

        assert keeper.deadline() is None
        assert await wait(5) is None
        keeper.is_unsaved = True
        assert time.now == keeper.deadline()
        assert 0 == await wait(0)
        keeper.is_unsaved = True
        assert time.now + 5 * SECOND == keeper.deadline()
        assert 4 * SECOND == await wait(4)
        assert 0 == await wait(1)
        assert 599 * SECOND == await wait(599)
        assert 0 == await wait(1)
        time.now += SECOND
        await keeper.close()
        assert SECOND == age_of_file()
        keeper.is_unsaved = True
        await keeper.close()
        assert 0 == age_of_file()

    asyncio.run(scenario())
    assert [] == complaints
