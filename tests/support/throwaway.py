"""Network namespaces for one test, with /run/wireguard of their own, gone afterwards with everything inside."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from netnslab import process, syscalls
from netnslab.namespaces import Kind, Space, create, isolate_mounts, make_pin_directory

T = TypeVar("T")

SOCKETS = Path("/run/wireguard")
KINDS = (Kind.NET, Kind.MOUNT)


class Node:
    """One namespace with an address on eth0, which is one end of a cable when there are two nodes."""

    def __init__(self, space: Space, state_dir: Path) -> None:
        self.space = space
        self.state_dir = state_dir

    def ip(self, arguments: str) -> str:
        """Run `ip`; returns what it prints."""
        return self.run("ip", *arguments.split())

    def run(self, *argv: str) -> str:
        """Run a program inside; returns what it prints."""
        done = subprocess.run(self.space.command(argv), check=False, capture_output=True, text=True)
        assert 0 == done.returncode, f"{argv}: {done.stderr}"
        return done.stdout

    @staticmethod
    def from_within(*argv: str) -> None:
        """Run a program from a thread that lives inside already: its children do, too."""
        subprocess.run(argv, check=True, capture_output=True)

    def do(self, work: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run a coroutine in a thread that lives inside."""
        return self.space.call(lambda: asyncio.run(work()))


@contextmanager
def nodes(scratch: Path, *names: str) -> Iterator[list[Node]]:
    """Namespaces of those names; the first two are joined by a cable, 10.9.0.1 and 10.9.0.2 on their eth0."""
    pins, is_mine = scratch / "ns", not SOCKETS.exists()
    SOCKETS.mkdir(mode=0o755, exist_ok=True)
    make_pin_directory(pins)
    inodes: list[int] = []
    try:
        made = []
        for name in names:
            space = Space(name=name, directory=pins, kinds=KINDS)
            inodes.append(create(space, lambda: isolate_mounts(pins, [SOCKETS]))[Kind.NET])
            state_dir = scratch / name
            state_dir.mkdir()
            made.append(Node(space, state_dir))
        _connect(made)
        yield made
    finally:
        process.end(process.inside_network(inodes))
        for path in pins.iterdir():
            syscalls.unmount(str(path))
        syscalls.unmount(str(pins))
        if is_mine:
            with suppress(OSError):
                SOCKETS.rmdir()


def _connect(made: list[Node]) -> None:
    ends = [f"netns {node.space.path(Kind.NET)}" for node in made[:2]]
    if len(ends) == 2:
        command = f"ip link add eth0 {ends[0]} type veth peer name eth0 {ends[1]}"
        subprocess.run(command.split(), check=True)
    else:
        made[0].ip("link add eth0 type veth peer name far0")
        made[0].ip("link set far0 up")
    for number, node in enumerate(made[:2], 1):
        node.ip("link set lo up")
        node.ip("link set eth0 up")
        node.ip(f"addr add 10.9.0.{number}/24 dev eth0")
