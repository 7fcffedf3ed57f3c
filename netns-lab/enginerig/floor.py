"""`python -m enginerig.floor CONFIG.json`: the packets of a rig and no engine, until SIGTERM.

What no engine can leave out: packets are signed, sent, received and verified by the product's own functions, in the
batches that the product's loop makes. Nothing is scheduled, matched, remembered, limited or judged. This is the least
that an engine in Python takes, and what the product takes beyond it is the price of its work.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from enginerig.config import RigConfig, RigSession, read_config
from enginerig.notes import Lateness, Notes, write_sample
from meshwatchd.adapters.packet.address import pack_address
from meshwatchd.adapters.packet.mmsg import ReceiveBatch, SendBatch
from meshwatchd.adapters.packet.reflector import BATCH
from meshwatchd.adapters.packet.sockets import PACKET_BYTES, open_listener, open_probe
from meshwatchd.adapters.packet.stamps import STAMP_BYTES, NtpClock
from meshwatchd.adapters.process import go_realtime, settle_memory
from meshwatchd.core.probing.grid import LEAST_GRID_PARTS
from meshwatchd.model.ids import Layer
from meshwatchd.runtime.loop import LINGER_NS, MAX_REST_NS
from meshwatchd.wire.auth import MeshKeys, MeshSecret, PairKey
from meshwatchd.wire.mesh_tlv import OwnState
from meshwatchd.wire.mould import Mould, cut, is_signed
from meshwatchd.wire.stamp import HMAC_OFFSET
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate

LISTENER_CONTROL_BYTES: Final = 128
"""Room for what a listener's packets come with; it is not looked at."""


class Asker:
    """Sends probes and verifies their answers.

    Args:
        config: with sessions of one source address.

    Attributes:
        sent, verified: packets since the start.
    """

    def __init__(self, config: RigConfig) -> None:
        own, keys = _identity(config)
        self._socket = open_probe(config.sessions[0].source, 0)
        self._probes = [
            (_template(number, session, own, keys.add_peer(session.peer)), (session.destination, session.port))
            for number, session in enumerate(config.sessions)
        ]
        self._key = keys.add_peer(config.sessions[0].peer).receive
        self._incoming = ReceiveBatch(BATCH, PACKET_BYTES, STAMP_BYTES)
        self._clock = NtpClock()
        self.sent = self.verified = 0

    def batches(self) -> Iterator[Sequence[tuple[ProbeTemplate, tuple[str, int]]]]:
        """What leaves together: one round, which takes an interval."""
        for part in range(LEAST_GRID_PARTS):
            yield self._probes[part::LEAST_GRID_PARTS]

    def send(self, batch: Sequence[tuple[ProbeTemplate, tuple[str, int]]]) -> None:
        """Number, date, sign and send them."""
        ntp, send_to = self._clock.stamp(len(batch)), self._socket.sendto
        for template, address in batch:
            send_to(template.seal(self.sent, ntp), address)
            self.sent += 1
            ntp += 1

    def receive(self) -> None:
        """Verify what has come."""
        taken = BATCH
        while taken == BATCH:
            packets = self._incoming.receive(self._socket.fileno())
            for data, _name, _control in packets:
                pieces = cut(data)
                self.verified += pieces is not None and is_signed(pieces, self._key)
            taken = len(packets)

    def close(self) -> None:
        """Close its socket."""
        self._socket.close()


class Answerer:
    """Verifies requests of one node and signs an answer of the same length to each.

    Args:
        config: with a port to listen on and the node that asks.
    """

    def __init__(self, config: RigConfig) -> None:
        _own, keys = _identity(config)
        self._key = keys.add_peer(config.peers[0])
        self._socket = open_listener(config.listen[0])
        self._incoming = ReceiveBatch(BATCH, PACKET_BYTES, LISTENER_CONTROL_BYTES)
        self._outgoing = SendBatch(BATCH, PACKET_BYTES)
        self._mould: Mould | None = None

    def fileno(self) -> int:
        """Of the listening socket."""
        return self._socket.fileno()

    def answer(self) -> None:
        """Answer what has come."""
        taken, key, fd = BATCH, self._key, self._socket.fileno()
        while taken == BATCH:
            requests = self._incoming.receive(fd)
            for data, name, _control in requests:
                pieces = cut(data)
                if pieces is not None and is_signed(pieces, key.receive):
                    mould = self._mould = self._mould or Mould(data)
                    self._outgoing.add(mould.cast(data[:HMAC_OFFSET], key.send), name)
            self._outgoing.send(fd)
            taken = len(requests)

    def close(self) -> None:
        """Close its socket."""
        self._socket.close()


def main() -> int:
    """Ask, if there are sessions, or answer."""
    config = read_config(sys.argv[1])
    notes = Notes(config.events)
    if config.is_realtime and not go_realtime():
        notes.tell("not-realtime", time.monotonic_ns())
    settle_memory()
    if config.sessions:
        _ask(Asker(config), config, notes)
    else:
        _answer(Answerer(config))
    return 0


def _ask(asker: Asker, config: RigConfig, notes: Notes) -> None:
    fifo = f"{config.samples}.ask"
    os.mkfifo(fifo)
    asked = select.poll()
    asked.register(os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), select.POLLIN)
    due_ns, is_up = time.monotonic_ns(), False
    while True:
        before, was_sent = asker.verified, asker.sent
        for batch in asker.batches():
            due_ns += config.interval_ns // LEAST_GRID_PARTS
            _sleep_until(due_ns)
            asker.send(batch)
            _sleep_until(time.monotonic_ns() + MAX_REST_NS)
            asker.receive()
        are_answered = asker.verified - before == asker.sent - was_sent
        if are_answered and not is_up:
            is_up = True
            notes.tell("all-up", time.monotonic_ns())
        if ready := asked.poll(0):
            os.read(ready[0][0], 64)
            counters = {"probes-sent": asker.sent, "replies-received": asker.verified}
            states = {"up": len(config.sessions) if are_answered else 0}
            write_sample(config.samples, counters=counters, states=states, departures=Lateness(), wakeups=Lateness())


def _answer(answerer: Answerer) -> None:
    waiting = select.epoll()
    waiting.register(answerer.fileno(), select.EPOLLIN)
    while True:
        waiting.poll()
        _sleep_until(time.monotonic_ns() + LINGER_NS)
        answerer.answer()


def _sleep_until(instant_ns: int) -> None:
    left_ns = instant_ns - time.monotonic_ns()
    if left_ns > 0:
        time.sleep(left_ns / 1e9)


def _identity(config: RigConfig) -> tuple[OwnState, MeshKeys]:
    keys = MeshKeys(config.node, [MeshSecret(secret=bytes.fromhex(config.secret_hex))])
    return OwnState(node_id=1, epoch=1), keys


def _template(number: int, session: RigSession, own: OwnState, key: PairKey) -> ProbeTemplate:
    spec = ProbeSpec(
        ssid=number + 1, path=session.path, layer=int(Layer.RELAY), destination=pack_address(session.destination)
    )
    return ProbeTemplate(spec, key=key, own=own)


if __name__ == "__main__":
    raise SystemExit(main())
