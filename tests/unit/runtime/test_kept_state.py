"""The state of an earlier process of this node."""

from __future__ import annotations

import asyncio

from meshwatchd.model.events import StateRestored
from meshwatchd.model.policy_state import PolicyState
from meshwatchd.runtime.kept_state import KeptState
from meshwatchd.runtime.logging import make_log


def test_what_was_kept_is_what_the_next_process_is_told(tmp_path):
    """Nothing before the first time."""
    log = make_log("json", level="error")

    async def scenario():
        first = KeptState(tmp_path, log)
        assert first.restore() is None
        first.keep(PolicyState())
        await first.close()

    asyncio.run(scenario())

    assert StateRestored(state=PolicyState()) == KeptState(tmp_path, log).restore()
