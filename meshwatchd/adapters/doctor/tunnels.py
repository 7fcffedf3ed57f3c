"""wg-quick's files against the devices they stand for: what the next boot would change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from meshwatchd.adapters.netlink.kernel import Kernel
from meshwatchd.adapters.sources import files, quick_file
from meshwatchd.adapters.wireguard.poll import Poll
from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.errors import DecodeError, MeshwatchError
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.model.sources import QuickFile


def check_tunnels(protocol: int, directory: Path = quick_file.DIRECTORY) -> Iterator[Check]:
    """Each file of wg-quick's beside the device of its name; nothing where there are no files."""
    named = files.names(directory, quick_file.SUFFIX, most=quick_file.MAX_FILES)
    if not named:
        return
    try:
        states = {state.device: state for state in asyncio.run(_states(protocol))}
    except (MeshwatchError, OSError) as error:
        yield Check(area="tunnels", state=CheckState.NOTE, text=f"WireGuard devices cannot be read: {error}")
        return
    for path in named:
        try:
            data = files.read(path)
            found = quick_file.parse(data, path) if data is not None else None
        except MeshwatchError as error:
            problem = error.reason if isinstance(error, DecodeError) else str(error)
            remedy = f"correct {path} (wg-quick(8))"
            yield Check(area="tunnels", state=CheckState.WARNING, text=f"{path}: {problem}", remedy=remedy)
            continue
        if found is not None:
            yield from compare(found, states.get(found.device))


async def _states(protocol: int) -> tuple[WireGuardState, ...]:
    with closing(Kernel(protocol)) as kernel:
        return await Poll().states(await kernel.links())


def compare(file: QuickFile, device: WireGuardState | None) -> Iterator[Check]:
    """One warning for all that differs; the kernel's endpoint of a peer may have moved, and is not compared."""
    if device is None:
        text = f"{file.path} describes {file.device}, and there is no such WireGuard device that can be read"
        yield Check(area="tunnels", state=CheckState.WARNING, text=text, remedy=f"wg-quick up {file.device}")
        return
    different = list(_differences(file, device))
    if not different:
        yield Check(area="tunnels", state=CheckState.OK, text=f"{file.device} is as {file.path} says")
        return
    text = f"{file.device} is not as {file.path} says: {'; '.join(different)}"
    remedy = f"wg syncconf {file.device} <(wg-quick strip {file.device}), or correct the file"
    yield Check(area="tunnels", state=CheckState.WARNING, text=text, remedy=remedy)


def _differences(file: QuickFile, device: WireGuardState) -> Iterator[str]:
    if file.listen_port and file.listen_port != device.listen_port:
        yield f"port {device.listen_port} instead of {file.listen_port}"
    wanted = {peer.public_key: peer for peer in file.peers}
    found = {peer.public_key: peer for peer in device.peers}
    for key in _sorted(wanted.keys() - found.keys()):
        yield f"peer {key[:8]}... is missing"
    for key in _sorted(found.keys() - wanted.keys()):
        yield f"peer {key[:8]}... is in the kernel alone"
    for key in _sorted(wanted.keys() & found.keys()):
        lost = set(wanted[key].allowed_ips) - set(found[key].allowed_ips)
        added = set(found[key].allowed_ips) - set(wanted[key].allowed_ips)
        if lost or added:
            parts = [f"without {', '.join(sorted(lost))}"] if lost else []
            parts += [f"with {', '.join(sorted(added))} besides"] if added else []
            yield f"peer {key[:8]}... {' and '.join(parts)}"


def _sorted(keys: Iterable[str]) -> list[str]:
    return sorted(keys)
