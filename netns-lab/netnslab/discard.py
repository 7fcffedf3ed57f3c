"""A service that takes whatever is sent and says nothing (RFC 863, on another port): `python -m netnslab.discard`.

    with Discards(lab, directory):
        ...                                  # TCP port 10 of every pod accepts, reads and throws away

For canaries in bulk. It runs until SIGTERM and ends when the process that started it dies.
"""

from __future__ import annotations

import selectors
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from netnslab.errors import LabError
from netnslab.lab import Lab
from netnslab.traffic import die_with_parent
from netnslab.waiting import wait_until

DISCARD_PORT = 10
"""RFC 863's own, 9, is the one that benchmarks want closed."""

READ_BYTES = 65_536
STOP_TIMEOUT_S = 10.0


class Discards:
    """One server in every pod of a lab, for as long as the context lasts.

    Args:
        lab: where the pods are.
        directory: gets the servers' output.
    """

    def __init__(self, lab: Lab, directory: Path) -> None:
        self._lab = lab
        self._directory = directory
        self._servers: list[subprocess.Popen[str]] = []
        self._files = ExitStack()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            logs = [self._start(name) for name in self._lab.topology.nodes]
            wait_until(
                lambda: all(self._is_serving(*each) for each in zip(self._servers, logs, strict=True)),
                timeout_s=30,
                what="the pods' discard servers",
            )
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the servers."""
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            try:
                server.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self._files.close()

    def _start(self, name: str) -> Path:
        path = self._directory / f"discard-{name}.log"
        output = self._files.enter_context(path.open("w", encoding="utf-8"))
        self._servers.append(self._lab.pod(name).popen([sys.executable, "-m", "netnslab.discard"], stdout=output))
        return path

    def _is_serving(self, server: subprocess.Popen[str], log: Path) -> bool:
        if server.poll() is not None:
            raise LabError(f"a discard server ended with {server.returncode}; {log.name} may say why")
        return "serving" in log.read_text(encoding="utf-8")


def serve(listener: socket.socket) -> None:
    """Accept, read and throw away until an exception ends it."""
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _mask in selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready is listener:
                    with suppress(OSError):
                        accepted, _peer = listener.accept()
                        accepted.setblocking(False)
                        selector.register(accepted, selectors.EVENT_READ)
                elif _is_over(ready):
                    selector.unregister(ready)
                    ready.close()


def _is_over(connection: socket.socket) -> bool:
    try:
        return not connection.recv(READ_BYTES)
    except BlockingIOError:
        return False
    except OSError:
        return True


def main() -> int:
    """Serve on every address of this namespace; returns the exit status."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    die_with_parent()
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    with socket.create_server(("", DISCARD_PORT), backlog=512) as listener:
        listener.setblocking(False)
        print("serving", flush=True)
        serve(listener)
    return 0


if __name__ == "__main__":
    sys.exit(main())
