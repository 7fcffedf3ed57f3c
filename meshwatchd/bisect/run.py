"""One run, from the first question to the result.

tables, counters --> taps --> probes as programs send them --> all answered: done
                                                           --> crafted ones around each part of the stack
tables, counters again --> observation --> matrix --> result
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from random import Random
from typing import Final, Protocol

from meshwatchd.adapters.tap.filter import Wanted
from meshwatchd.adapters.tap.taps import Taps
from meshwatchd.bisect.conclude import Gathered, Ledger, conclude
from meshwatchd.bisect.leg import Leg
from meshwatchd.bisect.probes import Probe, Probes
from meshwatchd.bisect.senders import Senders
from meshwatchd.bisect.stack import Questions, Stack, pack, read_stack
from meshwatchd.model.bisection import BisectResult, PeerCounts, SeriesName
from meshwatchd.wire.auth import MeshKeys

MS: Final = 1_000_000
GAP_NS: Final = 3 * MS
"""Between two probes: far below what a network minds, and all of a series within 40 ms."""
KERNEL_PROBES, UNDERLAY_PROBES, CRAFTED_PROBES = 12, 4, 8
FIRST_WAIT_NS, SECOND_WAIT_NS = 400 * MS, 600 * MS
"""For answers. Together they also hear four or five of the daemon's known flows, one every 200 ms."""
LEAST_WAIT_NS: Final = 150 * MS
"""Also of a run that is late: without waiting there would be no answers."""


class PeerTaps(Protocol):
    """The far end's taps, if it can be asked for them."""

    def begin(self, leg: Leg, ssid: int) -> None:
        """Have `leg.via` tap, and return when it does or will not."""

    def counts(self) -> tuple[PeerCounts, ...]:
        """What they have seen; empty where nobody answers."""


class NoPeerTaps:
    """Nobody is asked: the run is one-sided."""

    def begin(self, leg: Leg, ssid: int) -> None:
        """Nothing to be done."""

    def counts(self) -> tuple[PeerCounts, ...]:
        """Nothing was seen."""
        return ()


class Run:
    """One bisection.

    Args:
        until_ns: CLOCK_MONOTONIC when it should be over; waits are cut short for that.
    """

    def __init__(
        self,
        leg: Leg,
        kernel: Questions,
        keys: MeshKeys,
        *,
        epoch: int,
        until_ns: int,
        random: Random,
        peer_taps: PeerTaps | None = None,
    ) -> None:
        self._leg, self._kernel, self._random = leg, kernel, random
        self._until_ns = until_ns
        self._peer_taps = peer_taps or NoPeerTaps()
        self._probes = Probes(leg, keys, epoch=epoch, random=random)

    def execute(self) -> BisectResult:
        """Do it; leaves nothing behind.

        Raises:
            KernelError: taps need CAP_NET_RAW, or the kernel does not answer.
        """
        began_ns = time.monotonic_ns()
        leg, kernel, probes = self._leg, self._kernel, self._probes
        with ExitStack() as exits:
            exits.callback(probes.close)
            ledger = Ledger(kernel)
            stack = read_stack(kernel, leg)
            taps = exits.enter_context(closing(self._open_taps(stack)))
            self._peer_taps.begin(leg, probes.ssid)
            self._send_as_programs(taps)
            if not self._is_answered():
                self._send_crafted(read_stack(kernel, leg, heard_mac=taps.heard_mac), taps)
            stack = read_stack(kernel, leg, heard_mac=taps.heard_mac)
            taps.read()
            gathered = Gathered(stack, taps, probes, ledger, self._peer_taps.counts(), began_ns)
            return conclude(leg, gathered)

    def _open_taps(self, stack: Stack) -> Taps:
        leg = self._leg
        addresses = {leg.destination, leg.underlay_destination, leg.via_address} - {""}
        wanted = Wanted(
            addresses=tuple(pack(address) for address in sorted(addresses)),
            port=leg.underlay_port,
            vxlan_port=stack.vxlan_port,
            next_hop=stack.lower_gateway,
        )
        taps = Taps(stack.overlay, stack.lower, wanted, ssid=self._probes.ssid)
        taps.learn_mac_of(pack(leg.underlay_destination))
        for fd in taps.filenos():
            self._probes.watch(fd)
        return taps

    def _send_as_programs(self, taps: Taps) -> None:
        for number in range(KERNEL_PROBES):
            self._send(SeriesName.KERNEL, self._probes.send, taps)
            if number < UNDERLAY_PROBES and self._leg.underlay_destination:
                self._send(SeriesName.UNDERLAY, self._probes.send, taps)
        self._listen(FIRST_WAIT_NS, taps, self._is_answered)

    def _send_crafted(self, stack: Stack, taps: Taps) -> None:
        with closing(Senders(self._leg, stack, self._random)) as senders:
            available = tuple(senders.available())
            for _ in range(CRAFTED_PROBES):
                for series, send in available:
                    self._send(series, send, taps)
            self._listen(SECOND_WAIT_NS, taps, lambda: False)

    def _send(self, series: SeriesName, send: Callable[[Probe], None], taps: Taps) -> None:
        probe = self._probes.make(series)
        if probe is None:
            return
        try:
            send(probe)
        except OSError as error:
            self._probes.note_error(series, error)
        for _ in self._probes.wait(time.monotonic_ns() + GAP_NS):
            taps.read()

    def _listen(self, duration_ns: int, taps: Taps, is_enough: Callable[[], bool]) -> None:
        """Read answers and taps for so long, or until enough is known; less where the time is nearly up."""
        now_ns = time.monotonic_ns()
        duration_ns = max(LEAST_WAIT_NS, min(duration_ns, self._until_ns - now_ns))
        for _ in self._probes.wait(now_ns + duration_ns):
            taps.read()
            if is_enough():
                return

    def _is_answered(self) -> bool:
        """Whether nothing is missing."""
        names = [SeriesName.KERNEL, *([SeriesName.UNDERLAY] if self._leg.underlay_destination else [])]
        return all(self._probes.echoed(name) == self._probes.sent(name) > 0 for name in names)
