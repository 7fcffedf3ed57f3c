"""A network namespace for one test, and sockets in it."""

from __future__ import annotations

import itertools
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from netnslab import syscalls

Result = TypeVar("Result")
_numbers = itertools.count()


class Space:
    """A namespace known to ip(8)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ip(self, *words: str) -> str:
        """What the iproute2 command prints inside the namespace."""
        done = subprocess.run(["ip", "-n", self.name, *words], capture_output=True, check=True, text=True)
        return done.stdout

    def call(self, make: Callable[[], Result]) -> Result:
        """Run a function in a thread inside; sockets it opens belong to the namespace for good."""
        results: list[Result] = []
        errors: list[BaseException] = []

        def enter() -> None:
            descriptor = os.open(Path("/run/netns", self.name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                syscalls.setns(descriptor, syscalls.CLONE_NEWNET)
                results.append(make())
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                errors.append(error)
            finally:
                os.close(descriptor)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return results[0]


@contextmanager
def namespace() -> Iterator[Space]:
    """A new namespace with loopback up; removed at the end."""
    name = f"mwtest-{os.getpid()}-{next(_numbers)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        space = Space(name)
        space.ip("link", "set", "lo", "up")
        yield space
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)
