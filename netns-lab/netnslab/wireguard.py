"""WireGuard devices in a node: the kernel's where the running kernel has them, wireguard-go elsewhere.

Both are configured by `wg setconf`, which speaks netlink to the one and the UAPI socket in /run/wireguard
to the other. That socket is named after the interface, so every node needs a /run/wireguard of its own.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from netnslab import ipip, nebula
from netnslab.errors import LabError
from netnslab.namespaces import Space
from netnslab.process import inside_network, put_first
from netnslab.waiting import wait_for_player, wait_until

PROGRAM = "wireguard-go"
SOCKET_TIMEOUT_S = 10.0
"""wireguard-go takes some 30 ms to open its socket; an emulated machine is twenty times slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """An X25519 key pair, base64 as `wg` prints it."""

    private: str
    public: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One [Peer] section of wg(8)'s file format.

    Attributes:
        endpoint: host:port, or None when the peer speaks first.
        keepalive_s: persistent keepalive in seconds; 0 is off.
    """

    public_key: str
    allowed_ips: tuple[str, ...]
    endpoint: str | None = None
    keepalive_s: int = 0


def render_configuration(*, private_key: str, port: int, peers: Sequence[Peer]) -> str:
    """The text `wg setconf` reads (wg(8), CONFIGURATION FILE FORMAT)."""
    lines = ["[Interface]", f"PrivateKey = {private_key}", f"ListenPort = {port}"]
    for peer in peers:
        lines += ["[Peer]", f"PublicKey = {peer.public_key}", f"AllowedIPs = {', '.join(peer.allowed_ips)}"]
        if peer.endpoint is not None:
            lines.append(f"Endpoint = {peer.endpoint}")
        if peer.keepalive_s:
            lines.append(f"PersistentKeepalive = {peer.keepalive_s}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What runs on nodes beside the kernel for as long as the lab does.

    Attributes:
        command: program and arguments.
        file: its configuration; it runs on those nodes that have it. None for all nodes.
        socket: of the program that it needs.
    """

    command: tuple[str, ...]
    file: Path | None = None
    socket: Path | None = None

    @property
    def name(self) -> str:
        """Of its log."""
        return Path(self.command[0]).name


def generate_keys(count: int) -> list[KeyPair]:
    """Make real keys with `wg genkey`, all in one shell."""
    script = 'for _ in $(seq "$1"); do key=$(wg genkey); echo "$key $(echo "$key" | wg pubkey)"; done'
    command = ["sh", "-ec", script, "sh", str(count)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [KeyPair(private=private, public=public) for private, public in map(str.split, lines)]


def start_userspace(space: Space, device: str, log: Path) -> subprocess.Popen[bytes]:
    """Start wireguard-go for one device; it makes a TUN of that name and serves its socket.

    In the foreground, so that the process we start is the one that must be ended. On one processor at a time: a packet
    is handed from goroutine to goroutine, and with more processors each time to another thread, which costs a quarter
    more while all nodes share the machine.
    """
    return start_program(space, [PROGRAM, "--foreground", device], log, LOG_LEVEL="error", GOMAXPROCS="1")


def start_program(space: Space, argv: Sequence[str], log: Path, **env: str) -> subprocess.Popen[bytes]:
    """Start a program inside a node that stays there for as long as the lab does; its output goes to a file."""
    with log.open("wb") as output:
        try:
            return subprocess.Popen(
                space.command(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **env},
                start_new_session=True,
            )
        except OSError as error:
            raise LabError(f"cannot start nsenter or {argv[0]}: {error}; are they installed?") from error


def wait_to_start(space: Space, program: Program) -> None:
    """Wait until what a program needs is there.

    Raises:
        LabError: it took longer than SOCKET_TIMEOUT_S.
    """
    if program.socket is not None:
        exists = partial(space.call, program.socket.exists)
        wait_until(exists, timeout_s=SOCKET_TIMEOUT_S, what=f"{program.socket} in {space.name}")


def wait_for_socket(space: Space, device: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until wireguard-go listens on its socket inside the node.

    Raises:
        LabError: it took longer than SOCKET_TIMEOUT_S, or it ended; then the message quotes its log.
    """
    socket = Path(f"/run/wireguard/{device}.sock")
    what, who = f"{socket} in {space.name}", f"wireguard-go for {device} in {space.name}"
    wait_for_player(lambda: space.call(socket.exists), process, log, what=what, who=who, timeout_s=SOCKET_TIMEOUT_S)


def put_before_processes(inodes: Iterable[int]) -> None:
    """Let all that plays a device in these network namespaces run before ordinary processes, and before the daemons.

    The kernel's own WireGuard and IPIP work in softirqs and kernel threads, which no process keeps waiting. A userspace
    one that queues behind everything else on a busy machine shows outages that no real node would have.
    """
    for found in inside_network(inodes):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if Path(f"/proc/{found.pid}/comm").read_text(encoding="utf-8").strip() in (
                PROGRAM,
                ipip.PROGRAM,
                nebula.PROGRAM,
            ):
                put_first(found.pid)


def configure(space: Space, device: str, configuration: str) -> None:
    """Give a device its keys and peers."""
    result = subprocess.run(
        space.command(["wg", "setconf", device, "/dev/stdin"]),
        check=False,
        input=configuration,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise LabError(f"wg setconf {device} in {space.name}: {result.stderr.strip()}")
