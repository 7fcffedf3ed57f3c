import errno
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from typing import cast

import msgspec

from enginerig import __main__ as rig_process
from enginerig.__main__ import TimedEffects
from enginerig.config import RigConfig, RigSession
from enginerig.engine import RigEngine
from enginerig.notes import Notes
from meshwatchd.adapters.poller import Poller
from meshwatchd.model.events import Banner, ReplyReceived, Tick
from meshwatchd.model.outputs import SendProbe
from meshwatchd.runtime.effects import Effects
from meshwatchd.runtime.loop import HOUSEKEEPING_NS
from meshwatchd.wire.auth import MeshSecret
from netnslab.bench.rig import MEMBERS, legs
from netnslab.waiting import wait_until
from tests.support.packet_node import free_port

MS = 1_000_000
SECRET = bytes(32)


def test_four_sessions_share_a_leg():
    """Ten pairs of addresses make two full legs and half a third."""
    sessions = legs([f"10.0.1.{n}" for n in range(10)], [f"10.0.2.{n}" for n in range(10)], is_pinned=True)

    assert [0] * MEMBERS + [1] * MEMBERS + [2] * 2 == [session.group for session in sessions]
    assert all(session.is_pinned for session in sessions)
    assert ("10.0.1.3", "10.0.2.3") == (sessions[3].source, sessions[3].destination)


class _Told:
    """What the rig's engine tells, instead of a file of notes."""

    def __init__(self) -> None:
        self.at_ns: dict[str, int] = {}

    def tell(self, event, at_ns, **_fields):
        """Note when something was told first."""
        self.at_ns.setdefault(event, at_ns)


def test_a_silent_leg_is_condemned_by_the_parts_of_the_product(tmp_path):
    """The rig stands in for what the product's suspicion asks of its pair: if that asks for more, this shows it."""
    sessions = tuple(_session(f"127.0.0.{number}", group=0) for number in range(1, MEMBERS + 1))
    config = _config(tmp_path, sessions=sessions, interval_ns=50 * MS)
    told, now = _Told(), 1
    engine = RigEngine(config, rig_process._settings(config), rng=random.Random(1), notes=cast("Notes", told), now=now)

    now = _run(engine, now, until_ns=2_000 * MS, is_answered=True)
    assert "down" not in told.at_ns
    _run(engine, now, until_ns=now + 1_000 * MS, is_answered=False)

    assert 0 < told.at_ns["all-up"] < now < told.at_ns["down"] < now + 500 * MS


def test_a_rig_that_only_answers_goes_on_listening(tmp_path):
    """The product opens and closes its listeners with each housekeeping round: those of the rig are among them."""
    port = free_port()
    config, poller = _config(tmp_path, listen=(port,)), Poller()
    effects = Effects(
        settings=rig_process._settings(config),
        secrets=(MeshSecret(secret=SECRET),),
        epoch=1,
        poller=poller,
        inbox=deque(),
        counters=Counter(),
        agent=rig_process.NoAgent(poller),
        max_files=256,
    )
    try:
        rig_process._listen(cast("TimedEffects", effects), config)
        effects.retry()

        assert _is_taken(port)
    finally:
        effects.close()


def test_a_rig_watches_until_it_is_told_to_end(tmp_path):
    """The process as benchmarks start it, through a housekeeping round; nobody answers what it asks over loopback."""
    session = RigSession(
        peer="b1", group=0, is_pinned=False, path=0, source="127.0.0.1", destination="127.0.0.1", port=free_port()
    )
    config = _config(tmp_path, sessions=(session,) * MEMBERS, interval_ns=50 * MS)
    path = tmp_path / "rig.json"
    path.write_bytes(msgspec.json.encode(config, enc_hook=str))
    config.events.touch()
    rig = subprocess.Popen([sys.executable, "-m", "enginerig", str(path)])
    try:
        wait_until(lambda: "started" in config.events.read_text(), what="the rig to start", timeout_s=20)
        began_ns = time.monotonic_ns()
        wait_until(lambda: time.monotonic_ns() - began_ns > HOUSEKEEPING_NS + 200 * MS, what="a round", timeout_s=20)
    finally:
        rig.send_signal(signal.SIGTERM)
        status = rig.wait(20)

    assert 0 == status


def _run(engine, now, *, until_ns, is_answered):
    """Give the engine its ticks and, half a millisecond later, its answers."""
    while (due := engine.deadline()) is not None and due <= until_ns:
        now = max(now, due)
        outputs = engine.handle(Tick(), now)
        probes = [output for output in outputs if isinstance(output, SendProbe)]
        now += MS // 2 if probes and is_answered else 0
        for probe in probes if is_answered else ():
            reply = ReplyReceived(session=probe.session, seq=probe.seq, rtt_ns=MS // 2, peer_epoch=1, banner=Banner())
            engine.handle(reply, now)
    return now


def _session(destination, *, group):
    return RigSession(
        peer="b1", group=group, is_pinned=False, path=0, source="127.0.0.1", destination=destination, port=18620
    )


def _config(directory, **fields):
    return RigConfig(
        node="a1", peers=("b1",), secret_hex=SECRET.hex(), events=directory / "e", samples=directory / "s", **fields
    )


def _is_taken(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        try:
            other.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
