"""Where rules of ours stand on this node: chosen from what the kernel holds, recorded, and verified by the kernel.

Looked at with every snapshot, so that a rule that another program adds later moves ours, or is told where it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Protocol

import msgspec

from meshwatchd.adapters.netlink.foreign_rules import describe_foreign, routes_of
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.netlink.route_lookup import RouteLookup, Tables
from meshwatchd.adapters.storage.window_file import MAX_WINDOWS, WindowFile
from meshwatchd.core.routes.placement import first_shadow, place, remember
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.plan import Route, Rule
from meshwatchd.model.route_lookup import RouteQuestion
from meshwatchd.model.rule_window import WIDE, Prefix, RuleWindow
from meshwatchd.model.settings import MeshSettings, Mode, Settings
from meshwatchd.model.snapshot import ForeignObject, Snapshot
from meshwatchd.runtime.sinks import Warns

MAX_QUESTIONS = 64
"""Selectors that are put to the kernel, ten microseconds each; all of them stand in one window."""


class Asks(Protocol):
    """Puts questions to the kernel."""

    def table(self, question: RouteQuestion) -> int | None:
        """The table whose route a packet takes, 0 where it goes nowhere; None where the kernel does not say."""

    def close(self) -> None:
        """Ask no more."""


class RulePlace:
    """Keeps the window."""

    def __init__(
        self, tables: Tables, kernel: Asks, settings: Settings, log: Warns, *, again: Callable[[], object]
    ) -> None:
        self._tables, self._kernel, self._settings, self._log = tables, kernel, settings, log
        self._again = again
        self._file = WindowFile(Path(settings.daemon.state_dir))
        loaded = self._file.load()
        if loaded.problem:
            log.warning("rules.record_refused", reason=loaded.problem)
        self._configured = RuleWindow(first=settings.kernel.priority_base)
        self._windows, self._unclear = remember(loaded.windows, self._configured)
        self._recorded = loaded.windows
        self._seen: object = None
        self._refusal = self._doubt = self._unwritten = ""

    @classmethod
    def open(cls, mirror: Mirror, settings: Settings, log: Warns) -> RulePlace:
        """One that asks the running kernel, until `close`."""
        return cls(mirror, RouteLookup(mirror), settings, log, again=mirror.is_dirty.set)

    def close(self) -> None:
        """Ask no more."""
        self._kernel.close()

    def settle(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the windows of this node; with a collision where ours can be in none, or are not asked."""
        mesh = snapshot.mesh or self._settings.mesh
        seen = (self._tables.rules, self._tables.routes.version, mesh)
        if seen != self._seen or self._doubt or self._refusal:
            self._seen = seen
            self._refusal = self._ambiguous(snapshot) or self._choose(mesh) or self._verified(snapshot)
        window = self._windows[0]
        told = tuple(each for each in snapshot.collisions if each.priority < 0 or window.holds(each.priority))
        if self._refusal:
            told += (ForeignObject(what=self._refusal, owner_protocol=0, is_ahead=True),)
        windows = () if self._windows == (self._configured,) else self._windows
        return msgspec.structs.replace(snapshot, windows=windows, collisions=told)

    def _ambiguous(self, snapshot: Snapshot) -> str:
        """Which rule of ours stands where another configuration had it and this one would take it for something else.

        The agent would delete an override with traffic on it, so nothing is armed. Where none stands the place is
        forgotten.
        """
        found = ((each, rule) for each in self._unclear for rule in snapshot.rules if rule.priority in each.used)
        window, rule = next(found, (None, None))
        if window is None or rule is None:
            self._unclear = ()
            return ""
        base = self._configured.first
        had = "rules of others had it moved to" if window.is_narrow else f"kernel.priority_base = {window.first} had it"
        return (
            f"rule {rule.render()} stands where {had}, and would be taken for another one with {base}; set"
            f" kernel.priority_base to a number that is {WIDE} away from {window.first}, or stop the daemon and run"
            f" `meshwatchctl sweep`"
        )

    def _choose(self, mesh: MeshSettings) -> str:
        """Move the window if it has to be elsewhere; why it can be nowhere."""
        try:
            with Door("netlink rule"):
                foreign, taken = describe_foreign(self._tables.rules, self._settings.kernel.protocol)
        except DecodeError:
            return ""
        entries = self._tables.routes.entries
        shadow = first_shadow(foreign, self._wanted(mesh), lambda table: routes_of(entries, table))
        known = tuple(dict.fromkeys((*self._windows, self._configured)))
        candidates = [each for each in known if each.is_narrow or each == self._configured]
        chosen = place(taken, shadow, candidates=candidates, former=known)
        if isinstance(chosen, str):
            return chosen
        has_moved = chosen != known[0]
        self._windows = (chosen, *(each for each in known if each != chosen))[:MAX_WINDOWS]
        if has_moved:
            reason = f"{shadow.text} is asked before" if shadow is not None else ""
            self._log.warning("rules.moved", first=chosen.first, reason=reason)
        # Before rules stand there: with another kernel.priority_base nobody would know them for ours.
        if self._windows != self._recorded and (has_moved or self._settings.daemon.mode is Mode.ENFORCE):
            self._record()
        return ""

    def _record(self) -> None:
        problem = self._file.save(self._windows)
        if not problem:
            self._recorded = self._windows
        elif problem != self._unwritten:
            self._log.warning("rules.unrecorded", reason=problem)
        self._unwritten = problem

    def _wanted(self, mesh: MeshSettings) -> Iterator[Prefix]:
        """What failovers move: addresses of nodes and pods of other locations."""
        name = self._settings.daemon.node
        home = next((node.location for node in mesh.node if node.name == name), None)
        for node in mesh.node if home is not None else ():
            for text in node.prefixes() if node.location != home else ():
                if ":" not in text:
                    network = IPv4Network(text, strict=False)
                    yield Prefix(int(network.network_address), network.prefixlen)

    def _verified(self, snapshot: Snapshot) -> str:
        """What keeps the kernel from taking the selectors that stand; told when it holds at a second look.

        The mirror may be a moment behind the kernel, and between two changes of ours nothing is wrong.
        """
        found = next(filter(None, (self._ask(rule, route) for rule, route in self._standing(snapshot))), "")
        is_certain = bool(found) and found in (self._doubt, self._refusal)
        self._doubt = "" if is_certain else found
        if self._doubt:
            self._again()
        return found if is_certain else ""

    def _standing(self, snapshot: Snapshot) -> list[tuple[Rule, Route]]:
        """Selectors in the window of the moment, each with a route of its table."""
        window = self._windows[0]
        up = {link.name for link in snapshot.links if link.is_up}
        routes = {
            each.table: each for each in snapshot.routes if each.src and each.dst.endswith("/32") and each.dev in up
        }
        return [
            (rule, routes[rule.table])
            for rule in snapshot.rules
            if window.holds(rule.priority) and rule.sport and rule.dport and rule.table in routes
        ][:MAX_QUESTIONS]

    def _ask(self, rule: Rule, route: Route) -> str:
        assert rule.sport is not None, "a selector has ports"
        assert rule.dport is not None, "a selector has ports"
        destination = route.dst.removesuffix("/32")
        sport, dport = rule.sport[0], rule.dport[0]
        question = RouteQuestion(source=route.src or "", destination=destination, sport=sport, dport=dport)
        table = self._kernel.table(question)
        if table in (None, rule.table):
            return ""
        return (
            f"the kernel does not take rule {rule.render()} for a packet to {destination}, but table {table or 'none'};"
            f" a failover would move nothing: `ip rule` shows which rule is asked before it; give that one a priority"
            f" above {rule.priority}"
        )
