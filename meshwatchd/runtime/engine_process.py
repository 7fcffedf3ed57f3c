"""Puts the engine process together: core, adapters, loop, and the agent as its child."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from meshwatchd.runtime.lean import leave_out, stand_in

    leave_out("typing_extensions")  # of msgspec, and with it inspect, ast and dis: 1.2 MiB
    # Of msgspec and pathlib, which read nothing of them here: 0.4 MiB.
    stand_in("msgspec.inspect", "msgspec.toml", "msgspec.yaml", "msgspec._json_schema", "urllib", "urllib.parse")

import os
import random
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

from meshwatchd.adapters import sdnotify
from meshwatchd.adapters.namespace_lock import NamespaceLock, daemons, names_of
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.process import (
    LOCK_NAME,
    InstanceLock,
    go_realtime,
    lock_memory,
    next_epoch,
    raise_file_limit,
    release_memory,
    settle_memory,
    unlock_memory,
)
from meshwatchd.adapters.storage.journal.writer import Journal
from meshwatchd.core.engine import Engine
from meshwatchd.model.decoding import refusals
from meshwatchd.model.events import Event
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import Settings
from meshwatchd.model.timers import TIMERS
from meshwatchd.profiles import PROFILES
from meshwatchd.runtime.agent_link import AgentLink
from meshwatchd.runtime.boot import EXIT_BUG, EXIT_NOT_ALONE, EXIT_OK, Boot, SharedBoot, take_over
from meshwatchd.runtime.effects import Effects
from meshwatchd.runtime.loop import Loop
from meshwatchd.runtime.reload import Reloader, spawn_reader
from meshwatchd.runtime.share import share_of
from meshwatchd.runtime.stderr import say
from meshwatchd.runtime.supervise import spawn_agent
from meshwatchd.wire.auth import SECRET_BYTES, MeshSecret


def main(argv: Sequence[str] | None = None) -> int:
    """Run on what `runtime.main` has read and handed over in a descriptor; returns the exit status."""
    (fd,) = sys.argv[1:] if argv is None else argv
    try:
        return run(take_over(int(fd)))
    # The one place where everything is caught: whoever supervises us must see a status and one line.
    except Exception as error:  # noqa: BLE001
        import traceback  # noqa: PLC0415 - half a MiB that an engine in health never needs

        say("engine.crashed", level="error", error=repr(error), trace=traceback.format_exc())
        return EXIT_BUG


def run(boot: Boot) -> int:
    """Run the engine until it is told to stop; returns the exit status."""
    lock = InstanceLock(Path(boot.settings.daemon.runtime_dir) / LOCK_NAME)
    holder = lock.acquire()
    if holder is not None:
        reason = f"process {holder} is the meshwatchd of this node"
        say("start.refused", level="error", reason=reason, pid=holder)
        return EXIT_NOT_ALONE
    names = NamespaceLock(names_of(port=boot.settings.probe.port, protocol=boot.settings.kernel.protocol))
    if not _is_alone(names):
        lock.release()
        return EXIT_NOT_ALONE
    refusals.report = lambda error: say("input.refused", source=error.source, reason=error.reason, remedy=error.remedy)
    try:
        _build(boot).run()
    finally:
        names.release()
        lock.release()
    return EXIT_OK


def _is_alone(names: NamespaceLock) -> bool:
    """Whether no other daemon, of other directories, has the port or the mark; says who has."""
    holders = names.acquire()
    first = daemons(holders)
    if first is None:
        for each in holders:
            say(
                "start.unguarded",
                name=each.name,
                pid=each.pid,
                uid=each.uid,
                reason="a process that is no meshwatchd has it",
            )
        return True
    names.release()
    what, _, value = first.name.removeprefix("meshwatchd/").partition("/")
    reason = f"process {first.pid} is a meshwatchd of this network namespace with the same {what} = {value}"
    remedy = f"stop it, or give this one another {what}"
    say("start.refused", level="error", reason=reason, pid=first.pid, remedy=remedy)
    return False


def _build(boot: Boot) -> Loop:
    settings = boot.settings
    counters: Counter[str] = Counter()
    inbox: deque[Event] = deque()
    poller = Poller()
    epoch, is_recorded = next_epoch(Path(settings.daemon.state_dir) / "epoch")
    counters["epochs-unrecorded"] += not is_recorded
    if not go_realtime():
        say("priority.refused", remedy="allow CAP_SYS_NICE or LimitRTPRIO=1; timers are late under load")
    shared = SharedBoot(boot)
    agent = AgentLink(
        spawn=spawn_agent(shared.fd),
        poller=poller,
        counters=counters,
        inbox=inbox,
    )
    effects = Effects(
        settings=settings,
        # Without a mesh there is nobody to share a secret with, and nobody is answered.
        secrets=boot.secrets or (MeshSecret(secret=os.urandom(SECRET_BYTES)),),
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
    reloader = Reloader(
        poller=poller,
        boot=boot,
        spawn=spawn_reader(boot.config),
        use_secrets=effects.use_secrets,
        share=shared.replace,
        tell=effects.state,
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
        reload=reloader.start,
        settle=lambda: _settle(counters),
        slim=lambda: _slim(counters),
        journal=_journal(settings, counters),
        share=share_of(len(os.sched_getaffinity(0))),
    )
    settle_memory()
    return loop


def _journal(settings: Settings, counters: Counter[str]) -> Journal | None:
    """In the runtime directory, which lies in memory: no disk is worn out by probes."""
    if not settings.daemon.journal_mib:
        return None
    return Journal(Path(settings.daemon.runtime_dir) / "journal", settings.daemon.journal_mib << 20, counters)


def _settle(counters: Counter[str]) -> None:
    """Everything that is needed is here: keep it from being paged."""
    settle_memory()
    counters["memory-locked"] = int(lock_memory())


def _slim(counters: Counter[str]) -> None:
    """Give back what only the start needed, and keep the rest as it was."""
    unlock_memory()
    release_memory()
    counters["memory-locked"] = int(lock_memory())


if __name__ == "__main__":
    # What is buffered is written; what is left of the heap is the kernel's to reclaim.
    status = main()
    sys.stdout.flush()
    os._exit(status)
