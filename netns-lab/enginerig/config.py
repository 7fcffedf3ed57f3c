"""What one rig is told, as JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec


class RigSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session to run.

    Attributes:
        group: index of the group whose leg it crosses.
        is_pinned: whether it belongs to the class of known flows.
        path: number on the wire; sessions of one path share their estimate of the delay, and are phased apart.
    """

    peer: str
    group: int
    is_pinned: bool
    path: int
    source: str
    destination: str
    port: int


class RigSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """The rule that moves traffic while a leg is down."""

    priority: int
    table: int


class RigConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One process.

    Attributes:
        peers: the other nodes of the mesh.
        secret_hex: the mesh key, 32 bytes.
        listen: ports to answer on.
        identities: further nodes that this process plays, each with the port it answers on.
        profile: of the timers.
        interval_ns: between probes of a session instead of the profile's; 0 leaves that.
        answers_per_s: what this node answers at most; 0 leaves the product's limits. A rig that plays many nodes
            is entitled to the sum of what these would be.
        is_realtime: whether it asks for SCHED_RR as the daemon does.
        events: file to which events are appended as JSON lines.
        samples: file that is replaced by counters and lateness when a byte is written to the FIFO `samples`.ask.
    """

    node: str
    peers: tuple[str, ...]
    secret_hex: str
    events: Path
    samples: Path
    sessions: tuple[RigSession, ...] = ()
    listen: tuple[int, ...] = ()
    identities: tuple[tuple[str, int], ...] = ()
    profile: str = "default"
    interval_ns: int = 0
    answers_per_s: int = 0
    is_realtime: bool = True
    switch: RigSwitch | None = None


def read_config(path: str) -> RigConfig:
    """The configuration in a file of JSON; file names are strings there."""
    return msgspec.json.decode(Path(path).read_bytes(), type=RigConfig, dec_hook=_path)


def _path(kind: type, value: object) -> object:
    return kind(value)
