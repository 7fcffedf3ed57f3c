"""Size probes in the in-memory mesh: packets that know how long they are, and reflectors that count."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

from meshwatchd.model import events as ev
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.mtu import SendSizeProbe, SizeAnswered, SizePlan, SizeUnsent
from meshwatchd.model.settings import MS
from tests.sim.faults import Leg

DEVICE_BYTES = MappingProxyType({Layer.UNDERLAY: 1500, Layer.OVERLAY: 1450, Layer.WIREGUARD: 1420})
"""Of the devices in `tests.support.lab_mesh`: a longer packet with DF set does not leave the node."""


class SizeRequest(NamedTuple):
    """A size probe on its way."""

    sender: str
    epoch: int
    banner: ev.Banner
    sent_at: int
    probe: SendSizeProbe
    plan: SizePlan


class SizeTraffic:
    """What becomes of size probes and of their answers.

    Args:
        passes: the world's: whether a packet arrives.
        way: the world's: the legs of a probe.
        rng: its own: what measures sizes takes no dice from what detects faults.
    """

    def __init__(
        self,
        *,
        passes: Callable[..., bool],
        way: Callable[[str, SizePlan], tuple[Leg, ...]],
        rng: random.Random,
    ) -> None:
        self._arrives, self._way, self._rng = passes, way, rng

    def send(self, source: str, plan: SizePlan, probe: SendSizeProbe) -> tuple[int, SizePlan] | SizeUnsent | None:
        """How long a probe takes to its peer; None when it is lost, and the kernel's word where it does not leave."""
        if not plan.may_fragment and probe.size_bytes > DEVICE_BYTES.get(plan.layer, probe.size_bytes):
            return SizeUnsent(session=plan.session, seq=probe.seq, errno=errno.EMSGSIZE)
        legs = self._legs(source, plan, probe.size_bytes)
        return (_delay(legs), plan) if self._passes(legs) else None

    def reflect(
        self, counts: dict[tuple[str, int], int], request: SizeRequest, now: int
    ) -> tuple[tuple[int, SizeAnswered] | None, ev.RequestReceived]:
        """The answer with its delay, unless it is lost; and what the reflector's engine is told."""
        plan, probe = request.plan, request.probe
        there = self._legs(request.sender, plan, probe.size_bytes)
        legs = tuple(leg._replace(source=leg.target, target=leg.source) for leg in reversed(there))
        count = counts.get((request.sender, plan.session), 0)
        counts[request.sender, plan.session] = count + 1
        heard = ev.RequestReceived(
            peer=NodeName(request.sender),
            layer=plan.layer,
            path=plan.path,
            flow=FlowClass.PINNED,
            is_fresh_epoch=True,
            banner=request.banner,
            size_bytes=0 if plan.may_fragment else probe.size_bytes,
        )
        if not self._passes(legs):
            return None, heard
        rtt_ns = now + _delay(legs) - request.sent_at
        return (_delay(legs), SizeAnswered(session=plan.session, seq=probe.seq, rtt_ns=rtt_ns, count=count)), heard

    def _passes(self, legs: tuple[Leg, ...]) -> bool:
        return self._arrives(legs, FlowClass.PINNED, rng=self._rng)

    def _legs(self, source: str, plan: SizePlan, size: int) -> tuple[Leg, ...]:
        return tuple(leg._replace(size=size) for leg in self._way(source, plan))


def _delay(legs: tuple[Leg, ...]) -> int:
    return sum(5 * MS if leg.kind == "tunnel" else MS // 10 for leg in legs)
