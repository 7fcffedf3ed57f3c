"""Disturbances: processes that keep cores busy, and one that floods a port."""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from netnslab.bench.world import Child, World

BATCH = 100
"""Packets for each call of sendmmsg(2)."""
PACKET_BYTES = 300
"""About the length of a probe."""


def spin(world: World, name: str, count: int) -> list[Child]:
    """Start processes of ordinary priority that never rest."""
    return [world.start(name, ["sh", "-c", "while :; do :; done"]) for _ in range(count)]


def flood(world: World, name: str, *, address: str, port: int, rate: int) -> Child:
    """Start a flood of garbage; ends with SIGTERM and then says on its standard output how much it sent."""
    command = [sys.executable, "-m", "netnslab.bench.load", address, str(port), "--rate", str(rate)]
    with (world.directory / "flood.txt").open("w", encoding="ascii") as output:
        return world.start(name, command, stdout=output)


def flooded_per_s(world: World) -> float:
    """The rate that an ended flood has reached."""
    text = (world.directory / "flood.txt").read_text(encoding="ascii").split()
    return float(text[0]) if text else 0.0


class _IoVector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MessageHeader(ctypes.Structure):
    """struct msghdr and the length of struct mmsghdr behind it (socket.h)."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_IoVector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_uint32),
        ("sent", ctypes.c_uint32),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Flood until SIGTERM, in steps of a millisecond."""
    parser = argparse.ArgumentParser(prog="netnslab.bench.load")
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--rate", type=int, default=100_000)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    garbage = [ctypes.create_string_buffer(os.urandom(PACKET_BYTES), PACKET_BYTES) for _ in range(BATCH)]
    vectors = [_IoVector(ctypes.addressof(each), PACKET_BYTES) for each in garbage]
    headers = (_MessageHeader * BATCH)(
        *[_MessageHeader(vectors=ctypes.pointer(each), vector_count=1) for each in vectors]
    )
    sendmmsg = ctypes.CDLL(None, use_errno=True).sendmmsg
    sent, began_ns = 0, time.monotonic_ns()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as target:
        target.connect((options.address, options.port))
        try:
            while True:
                wanted = (time.monotonic_ns() - began_ns) * options.rate // 1_000_000_000
                while sent < wanted:
                    sent += max(0, sendmmsg(target.fileno(), headers, BATCH, 0))
                time.sleep(0.001)
        except SystemExit:
            print(f"{sent / ((time.monotonic_ns() - began_ns) / 1e9):.0f}", flush=True)
    return 0


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
