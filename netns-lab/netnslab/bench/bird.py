"""BIRD 2 as the reference: one daemon on each end, BFD sessions, and routes that follow them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netnslab.bench.daemon_log import Change, bird_changes
from netnslab.bench.world import Child, World
from netnslab.machine import version_line
from netnslab.waiting import wait_until

PROGRAMS = ("bird", "birdc")
UP_TIMEOUT_S = 30.0
_SESSION = re.compile(r"^(?P<peer>\d+\.\d+\.\d+\.\d+)\s+\S+\s+(?P<state>\w+)\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class BfdSession:
    """One session as one end sees it; `device` is None for a multihop session."""

    local: str
    remote: str
    device: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BfdTimers:
    """Interval (both directions) and detection multiplier of RFC 5880."""

    interval_ms: int
    multiplier: int


def version() -> str:
    """The version line of the program, such as `BIRD version 2.0.12`; empty where it is not installed."""
    return version_line(["bird", "--version"])


def configuration(log: Path, sessions: Sequence[BfdSession], timers: BfdTimers, *, more: str = "") -> str:
    """A configuration file.

    Args:
        log: where it writes changes of state.
        sessions: what to watch.
        timers: of all of them.
        more: further protocols, which ask for their sessions themselves.
    """
    options = f"interval {timers.interval_ms} ms; multiplier {timers.multiplier};"
    devices = sorted({session.device for session in sessions if session.device is not None})
    kinds = [f'interface "{device}" {{ {options} }};' for device in devices]
    if any(session.device is None for session in sessions):
        kinds.append(f"multihop {{ {options} }};")
    neighbours = [] if more else map(_neighbour, sessions)
    body = "\n  ".join([*kinds, *neighbours])
    return (
        f'log "{log}" all;\ntimeformat log "%s.%6f";\nrouter id {sessions[0].local};\n'
        f"protocol device {{ }}\nprotocol bfd {{\n  debug {{ events }};\n  {body}\n}}\n{more}"
    )


def rerouting(destination: str, *, via: str, standby: str, source: str) -> str:
    """Protocols that route a destination over a BFD-watched gateway, and over another one while that is down."""
    return (
        f"protocol kernel {{ ipv4 {{ export filter {{ krt_prefsrc = {source}; accept; }}; }}; }}\n"
        f"protocol static watched {{ ipv4 {{ preference 200; }}; route {destination}/32 via {via} bfd; }}\n"
        f"protocol static standby {{ ipv4 {{ preference 100; }}; route {destination}/32 via {standby}; }}\n"
    )


def up_peers(listing: str) -> set[str]:
    """The peers whose session is Up in the output of `show bfd sessions`."""
    matches = (_SESSION.match(line) for line in listing.splitlines())
    return {match["peer"] for match in matches if match and match["state"] == "Up"}


class Bird:
    """One running BIRD."""

    def __init__(self, world: World, name: str, text: str) -> None:
        self._world, self._name = world, name
        self._control = world.directory / f"{name}-bird.ctl"
        self.log = log_path(world, name)
        path = world.directory / f"{name}-bird.conf"
        path.write_text(text, encoding="ascii")
        self.child: Child = world.start(
            name, ["bird", "-f", "-c", str(path), "-s", str(self._control), "-P", f"{path}.pid"]
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.child.pid

    def sessions_up(self) -> set[str]:
        """The peers whose session is Up."""
        said = subprocess.run(
            ["birdc", "-s", str(self._control), "show", "bfd", "sessions"], capture_output=True, text=True, check=False
        )
        return up_peers(said.stdout)

    def wait_up(self, peers: int) -> None:
        """Wait until so many sessions are Up.

        Raises:
            LabError: they are not after UP_TIMEOUT_S.
        """
        what = f"{peers} BFD sessions of BIRD on {self._name}"
        wait_until(lambda: len(self.sessions_up()) >= peers, timeout_s=UP_TIMEOUT_S, what=what, poll_s=0.1)

    def changes(self) -> list[Change]:
        """All changes of state it has logged."""
        return list(bird_changes(self.log.read_text(encoding="utf-8", errors="replace")))


def log_path(world: World, name: str) -> Path:
    """Where the BIRD of a machine writes its log."""
    return world.directory / f"{name}-bird.log"


def _neighbour(session: BfdSession) -> str:
    if session.device is None:
        return f"neighbor {session.remote} local {session.local} multihop yes;"
    return f'neighbor {session.remote} dev "{session.device}" local {session.local};'
