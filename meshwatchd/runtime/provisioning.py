"""The standing objects of this node: put in place when the engine asks, put back when somebody removes them.

Putting back is quick and stubborn, but not for ever: whoever removes one object again and again does it on purpose, and
a fight between two programs is worse for traffic than a missing standby. After MAX_RESTORES within RESTORE_WINDOW_NS an
object is left alone until the window has moved on, and the engine is told. What could not be put in place when the
engine asked is tried again as a whole, within the same limit: only that removes what new objects take the place of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from meshwatchd.adapters.netlink import provision
from meshwatchd.adapters.netlink.decode import normalise_prefix
from meshwatchd.adapters.netlink.news import Lost
from meshwatchd.adapters.netlink.ports import StandingKernel
from meshwatchd.adapters.netlink.provision import Delta
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.events import Provisioned
from meshwatchd.model.plan import Provision, StandbyLink
from meshwatchd.model.settings import MINUTE, KernelSettings
from meshwatchd.model.snapshot import Link
from meshwatchd.runtime.sinks import Warns

MAX_RESTORES = 5
RESTORE_WINDOW_NS = MINUTE
UNFINISHED = "all that is wanted"
"""What is counted when everything is put once more."""

NETWORKD_HINT = (
    "if systemd-networkd runs here, set ManageForeignRoutes=no and ManageForeignRoutingPolicyRules=no in networkd.conf"
)


class StandbyDevices(Protocol):
    """What makes and removes standby devices."""

    async def ensure(self, wanted: StandbyLink) -> None:
        """Make the device of that name equal to `wanted`."""

    async def remove(self, device: str) -> None:
        """Remove a device we made."""

    def recorded(self) -> tuple[str, ...]:
        """Names of the devices we made."""


class RestoreBudget:
    """How often each object may still be put back."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._spent: dict[str, deque[int]] = {}

    def spend(self, name: str) -> bool:
        """Whether this object may be put back once more; counts it if so."""
        now = self._clock()
        times = self._spent.setdefault(name, deque(maxlen=MAX_RESTORES))
        while times and now - times[0] >= RESTORE_WINDOW_NS:
            times.popleft()
        if len(times) == MAX_RESTORES:
            return False
        times.append(now)
        return True

    def clear(self) -> None:
        """Forget the past, as when the engine asks for something new."""
        self._spent.clear()


