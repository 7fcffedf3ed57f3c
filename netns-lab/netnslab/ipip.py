"""tunl0 where the running kernel has no IPIP: a process plays it (`ipip_player`), as wireguard-go plays WireGuard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from netnslab import ipip_player
from netnslab.errors import LabError
from netnslab.namespaces import Space
from netnslab.waiting import wait_for_player

PROGRAM = "ipip-player"
"""What the process calls itself in /proc/PID/comm."""

DEVICE_TIMEOUT_S = 10.0


def start(space: Space, device: str, log: Path) -> subprocess.Popen[bytes]:
    """Start the player of one device in a node; it makes the device."""
    script = str(Path(ipip_player.__file__).resolve())
    with log.open("wb") as output:
        try:
            return subprocess.Popen(
                space.command([sys.executable, "-I", "-S", script, device]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise LabError(f"cannot start nsenter or python: {error}") from error


def wait_for_device(space: Space, device: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the player's device is there.

    Raises:
        LabError: it took longer than DEVICE_TIMEOUT_S, or the player ended; then the message quotes its log.
    """
    path = Path("/sys/class/net") / device
    what, who = f"{device} in {space.name}", f"the player of {device} in {space.name}"
    wait_for_player(lambda: space.call(path.exists), process, log, what=what, who=who, timeout_s=DEVICE_TIMEOUT_S)
