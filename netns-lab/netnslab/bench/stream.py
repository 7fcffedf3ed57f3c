"""An independent stream of UDP packets: `python -m netnslab.bench.stream send|receive ...`, each its own process.

The sender keeps an even pace whatever happens; the receiver notes when each packet arrived and over which device.
Both write fixed records to a file: (number, CLOCK_MONOTONIC of sending in ns) and (number, ns of arrival, interface).
They know nothing of what is measured, and have real-time priority from whoever starts them.
"""

from __future__ import annotations

import argparse
import signal
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO, NoReturn

PORT = 9
SENT = struct.Struct("<QQ")
ARRIVED = struct.Struct("<QQI")

_IP_PKTINFO = 8
_PKTINFO = struct.Struct("@i4s4s")
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_SECOND = 1_000_000_000
_PACKET = struct.Struct("<Q")
_BUFFER_BYTES = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Send or receive until SIGTERM."""
    parser = argparse.ArgumentParser(prog="netnslab.bench.stream")
    parser.add_argument("role", choices=["send", "receive"])
    parser.add_argument("--source", default="")
    parser.add_argument("--address", required=True)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _leave)
    with options.output.open("wb", buffering=64 * 1024) as output:
        try:
            if options.role == "send":
                _send(options.source, options.address, options.rate, output)
            else:
                _receive(options.address, output)
        except SystemExit:
            output.flush()
    return 0


def _send(source: str, address: str, rate: int, output: BinaryIO) -> NoReturn:
    interval_ns = _SECOND // rate
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        due_ns = time.monotonic_ns()
        number = 0
        while True:
            left_ns = due_ns - time.monotonic_ns()
            if left_ns > 0:
                time.sleep(left_ns / 1e9)
            sent_ns = time.monotonic_ns()
            # Without a route, for the moment in which somebody exchanges it, a packet is as lost as any other.
            with suppress(OSError):
                sender.sendto(_PACKET.pack(number), (address, PORT))
            output.write(SENT.pack(number, sent_ns))
            number += 1
            due_ns += interval_ns


def _receive(address: str, output: BinaryIO) -> NoReturn:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        receiver.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        receiver.bind((address, PORT))
        while True:
            data, ancillary, _flags, _address = receiver.recvmsg(64, 256)
            now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
            interface, stamp_ns = 0, wall_ns
            for level, kind, value in ancillary:
                if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO):
                    interface = _PKTINFO.unpack(value)[0]
                elif (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                    seconds, nanoseconds = _TIMESPEC.unpack(value)
                    stamp_ns = seconds * _SECOND + nanoseconds
            (number,) = _PACKET.unpack(data)
            output.write(ARRIVED.pack(number, now_ns - max(0, wall_ns - stamp_ns), interface))


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
