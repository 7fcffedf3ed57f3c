"""Which part of the way to another cluster is dead, by what answers a ping from this node alone.

    this node --Geneve--> gateway pod ==tunnel==> gateway pod --> pods and nodes of the other cluster
       |  10.80.0.1, inside of Geneve   |              addresses of `[liqo] beyond`
       '---- its address among pods ----'              by the cluster's own network

    inside of Geneve   among pods     beyond        verdict
    answers            -              all silent    liqo-tunnel-dead
    silent             silent         -             liqo-gateway-stale      if anything else answers this node
    silent             else           -             liqo-gateway-leg

Silence counts only of what has answered: a policy may forbid pings from the beginning. What answers no more after
SILENT rounds is silent, and of addresses behind the gateway two at least have to be, for one is a pod that was deleted.
Where nothing else answers either, this node's own network may be the reason: then the router of the default route is
asked as well. Nothing is said while this node's own device or routes are not whole; `liqo_devices` names that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

import msgspec

from meshwatchd.core.audit.liqo_devices import LiqoGood, audit_devices
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.liqo import GATEWAY_PODS, RESTART_FABRIC, RESTART_GATEWAY, LiqoLink, liqo_links
from meshwatchd.model.prefixes import holds
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import Snapshot

ROUND_NS = 2 * SECOND
SILENT = 5
"""Rounds in a row without an answer: ten seconds, as the conncheck of Liqo itself has it."""
SETTLED = 3
"""Rounds in a row in which the gateway pod answers, with the same device and routes: these are good."""
LEAST_BEYOND = 2

MAX_KNOWN = 64
"""Devices: other clusters, and some that were left."""


class Ping(NamedTuple):
    """One address to ask, from which of this node's own; empty for that of the route."""

    address: str
    source: str = ""


class _Voice(msgspec.Struct, kw_only=True):
    """Whether an address has ever answered, and for how many rounds it has not."""

    has_answered: bool = False
    misses: int = 0

    @property
    def is_heard(self) -> bool:
        return self.has_answered and not self.misses

    @property
    def is_silent(self) -> bool:
        return self.has_answered and self.misses >= SILENT


