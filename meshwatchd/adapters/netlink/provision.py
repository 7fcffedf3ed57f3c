"""Makes the standing objects in the kernel equal to a Provision.

Only what carries our protocol inside our ranges is compared, replaced or deleted. New objects come before old ones go,
and routes before the rules that lead to them, so that no packet ever meets a rule whose table is not ready. Override
rules belong to the engine: they are neither expected nor removed here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from meshwatchd.adapters.netlink.decode import RouteRecord, RuleRecord, normalise_prefix
from meshwatchd.adapters.netlink.ports import RoutingKernel
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import TABLES, Provision, Route, Rule
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import KernelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """What separates the kernel from a Provision, in the order in which it is carried out."""

    add_routes: tuple[Route, ...] = ()
    replace_routes: tuple[Route, ...] = ()
    add_rules: tuple[Rule, ...] = ()
    delete_rules: tuple[Rule, ...] = ()
    delete_routes: tuple[RouteRecord, ...] = ()

    def is_empty(self) -> bool:
        """Whether the kernel is in sync."""
        return not any(getattr(self, name) for name in self.__dataclass_fields__)


def compare(
    provision: Provision,
    rules: Iterable[RuleRecord],
    routes: Iterable[RouteRecord],
    settings: KernelSettings,
) -> Delta:
    """What is missing, different and left over."""
    windows = windows_of(settings, provision.windows)
    our_rules = [record.rule for record in rules if is_standing_rule(record, settings, windows) and record.rule]
    our_routes = [
        record for record in routes if is_our_route(record, settings) and record.table not in provision.kept_tables
    ]
    wanted_routes = tuple(msgspec.structs.replace(route, dst=normalise_prefix(route.dst)) for route in provision.routes)
    present = {(record.dst, record.table): record for record in our_routes if record.metric == 0}
    wanted_places = {(route.dst, route.table) for route in wanted_routes}
    missing = [route for route in wanted_routes if (route.dst, route.table) not in present]
    different = [
        route
        for route in wanted_routes
        if (record := present.get((route.dst, route.table))) is not None and record.route != route
    ]
    surplus = [record for record in our_routes if record.metric or (record.dst, record.table) not in wanted_places]
    return Delta(
        add_routes=tuple(missing),
        replace_routes=tuple(different),
        add_rules=tuple(rule for rule in provision.rules if rule not in our_rules),
        delete_rules=tuple(rule for rule in our_rules if rule not in provision.rules),
        delete_routes=tuple(surplus),
    )


def windows_of(settings: KernelSettings, others: Iterable[RuleWindow] = ()) -> tuple[RuleWindow, ...]:
    """Where rules of ours may be: the configured place, and others that were chosen."""
    return (RuleWindow(first=settings.priority_base), *others)


def is_our_rule(record: RuleRecord, settings: KernelSettings, windows: Iterable[RuleWindow]) -> bool:
    """Whether a rule is ours: our protocol in one of our windows."""
    return record.protocol == settings.protocol and any(each.holds(record.priority) for each in windows)


def is_standing_rule(record: RuleRecord, settings: KernelSettings, windows: Collection[RuleWindow]) -> bool:
    """Whether a rule is ours and no override."""
    return is_our_rule(record, settings, windows) and not is_override(record.priority, windows)


def is_override(priority: int, windows: Iterable[RuleWindow]) -> bool:
    """Whether a rule of ours is the engine's to add and remove."""
    return any(each.is_override(priority) for each in windows)


def is_our_route(record: RouteRecord, settings: KernelSettings) -> bool:
    """Whether a route is ours: our protocol in one of our tables."""
    return record.protocol == settings.protocol and 0 <= record.table - settings.table_base < TABLES


async def apply(
    provision: Provision,
    kernel: RoutingKernel,
    settings: KernelSettings,
    devices: Mapping[int, str],
    *,
    removing: Callable[[Delta], None],
) -> list[str]:
    """Make routes and rules equal to the Provision, whose links are up already, then read them back; `removing` is told
    what will be changed before anything is.

    Returns:
        one line for each thing that could not be done; empty when the kernel is in sync.
    """
    try:
        delta = compare(provision, await kernel.rules(), await kernel.marked_routes(devices), settings)
        if delta.is_empty():
            return []
        removing(delta)
        errors = await carry_out(delta, kernel, devices)
        left = compare(provision, await kernel.rules(), await kernel.marked_routes(devices), settings)
    except KernelError as error:
        return [str(error)]
    if not errors and not left.is_empty():
        errors = [f"not in place after it was acknowledged: {text}" for text in describe(left)]
    return errors


async def carry_out(delta: Delta, kernel: RoutingKernel, devices: Mapping[int, str]) -> list[str]:
    """Do what can be done, and delete only when everything wanted is in place.

    Returns:
        one line for each thing that was refused.
    """
    indices = {name: index for index, name in devices.items()}
    additions = [_attempt_route(kernel.add_route, route, indices) for route in delta.add_routes]
    additions += [_attempt_route(kernel.replace_route, route, indices) for route in delta.replace_routes]
    additions += [_attempt(kernel.add_rule(rule)) for rule in delta.add_rules]
    errors = [line for addition in additions for line in await addition]
    if errors:
        return errors
    removals = [_attempt(kernel.delete_rule(rule)) for rule in delta.delete_rules]
    removals += [_attempt(kernel.delete_route(record)) for record in delta.delete_routes]
    return [line for removal in removals for line in await removal]


def describe(delta: Delta) -> list[str]:
    """Each difference as a person would name it."""
    routes = [f"route {route.render()}" for route in (*delta.add_routes, *delta.replace_routes)]
    rules = [f"rule {rule.render()}" for rule in delta.add_rules]
    surplus = [f"rule {rule.render()} (unwanted)" for rule in delta.delete_rules]
    return [*routes, *rules, *surplus, *(f"{record.text} (unwanted)" for record in delta.delete_routes)]


async def _attempt_route(
    request: Callable[[Route, int], Awaitable[None]], route: Route, indices: Mapping[str, int]
) -> list[str]:
    index = indices.get(route.dev)
    if index is None:
        return [f"add route {route.render()}: there is no device {route.dev}"]
    return await _attempt(request(route, index))


async def _attempt(request: Awaitable[None]) -> list[str]:
    try:
        await request
    except KernelError as error:
        return [str(error)]
    return []
