import asyncio
import selectors

from meshwatchd.runtime.debounce import pause_s, settle


class Jumping(selectors.DefaultSelector):
    """Waits in no time: the clock jumps to where the wait would end."""

    now = 0.0

    def select(self, timeout=None):
        """What is ready at once."""
        self.now += timeout or 0
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while it waits."""

    def __init__(self):
        self.clock = Jumping()
        super().__init__(self.clock)

    def time(self):
        """Virtual seconds."""
        return self.clock.now


def settled_after(*changes_s, urgent_s=None):
    """When a wait of 50 ms of quiet and at most 500 ms is over, if changes come at these instants."""
    loop = VirtualLoop()

    async def scenario():
        changed = asyncio.Event()
        for instant in changes_s:
            loop.call_at(instant, changed.set)
        await settle(
            changed, quiet_s=0.05, limit_s=0.5, is_urgent=lambda: urgent_s is not None and loop.time() >= urgent_s
        )
        return round(loop.time(), 3)

    try:
        return loop.run_until_complete(scenario())
    finally:
        loop.close()


def test_one_change_is_told_after_the_quiet():
    """Nothing else is coming."""
    assert 0.05 == settled_after()


def test_a_swarm_is_told_once():
    """Each change starts the quiet anew."""
    assert 0.13 == settled_after(0.04, 0.08)


def test_changes_without_end_are_told_all_the_same():
    """Nobody is kept in the dark for longer than the limit."""
    assert 0.5 == settled_after(*(number / 100 for number in range(100)))


def test_what_is_no_part_of_a_swarm_is_told_at_once():
    """Among changes without end, and when it was there before anybody waited."""
    assert 0.07 == settled_after(*(number / 100 for number in range(100)), urgent_s=0.065)
    assert 0.0 == settled_after(urgent_s=0)


def test_dear_work_is_done_seldom_and_never_given_up():
    """A look of 30 ms leaves six seconds of rest; one that a busy machine held up for half a second, not a hundred."""
    assert 6.0 == pause_s(0.03, factor=200, longest_s=10.0)
    assert 10.0 == pause_s(0.5, factor=200, longest_s=10.0)
