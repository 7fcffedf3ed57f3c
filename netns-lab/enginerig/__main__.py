"""`python -m enginerig CONFIG.json`: run until SIGTERM."""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections import Counter, deque
from typing import NoReturn

import msgspec

from enginerig.config import RigConfig, read_config
from enginerig.engine import RigEngine
from enginerig.notes import Lateness, Notes, write_sample
from meshwatchd.adapters.packet import peers as peers_module
from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.peers import ALL_ANSWERS_PER_S, Budgets, Peers
from meshwatchd.adapters.packet.reflector import Reflector
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.process import go_realtime, lock_memory, raise_file_limit, release_memory, settle_memory
from meshwatchd.model.events import Banner, Event
from meshwatchd.model.frames import ToAgent
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import (
    MINUTE,
    DaemonSettings,
    MeshSettings,
    Mode,
    ProbeProfile,
    ProbeSettings,
    Settings,
)
from meshwatchd.model.timers import TIMERS
from meshwatchd.model.topology import Node
from meshwatchd.runtime.agent_link import AgentLink
from meshwatchd.runtime.effects import Effects
from meshwatchd.runtime.loop import Loop
from meshwatchd.wire.auth import MeshKeys, MeshSecret

FLOW_MEMORY = 4 * MINUTE
"""So long every port of the default range can rest at 20 ms; a longer memory makes the product probe more slowly."""


class NoAgent(AgentLink):
    """Nobody to send facts to; the loop runs as it does while an agent is being restarted."""

    def __init__(self, poller: Poller) -> None:
        super().__init__(spawn=_spawn_nobody, poller=poller, counters=Counter(), inbox=deque())

    def send(self, frame: ToAgent) -> None:
        """Dropped: nobody comes who would read it."""

    def deadline(self) -> int | None:
        """Nothing to wait for."""
        return None

    def advance(self, now_ns: int, ahead_ns: int = 0) -> None:
        """Nothing to start."""


class TimedEffects(Effects):
    """The product's effects, which also note when the probes of a turn had left."""

    engine: RigEngine
    departures: Lateness

    def expire(self, now_ns: int) -> None:
        """Called by the loop when everything that a tick asked for has been carried out."""
        if self.engine.due_ns:
            self.departures.note(time.monotonic_ns() - self.engine.due_ns)
            self.engine.due_ns = 0
        super().expire(now_ns)


def main() -> int:
    """Put the parts together as runtime.engine_process does, and run."""
    config = read_config(sys.argv[1])
    if config.answers_per_s:
        _allow(config.answers_per_s)
    settings = _settings(config)
    counters: Counter[str] = Counter()
    inbox: deque[Event] = deque()
    poller, notes = Poller(), Notes(config.events)
    if config.is_realtime and not go_realtime():
        notes.tell("not-realtime", time.monotonic_ns())
    rng = random.Random(int.from_bytes(os.urandom(8)))
    engine = RigEngine(config, settings, rng=rng, notes=notes, now=time.monotonic_ns())
    # What a mesh has no counterpart of must not count as the product's memory.
    config = msgspec.structs.replace(config, sessions=())
    agent = NoAgent(poller)
    effects = TimedEffects(
        settings=settings,
        secrets=(MeshSecret(secret=bytes.fromhex(config.secret_hex)),),
        epoch=time.time_ns(),
        poller=poller,
        inbox=inbox,
        counters=counters,
        agent=agent,
        max_files=raise_file_limit(),
    )
    effects.engine, effects.departures = engine, Lateness()
    loop = Loop(
        engine=engine,
        poller=poller,
        effects=effects,
        agent=agent,
        inbox=inbox,
        counters=counters,
        interval_ns=config.interval_ns or TIMERS[ProbeProfile(config.profile)].interval_ns,
        notify=_ignore,
        reload=_nothing,
        settle=_nothing,
        slim=_nothing,
    )
    _sample_when_asked(config, poller, effects)
    _listen(effects, config)
    crowd = [_identity(config, name, port, poller) for name, port in config.identities]
    notes.tell("identities", time.monotonic_ns(), count=len(crowd))
    # As runtime.engine_process does when it is ready: it is the memory of the product that is measured.
    settle_memory()
    release_memory()
    lock_memory()
    loop.run()
    return 0


def _spawn_nobody(_end: socket.socket) -> NoReturn:
    msg = "the rig has no agent to start"
    raise AssertionError(msg)


def _settings(config: RigConfig) -> Settings:
    nodes = tuple(
        Node(name=NodeName(name), location=LocationName("rig"), node_ip="0.0.0.0", pod_cidr="", overlay_ip="")
        for name in (config.node, *config.peers)
    )
    return Settings(
        daemon=DaemonSettings(node=config.node, mode=Mode.ENFORCE),
        probe=ProbeSettings(profile=ProbeProfile(config.profile), flow_memory=FLOW_MEMORY),
        mesh=MeshSettings(node=nodes),
    )


def _allow(answers_per_s: int) -> None:
    """Raise the limits before the first bucket is made."""
    for name in ("PEER_SESSIONS", "ALL_ANSWERS_PER_S"):
        vars(peers_module)[name] = answers_per_s


def _listen(effects: TimedEffects, config: RigConfig) -> None:
    """A node that only answers has no sessions whose ports the effects would listen on."""
    if config.listen:
        # The parts of the product that no command reaches; the ports are opened again with each housekeeping round.
        effects._ports.want(config.listen, time.monotonic_ns())  # noqa: SLF001
        effects.retry()


def _identity(config: RigConfig, name: str, port: int, poller: Poller) -> Reflector:
    """One more node that answers, with keys and limits of its own; what it is told goes nowhere."""
    reflector = Reflector(
        poller=poller,
        peers=Peers(
            MeshKeys(name, [MeshSecret(secret=bytes.fromhex(config.secret_hex))]),
            map(NodeName, config.peers),
            Budgets(config.answers_per_s or ALL_ANSWERS_PER_S, config.answers_per_s or ALL_ANSWERS_PER_S),
        ),
        dictionary=translate.Dictionary([NodeName(name), *map(NodeName, config.peers)]),
        own=translate.own_state(Banner(), node=NodeName(name), epoch=time.time_ns()),
        counters=Counter(),
        emit=_ignore,
        routed_port=0,
    )
    reflector.listeners.listen((port,))
    return reflector


def _sample_when_asked(config: RigConfig, poller: Poller, effects: TimedEffects) -> None:
    """A byte in the FIFO asks for a sample; signals belong to the loop, which ends for those it does not know."""
    ask = f"{config.samples}.ask"
    os.mkfifo(ask)
    fifo = os.open(ask, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def write(fd: int) -> None:
        os.read(fd, 64)
        write_sample(
            config.samples,
            counters=effects.counters(),
            states=effects.engine.states(),
            departures=effects.departures,
            wakeups=effects.engine.wakeups,
        )

    poller.add(fifo, write)


def _nothing() -> None:
    """The rig is not reloaded, and never ready: it has no agent to wait for."""


def _ignore(_told: object) -> None:
    """There is nobody to tell."""


if __name__ == "__main__":
    sys.exit(main())