class Standing:
    """Keeps the kernel equal to the last Provision.

    Args:
        log: for objects that go although this process has not asked for them: an earlier one has left them behind, or
            another program uses our protocol number.
    """

    def __init__(
        self,
        kernel: StandingKernel,
        devices: StandbyDevices,
        settings: KernelSettings,
        clock: Callable[[], int],
        *,
        log: Warns,
    ) -> None:
        self._kernel = kernel
        self._log = log
        self._devices = devices
        self._settings = settings
        self._budget = RestoreBudget(clock)
        self._wanted: Provision | None = None
        self._former: Provision | None = None
        self._is_unfinished = False
        self._announced: list[str] = []
        self._complaints: tuple[str, ...] = ()

    async def ensure(self, wanted: Provision) -> Provisioned:
        """Make the kernel equal to a Provision: links, then routes, then rules, then what is left over goes."""
        self._former, self._wanted = self._wanted, wanted
        # Of this one nothing has been told yet, whatever was complained of the one before.
        self._announced, self._complaints = [], ()
        self._budget.clear()
        return await self._put(wanted)

    async def restore(self) -> tuple[list[str], Provisioned | None]:
        """Put back what is missing of the last Provision, or all of it if that has not been done in full.

        Returns:
            what was put back, and the news for the engine if whether all is in place has changed.
        """
        if self._wanted is None:
            return [], None
        if self._is_unfinished and self._budget.spend(UNFINISHED):
            before = self._complaints
            news = await self._put(self._wanted)
            return [], news if news.is_complete or news.errors != before else None
        links = await self._kernel.links()
        errors, left_alone, restored = await self._restore_links(self._wanted, links)
        if restored:
            links = await self._kernel.links()
        names = {link.index: link.name for link in links}
        rules, routes = await self._kernel.rules(), await self._kernel.marked_routes(names)
        delta = provision.compare(self._wanted, rules, routes, self._settings)
        delta = _without_waiting(delta, {link.name for link in links if link.is_up}, left_alone)
        allowed = replace(self._within_budget(delta, left_alone), delete_rules=(), delete_routes=())
        refused = await provision.carry_out(allowed, self._kernel, names)
        restored += [] if refused else provision.describe(allowed)
        complaints = (*errors, *refused, *left_alone)
        # What is not finished is not complete, even where nothing is missing.
        if self._is_unfinished or complaints == self._complaints:
            return restored, None
        self._complaints = complaints
        return restored, Provisioned(is_complete=not complaints, errors=complaints)

    async def retract(self, gone: Provision) -> list[str]:
        """Take these routes and rules away and out of what is wanted; all others stay as they are.

        Returns:
            one line for each thing that was refused.
        """
        self._wanted = (self._wanted or Provision()).without(gone)
        names = await self._device_names()
        rules, routes = await self._kernel.rules(), await self._kernel.marked_routes(names)
        delta = provision.compare(self._wanted, rules, routes, self._settings)
        places = {(normalise_prefix(each.dst), each.table) for each in gone.routes}
        surplus = Delta(
            delete_rules=tuple(each for each in delta.delete_rules if each in gone.rules),
            delete_routes=tuple(each for each in delta.delete_routes if (each.dst, each.table) in places),
        )
        return await provision.carry_out(surplus, self._kernel, names)

    def concerns(self, lost: Lost) -> bool:
        """Whether a lost object is one that should stand, or an override, which only the engine can judge."""
        windows = provision.windows_of(self._settings, self._wanted.windows if self._wanted is not None else ())
        if lost.rule is not None and provision.is_override(lost.rule.priority, windows):
            return True
        if self._wanted is None:
            return False
        if lost.rule is not None:
            return lost.rule in self._wanted.rules
        if lost.route is not None:
            return lost.route in self._wanted.routes
        return any(link.device == lost.device for link in self._wanted.links)

    async def _put(self, wanted: Provision) -> Provisioned:
        self._is_unfinished = True
        errors = [line for link in wanted.links for line in await self._ensure_link(link)]
        names = await self._device_names()
        errors += await provision.apply(wanted, self._kernel, self._settings, names, removing=self._announce)
        kept = {*(link.device for link in wanted.links), *wanted.kept_devices}
        for device in self._devices.recorded():
            if device not in kept and not errors:
                errors += await self._attempt_removal(device)
        self._is_unfinished, self._complaints = bool(errors), tuple(errors)
        return Provisioned(is_complete=not errors, errors=tuple(errors))

    def _announce(self, delta: Delta) -> None:
        """Log what is about to go and was not asked for before, once for each Provision."""
        former = self._former or Provision()
        places = {(normalise_prefix(each.dst), each.table) for each in former.routes}
        what = [f"rule {rule.render()}" for rule in delta.delete_rules if rule not in former.rules]
        what += [each.text for each in delta.delete_routes if (each.dst, each.table) not in places]
        if what and what != self._announced:
            reason = "marked as ours and not wanted; if another program did it, change kernel.protocol"
            self._log.warning("provision.removes", what=tuple(what), reason=reason)
            self._announced = what

    async def _restore_links(
        self, wanted: Provision, links: Collection[Link]
    ) -> tuple[list[str], list[str], list[str]]:
        present = {link.name: link for link in links}
        errors: list[str] = []
        left_alone: list[str] = []
        restored: list[str] = []
        for link in wanted.links:
            found = present.get(link.device)
            if found is not None and found.is_up and found.mtu_bytes == link.mtu_bytes:
                continue
            text = f"device {link.device}"
            if not self._budget.spend(text):
                left_alone.append(_surrender(text))
                continue
            failures = await self._ensure_link(link)
            errors += failures
            restored += [] if failures else [text]
        return errors, left_alone, restored

    def _within_budget(self, delta: Delta, left_alone: list[str]) -> Delta:
        """The part of a delta that may be carried out; the rest is added to `left_alone`."""

        def is_allowed(text: str) -> bool:
            if self._budget.spend(text):
                return True
            left_alone.append(_surrender(text))
            return False

        return replace(
            delta,
            add_routes=tuple(each for each in delta.add_routes if is_allowed(f"route {each.render()}")),
            replace_routes=tuple(each for each in delta.replace_routes if is_allowed(f"route {each.render()}")),
            add_rules=tuple(each for each in delta.add_rules if is_allowed(f"rule {each.render()}")),
        )

    async def _ensure_link(self, link: StandbyLink) -> list[str]:
        try:
            await self._devices.ensure(link)
        except MeshwatchError as error:
            return [str(error)]
        return []

    async def _attempt_removal(self, device: str) -> list[str]:
        try:
            await self._devices.remove(device)
        except MeshwatchError as error:
            return [str(error)]
        return []

    async def _device_names(self) -> dict[int, str]:
        return {link.index: link.name for link in await self._kernel.links()}


def _without_waiting(delta: Delta, up: Collection[str], left_alone: list[str]) -> Delta:
    """Without routes into a device that is not there or down: they cannot be put, and trying is no fight.

    An overlay that comes and goes (a flanneld that restarts) would use up the budget of routes that nobody removes.
    """
    waiting = sorted({each.dev for each in (*delta.add_routes, *delta.replace_routes) if each.dev not in up})
    left_alone += [f"routes into {device} wait until it is up" for device in waiting]
    return replace(
        delta,
        add_routes=tuple(each for each in delta.add_routes if each.dev in up),
        replace_routes=tuple(each for each in delta.replace_routes if each.dev in up),
    )


def _surrender(text: str) -> str:
    minutes = RESTORE_WINDOW_NS // MINUTE
    return f"{text} was removed more than {MAX_RESTORES} times in {minutes} min and is left alone; {NETWORKD_HINT}"
