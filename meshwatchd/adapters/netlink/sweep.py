"""Removes everything of ours from the kernel, with or without a daemon.

Rules go first, overrides before the rest, so that traffic is back on the mesh's own routes before any table empties;
devices go last. What does not carry our mark is not looked at twice.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import msgspec

from meshwatchd.adapters.netlink import provision
from meshwatchd.adapters.netlink.kernel import Kernel
from meshwatchd.adapters.storage.window_file import WindowFile
from meshwatchd.adapters.wireguard.device import Devices
from meshwatchd.model.settings import KernelSettings, Settings, StandbySettings

STATE_DIR = Path(Settings().daemon.state_dir)
KEY_FILE = Path(StandbySettings().private_key_file).name


def sweep(kernel: KernelSettings, *, dry_run: bool, state_dir: Path = STATE_DIR) -> list[str]:
    """Remove our rules, routes and devices, as links.json and rules.json in the state directory know them; a second
    call finds nothing.

    Returns:
        one line for each object, as `ip` would say it, in the order of removal.

    Raises:
        KernelError: the kernel refuses; what was removed before stays removed.
    """
    return asyncio.run(_sweep(kernel, dry_run=dry_run, state_dir=state_dir))


async def _sweep(settings: KernelSettings, *, dry_run: bool, state_dir: Path) -> list[str]:
    with closing(Kernel(settings.protocol)) as kernel:
        return await sweep_by(kernel, settings, state_dir, dry_run=dry_run)


async def sweep_by(kernel: Kernel, settings: KernelSettings, state_dir: Path, *, dry_run: bool) -> list[str]:
    """As `sweep`, by an open kernel."""
    removed = await _sweep_rules(kernel, settings, state_dir, dry_run=dry_run)
    removed += await _sweep_routes(kernel, settings, dry_run=dry_run)
    removed += await _sweep_devices(kernel, settings, state_dir, dry_run=dry_run)
    return removed


async def _sweep_rules(kernel: Kernel, settings: KernelSettings, state_dir: Path, *, dry_run: bool) -> list[str]:
    """Those in the configured window, and in those that rules.json names."""
    windows = provision.windows_of(settings, WindowFile(state_dir).load().windows)
    ours = [record for record in await kernel.rules() if provision.is_our_rule(record, settings, windows)]
    ours.sort(key=lambda record: not provision.is_override(record.priority, windows))
    for record in ours:
        if not dry_run:
            await kernel.delete_marked_rule(record)
    return [record.text for record in ours]


async def _sweep_routes(kernel: Kernel, settings: KernelSettings, *, dry_run: bool) -> list[str]:
    names = {link.index: link.name for link in await kernel.links()}
    routes = await kernel.marked_routes(names)
    ours = [record for record in routes if provision.is_our_route(record, settings)]
    for record in ours:
        if not dry_run:
            await kernel.delete_route(record)
    return [record.text for record in ours]


async def _sweep_devices(kernel: Kernel, settings: KernelSettings, state_dir: Path, *, dry_run: bool) -> list[str]:
    """Devices that are recorded in links.json by their index, and those with our prefix that have our private key."""
    standby = msgspec.structs.replace(StandbySettings(), private_key_file=str(state_dir / KEY_FILE))
    devices = Devices(kernel, standby, state_dir)
    removed, recorded = [], devices.recorded()
    for link in await kernel.links():
        is_called_ours = link.name in recorded or link.name.startswith(settings.device_prefix)
        if is_called_ours and await devices.is_ours(link):
            removed.append(f"device {link.name}")
            if not dry_run:
                devices.adopt(link)
    for device in devices.recorded():
        if not dry_run:
            await devices.remove(device)
    return removed
