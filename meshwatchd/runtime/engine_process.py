"""Puts the engine process together: core, adapters, loop, and the agent as its child."""

from __future__ import annotations

import os
import random
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meshwatchd.adapters import sdnotify
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.process import (
    InstanceLock,
    go_realtime,
    next_epoch,
    raise_file_limit,
    settle_memory,
)
from meshwatchd.core.engine import Engine
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.events import Event
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import TIMERS, Settings
from meshwatchd.profiles import PROFILES
from meshwatchd.runtime.agent_link import AgentLink
from meshwatchd.runtime.effects import Effects
from meshwatchd.runtime.loop import Loop
from meshwatchd.runtime.stderr import say
from meshwatchd.runtime.supervise import spawn_agent

EXIT_OK: Final = 0
EXIT_NOT_ALONE: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What was read before the engine starts.

    Attributes:
        config: the file the settings came from; the agent reads it again.
        secret: the mesh key, 32 bytes.
        stamp_key: shared with STAMP senders of other makers, if any.
    """

    config: Path
    settings: Settings
    secret: bytes
    stamp_key: bytes | None = None


def run(boot: Boot) -> int:
    """Run the engine until it is told to stop; returns the exit status.

    Raises:
        ConfigError: a rule, table or device that the configuration claims belongs to somebody else.
    """
    lock = InstanceLock(Path(boot.settings.daemon.runtime_dir) / "engine.lock")
    holder = lock.acquire()
    if holder is not None:
        reason = f"process {holder} is the meshwatchd of this node"
        say("start.refused", level="error", reason=reason, pid=holder)
        return EXIT_NOT_ALONE
    try:
        loop, effects = _build(boot)
        loop.run()
    finally:
        lock.release()
    if effects.refusal:
        raise ConfigError(str(boot.config), "kernel", effects.refusal, "nothing was changed")
    return EXIT_OK


def _build(boot: Boot) -> tuple[Loop, Effects]:
    settings = boot.settings
    counters: Counter[str] = Counter()
    inbox: deque[Event] = deque()
    poller = Poller()
    epoch, is_recorded = next_epoch(Path(settings.daemon.state_dir) / "epoch")
    counters["epochs-unrecorded"] += not is_recorded
    if not go_realtime():
        say("priority.refused", remedy="allow CAP_SYS_NICE or LimitRTPRIO=1; timers are late under load")
    agent = AgentLink(
        spawn=spawn_agent(boot.config),
        poller=poller,
        counters=counters,
        inbox=inbox,
    )
    effects = Effects(
        settings=settings,
        secret=boot.secret,
        epoch=epoch,
        poller=poller,
        inbox=inbox,
        counters=counters,
        agent=agent,
        max_files=raise_file_limit(),
        stamp_key=boot.stamp_key,
    )
    engine = Engine(
        settings=settings,
        node=NodeName(settings.daemon.node),
        rng=random.Random(int.from_bytes(os.urandom(16))),
        epoch=epoch,
        profiles=PROFILES,
    )
    loop = Loop(
        engine=engine,
        poller=poller,
        effects=effects,
        agent=agent,
        inbox=inbox,
        counters=counters,
        interval_ns=TIMERS[settings.probe.profile].interval_ns,
        notify=sdnotify.notify,
    )
    settle_memory()
    return loop, effects
