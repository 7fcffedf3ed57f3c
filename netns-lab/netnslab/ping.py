"""What ping says: the tool everybody trusts, and which a fault of new flows cannot disturb.

Its echo requests have no ports, so all of one ping travel in one outer flow that the network has
long remembered. ping(8) runs as it is, for as long as the context lasts.
"""

from __future__ import annotations

import re
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from netnslab.errors import LabError
from netnslab.inhabitant import Inhabitant
from netnslab.waiting import wait_until

INTERVAL_S = 0.1
# "52 packets transmitted, 52 received, 0% packet loss, time 5113ms" (iputils)
SUMMARY = re.compile(r"(\d+) packets transmitted, (\d+) received")


@dataclass(frozen=True, slots=True, kw_only=True)
class PingOpinion:
    """The summary of one ping."""

    label: str
    sent: int
    received: int

    @property
    def is_content(self) -> bool:
        """Every request, but for one that may be in the air at the end, was answered."""
        return self.received > 0 and self.sent - self.received <= 1


class Ping:
    """A ping from one inhabitant to an address.

    Args:
        label: what it shall be called in reports, such as `a3 -> b1`.
        path: file for its output.
    """

    def __init__(self, place: Inhabitant, target: str, *, label: str, path: Path) -> None:
        self._place = place
        self._target = target
        self._label = label
        self._path = path
        self._output: IO[str] | None = None
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._output = self._path.open("w", encoding="utf-8")
        self._process = self._place.popen(
            ["ping", "-n", "-i", str(INTERVAL_S), self._target],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env={"LC_ALL": "C"},
        )
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait_answered(self, *, timeout_s: float = 10.0) -> None:
        """Wait for the first reply."""
        wait_until(
            lambda: "bytes from" in self._path.read_text(encoding="utf-8"),
            timeout_s=timeout_s,
            what=f"ping {self._label} to be answered",
        )

    def stop(self) -> None:
        """End ping, which then writes its summary. May be called twice."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._output is not None:
            self._output.close()

    def opinion(self) -> PingOpinion:
        """Its summary, after `stop()`.

        Raises:
            LabError: it wrote none.
        """
        text = self._path.read_text(encoding="utf-8")
        found = SUMMARY.search(text)
        if found is None:
            raise LabError(f"ping {self._label} wrote no summary: {text[-200:]!r}")
        return PingOpinion(label=self._label, sent=int(found[1]), received=int(found[2]))
