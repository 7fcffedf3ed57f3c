"""FRR's bfdd as the second reference: bfdd and the zebra that tells it of interfaces, on each end.

Both run as root: their own user may not look into the directory of the benchmark.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

from netnslab.bench.bird import BfdSession, BfdTimers
from netnslab.bench.daemon_log import Change, frr_changes
from netnslab.bench.world import World
from netnslab.machine import version_line
from netnslab.waiting import wait_until

DAEMONS = Path("/usr/lib/frr")
PROGRAMS = ("vtysh", str(DAEMONS / "bfdd"), str(DAEMONS / "zebra"))
UP_TIMEOUT_S = 60.0


class _Peer(msgspec.Struct):
    peer: str
    status: str


def version() -> str:
    """The version line of the program, such as `bfdd version 8.4.4`; empty where it is not installed."""
    return version_line([str(DAEMONS / "bfdd"), "--version"])


def configuration(log: Path, sessions: Sequence[BfdSession], timers: BfdTimers) -> str:
    """A configuration file of bfdd."""
    lines = [f"log file {log} debugging", "log timestamp precision 6", "debug bfd peer", "bfd"]
    for each in sessions:
        place = "multihop " if each.device is None else ""
        interface = "" if each.device is None else f" interface {each.device}"
        lines += [
            f" peer {each.remote} {place}local-address {each.local}{interface}",
            f"  detect-multiplier {timers.multiplier}",
            f"  receive-interval {timers.interval_ms}",
            f"  transmit-interval {timers.interval_ms}",
            " exit",
        ]
    return "\n".join([*lines, "exit"]) + "\n"


def up_peers(listing: str) -> set[str]:
    """The peers that are up in the output of `show bfd peers json`; empty while bfdd does not answer."""
    try:
        peers = msgspec.json.decode(listing, type=list[_Peer])
    except msgspec.DecodeError:
        return set()
    return {peer.peer for peer in peers if peer.status == "up"}


class Frr:
    """One running bfdd with its zebra."""

    def __init__(self, world: World, name: str, sessions: Sequence[BfdSession], timers: BfdTimers) -> None:
        self._name = name
        self._directory = world.directory / f"{name}-frr"
        self._directory.mkdir()
        self._log = self._directory / "bfdd.log"
        path = self._directory / "bfdd.conf"
        path.write_text(configuration(self._log, sessions, timers), encoding="ascii")
        # Their remarks on owners of sockets are of no interest here.
        with (self._directory / "stderr").open("w", encoding="utf-8") as remarks:
            zebra = world.start(name, self._command("zebra", "/dev/null"), stdout=remarks, stderr=remarks)
            wait_until((self._directory / "zserv").exists, timeout_s=10, what="zebra's socket")
            bfdd = [*self._command("bfdd", str(path)), "--bfdctl", str(self._directory / "bfdd.ctl")]
            self.child = world.start(name, bfdd, stdout=remarks, stderr=remarks)
        self._zebra = zebra

    @property
    def pid(self) -> int:
        """The process id of bfdd."""
        return self.child.pid

    def sessions_up(self) -> set[str]:
        """The peers whose session is up."""
        said = subprocess.run(
            ["vtysh", "--vty_socket", str(self._directory), "-c", "show bfd peers json"],
            capture_output=True,
            text=True,
            check=False,
        )
        return up_peers(said.stdout)

    def wait_up(self, peers: int) -> None:
        """Wait until so many sessions are up.

        Raises:
            LabError: they are not after UP_TIMEOUT_S.
        """
        what = f"{peers} BFD sessions of bfdd on {self._name}"
        wait_until(lambda: len(self.sessions_up()) >= peers, timeout_s=UP_TIMEOUT_S, what=what, poll_s=0.2)

    def changes(self) -> list[Change]:
        """All changes of state it has logged."""
        return list(frr_changes(self._log.read_text(encoding="utf-8", errors="replace")))

    def _command(self, program: str, configuration_file: str) -> list[str]:
        directory = self._directory
        return [
            str(DAEMONS / program),
            *("-u", "root", "-g", "frrvty", "-f", configuration_file),
            *("-z", str(directory / "zserv"), "-i", str(directory / f"{program}.pid"), "--vty_socket", str(directory)),
        ]