class LiqoAudit:
    """What is wrong with Liqo's part of one node.

    Args:
        node: its name.
        beyond: addresses of other clusters to ask.
        known: what was good, as an earlier process of the same boot has left it.
    """

    def __init__(self, node: str, beyond: Iterable[str] = (), known: Iterable[LiqoGood] = ()) -> None:
        self._node, self._beyond = node, tuple(beyond)
        self._known = {good.link.device: good for good in known}
        answered = (address for good in self._known.values() for address in good.answered)
        self._voices = {address: _Voice(has_answered=True) for address in answered}
        self._links: dict[str, LiqoLink] = {}
        self._settled: dict[str, int] = {}
        self._heard: frozenset[str] = frozenset()
        self._near: frozenset[str] = frozenset()

    @property
    def known(self) -> tuple[LiqoGood, ...]:
        """What is good, to be kept."""
        return tuple(self._known.values())

    def questions(self, snapshot: Snapshot, source: str) -> tuple[Ping, ...]:
        """Whom to ask in this round; nobody where there is no device of Liqo's that is whole.

        What is behind the gateway is asked from `source`, this node's address among pods; empty where none is known.
        """
        links = {link.device: link for link in liqo_links(snapshot)}
        for device, link in links.items():
            if self._links.get(device) != link:
                self._begin_anew(link)
        self._links, self._near = links, frozenset(_on_this_node(snapshot, links.values()))
        asked: dict[str, Ping] = {}
        for link in filter(LiqoLink.is_whole, links.values()):
            asked |= {address: Ping(address) for address in (link.gateway, link.remote) if ":" not in address}
            asked |= {address: Ping(address, source) for address in self._behind(link)}
            if not self._voice(link.gateway).is_heard:
                asked |= {route.via: Ping(route.via) for route in snapshot.default_routes[:1] if ":" not in route.via}
        asked.pop("", None)
        return tuple(asked.values())

    def observe(self, asked: Collection[Ping], answered: Collection[str]) -> bool:
        """Take in the answers of a round; whether they may have changed what is wrong or what is good."""
        before, known = self._judgement(), dict(self._known)
        self._heard = frozenset(answered)
        for address, _ in asked:
            voice = self._voices.setdefault(address, _Voice())
            voice.misses = 0 if address in answered else voice.misses + 1
            voice.has_answered |= address in answered
        if asked:
            self._forget_voices({address for address, _ in asked})
        for link in filter(LiqoLink.is_whole, self._links.values()):
            self._learn(link)
        return before != self._judgement() or known != self._known

    def look(self, snapshot: Snapshot) -> Iterator[AuditFinding]:
        """What is wrong with devices and routes of this snapshot, and with what is behind them by the last round."""
        yield from audit_devices(snapshot, self._known, self._node)
        for link in liqo_links(snapshot):
            if self._links.get(link.device) == link and link.is_whole():
                yield from self._judge(link)

    # --- what is good ---

    def _begin_anew(self, link: LiqoLink) -> None:
        """A device that has changed gets its time once more: its gateway pod may have just been replaced."""
        self._settled.pop(link.device, None)
        for address in (link.gateway, link.remote, *self._behind(link)):
            if address in self._voices:
                self._voices[address].misses = 0

    def _learn(self, link: LiqoLink) -> None:
        is_heard = self._voice(link.gateway).is_heard
        settled = self._settled[link.device] = self._settled.get(link.device, 0) + 1 if is_heard else 0
        if settled < SETTLED:
            return
        told = (link.gateway, link.remote, *self._behind(link))
        good = LiqoGood(link=link, answered=tuple(each for each in told if self._voice(each).has_answered))
        # What another device has had in the same table is a thing of the past.
        kept = {name: was for name, was in self._known.items() if was.link.table != link.table}
        self._known = dict([*kept.items(), (link.device, good)][-MAX_KNOWN:])

    def _forget_voices(self, asked: Collection[str]) -> None:
        """Each gateway pod that is replaced leaves its address behind."""
        good = {address for was in self._known.values() for address in was.answered}
        self._voices = {address: each for address, each in self._voices.items() if address in asked or address in good}

    def _voice(self, address: str) -> _Voice:
        return self._voices.get(address, _Voice())

    def _behind(self, link: LiqoLink) -> tuple[str, ...]:
        return tuple(each for each in self._beyond if any(holds(prefix, each) for prefix in link.prefixes))

    # --- what is wrong ---

    def _judgement(self) -> tuple[tuple[str, str], ...]:
        links = filter(LiqoLink.is_whole, self._links.values())
        return tuple((each.code, each.device) for link in links for each in self._judge(link))

    def _judge(self, link: LiqoLink) -> Iterator[AuditFinding]:
        gateway = self._voice(link.gateway)
        if gateway.is_heard:
            yield from self._judge_beyond(link)
            return
        if not gateway.is_silent:
            return
        pod = self._voice(link.remote)
        can_answer = pod.has_answered or self._had_pod_that_answers(link)
        if not can_answer:
            yield self._leg(link, f"whether the gateway pod lives is not known: it has never answered at {link.remote}")
        elif pod.is_heard:
            yield self._leg(link, f"the gateway pod answers at {link.remote}, past Geneve")
        elif pod.misses >= SILENT and self._is_network_alive(link):
            yield self._stale(link)
        elif pod.misses >= SILENT:
            yield self._leg(link, f"{link.remote} is silent as well, and so is all else: this node may be cut off")

    def _is_network_alive(self, link: LiqoLink) -> bool:
        """Whether this node reaches the pod by itself, or heard anything else in the last round."""
        its = {link.gateway, link.remote, *self._behind(link)}
        return link.remote in self._near or bool(self._heard - its)

    def _had_pod_that_answers(self, link: LiqoLink) -> bool:
        """Whether the gateway pod before this one answered: the next has the same policies."""
        good = self._known.get(link.device)
        return good is not None and good.link.remote in good.answered

    def _judge_beyond(self, link: LiqoLink) -> Iterator[AuditFinding]:
        voices = {address: self._voice(address) for address in self._behind(link)}
        voices = {address: voice for address, voice in voices.items() if voice.has_answered}
        if len(voices) < LEAST_BEYOND or not all(voice.is_silent for voice in voices.values()):
            return
        yield AuditFinding(
            code=FaultCode.LIQO_TUNNEL_DEAD,
            device=link.device,
            subject=", ".join(link.prefixes),
            because=(
                f"the gateway pod answers at {link.gateway} by {link.device}",
                f"{', '.join(voices)} behind it answered, and are silent all at once",
                "the tunnel between gateway pods is dead, or all behind the other: liqoctl info peer, on either side",
                RESTART_GATEWAY.format(link.remote),
            ),
        )

    def _stale(self, link: LiqoLink) -> AuditFinding:
        return self._finding(
            FaultCode.LIQO_GATEWAY_STALE,
            link,
            f"{link.device} sends to {link.remote}, and nothing answers there, nor at {link.gateway} inside of Geneve",
            f"where the gateway pod has another address (kubectl get pods -A -l {GATEWAY_PODS} -o wide), delete it: all"
            " nodes are told its next one; where it has the same, the CNI does not reach it from here",
            f"{RESTART_FABRIC.format(self._node)} has this node's device made anew",
        )

    def _leg(self, link: LiqoLink, pod: str) -> AuditFinding:
        return self._finding(
            FaultCode.LIQO_GATEWAY_LEG,
            link,
            f"{link.gateway} answered by {link.device}, and is silent",
            pod,
            f"Geneve number {link.vni}, UDP {link.port} of {link.remote}: a filter between, the pod's own end of it, or"
            f" another pod that has its address by now (kubectl get pods -A -l {GATEWAY_PODS} -o wide)",
            RESTART_GATEWAY.format(link.remote),
        )

    def _finding(self, code: FaultCode, link: LiqoLink, *because: str) -> AuditFinding:
        return AuditFinding(code=code, device=link.device, subject=link.gateway, culprit=self._node, because=because)


def _on_this_node(snapshot: Snapshot, links: Iterable[LiqoLink]) -> Iterator[str]:
    """Gateway pods on a bridge of this very node."""
    bridges = [each for each in snapshot.links if each.kind == "bridge"]
    for link in links:
        for bridge in bridges:
            held = zip(bridge.addresses, bridge.prefix_lengths, strict=False)
            if any(holds(f"{address}/{length}", link.remote) for address, length in held):
                yield link.remote
