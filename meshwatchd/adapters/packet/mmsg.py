"""Many datagrams with one system call: recvmmsg(2) and sendmmsg(2), called in libc.

Python has neither. Both batches own their memory: headers, names, packets and ancillary data lie in arrays that are
made once, so that a call costs what it writes into them. Layouts are those of 64-bit Linux:

    struct mmsghdr, 64 bytes        linux/socket.h
    0   pointer  name
    8   u32      its length         the kernel shortens it when receiving
    16  pointer  vector of one piece
    24  u64      1
    32  pointer  ancillary data
    40  u64      its length         shortened likewise
    48  i32      flags
    56  u32      bytes of the datagram, set by the kernel

    struct iovec, 16 bytes          linux/uio.h
    0   pointer  packet
    8   u64      its length

What a packet of 240 bytes costs on loopback, the kernel's share included (Linux 6.18, us of CPU):

    in a batch of                        1      4      16     32
    recvmsg until it says EAGAIN         3.0    1.9    1.4    1.4
    recvmmsg                             3.4    1.5    1.0    1.0
    sendmsg with ancillary data          2.6    2.3    2.2    2.1
    sendmmsg with ancillary data         3.8    2.2    1.8    1.8
    sendto                               2.1    1.9    1.7    1.7
    sendmmsg without ancillary data      3.9    2.2    1.7    1.8

So both sides receive in batches and the reflector, whose answers need ancillary data, sends in batches. The prober does
not: its probes are spread over several sockets, batches of one socket are small, and large ones win nothing.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import struct
from typing import Final

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SENDMMSG: Final = _LIBC.sendmmsg
_SENDMMSG.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
_RECVMMSG: Final = _LIBC.recvmmsg
_RECVMMSG.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)

_HEADER: Final = struct.Struct("@P I4x P Q P Q i4x I4x")
_VECTOR: Final = struct.Struct("@P Q")
_RECEIVED: Final = struct.Struct("@8x I 28x Q 8x I4x")
"""What the kernel writes into a header: lengths of the name, of the ancillary data and of the datagram."""

NAME_BYTES: Final = 32
"""Room for a sockaddr_in6 of 28 bytes, aligned."""
_ALIGNMENT: Final = 8
MAX_LAYOUTS: Final = 64
"""Kinds of datagrams whose layout is kept; size probes may have any length."""

_Lengths = tuple[int, int, int]
"""Of a name, of ancillary data and of a packet."""

Datagram = tuple[bytes, bytes, bytes]
"""A packet, its sender as a sockaddr, its ancillary data as the kernel wrote it."""


def _aligned(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


class _Slots:
    """The memory of a batch: one header, one vector, one name, one ancillary area and one packet for each datagram."""

    def __init__(self, count: int, packet_bytes: int, control_bytes: int) -> None:
        control_bytes = _aligned(control_bytes)
        self.control_at = NAME_BYTES
        self.packet_at = NAME_BYTES + control_bytes
        self.stride = self.packet_at + _aligned(packet_bytes)
        self.headers = ctypes.create_string_buffer(count * _HEADER.size)
        self.vectors = ctypes.create_string_buffer(count * _VECTOR.size)
        # Of a mapping only those pages weigh anything in which something ever lay: most datagrams are far shorter than
        # the longest, and few batches are full. A buffer of ctypes is zeroed, and so all there.
        self.contents = mmap.mmap(-1, count * self.stride, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._contents_at = ctypes.addressof(ctypes.c_char.from_buffer(self.contents))
        self.address = ctypes.addressof(self.headers)
        # Nearly all datagrams are as long as those before them, and one call takes all their parts out or puts them in.
        self._layouts: dict[_Lengths, struct.Struct] = {}
        for slot in range(count):
            self.shape(slot, NAME_BYTES, control_bytes, packet_bytes)

    def shape(self, slot: int, name_bytes: int, control_bytes: int, packet_bytes: int) -> None:
        """Let a header point to its parts and say how long they are."""
        vector = ctypes.addressof(self.vectors) + slot * _VECTOR.size
        name = self._contents_at + slot * self.stride
        control = name + self.control_at if control_bytes else 0
        _VECTOR.pack_into(self.vectors, slot * _VECTOR.size, name + self.packet_at, packet_bytes)
        fields = (name, name_bytes, vector, 1, control, control_bytes, 0, 0)
        _HEADER.pack_into(self.headers, slot * _HEADER.size, *fields)

    def layout(self, lengths: _Lengths) -> struct.Struct:
        """Name, ancillary data and packet of a slot, where they are so long."""
        layout = self._layouts.get(lengths)
        if layout is None:
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            name, control, packet = lengths
            gaps = self.control_at - name, self.packet_at - self.control_at - control
            layout = struct.Struct(f"{name}s {gaps[0]}x {control}s {gaps[1]}x {packet}s")
            self._layouts[lengths] = layout
        return layout


class ReceiveBatch:
    """Takes up to `slots` datagrams out of a socket at once.

    Args:
        slots: datagrams of one call.
        packet_bytes: a longer datagram is cut off.
        control_bytes: room for the ancillary data of one datagram; what does not fit is left out.
    """

    def __init__(self, slots: int, packet_bytes: int, control_bytes: int) -> None:
        self.slots = slots
        self._memory = _Slots(slots, packet_bytes, control_bytes)
        self._headers = memoryview(self._memory.headers).cast("B")
        # The kernel shortens the lengths it was given: this is what they were.
        self._fresh = bytes(self._headers)
        self._used = 0

    def receive(self, fd: int) -> list[Datagram]:
        """The datagrams that wait in a socket, at most `slots`; fewer mean that it is empty.

        Raises:
            OSError: whatever the kernel says but EAGAIN.
        """
        memory, used = self._memory, self._used * _HEADER.size
        self._headers[:used] = self._fresh[:used]
        self._used = 0
        count = _RECVMMSG(fd, memory.address, self.slots, socket.MSG_DONTWAIT, None)
        if count < 0:
            error = ctypes.get_errno()
            if error == errno.EAGAIN:
                return []
            raise OSError(error, os.strerror(error))
        self._used = count
        contents, stride, at = memory.contents, memory.stride, 0
        lengths, layout, received = None, None, []
        for told in _RECEIVED.iter_unpack(self._headers[: count * _HEADER.size]):
            if layout is None or told != lengths:
                lengths, layout = told, memory.layout(told)
            name, control, packet = layout.unpack_from(contents, at)
            received.append((packet, name, control))
            at += stride
        return received


class SendBatch:
    """Collects up to `slots` datagrams and sends them from one socket."""

    def __init__(self, slots: int, packet_bytes: int, control_bytes: int = 0) -> None:
        self.slots = slots
        self._memory = _Slots(slots, packet_bytes, control_bytes)
        self._shapes = [(0, 0, 0)] * slots
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, packet: bytes | bytearray, name: bytes, control: bytes = b"") -> None:
        """Copy one datagram for a sockaddr, with ancillary data as struct cmsghdr has it, into the next slot; there
        must be one, and it must be long enough.
        """
        slot, memory = self._count, self._memory
        shape = (len(name), len(control), len(packet))
        memory.layout(shape).pack_into(memory.contents, slot * memory.stride, name, control, packet)
        # Probes are all of one length, but for the few that carry a message.
        if shape != self._shapes[slot]:
            self._shapes[slot] = shape
            memory.shape(slot, *shape)
        self._count = slot + 1

    def send(self, fd: int) -> list[tuple[int, int]]:
        """Send what was collected; the batch is empty afterwards.

        sendmmsg(2) stops at the first datagram that fails, and tells the error only if that was the first of the call.
        So the next call begins with the one that failed, and the call after that with its successor.

        Returns:
            (position in the batch, errno) of each datagram that was not sent.
        """
        failed = []
        done, count, address = 0, self._count, self._memory.address
        while done < count:
            sent = _SENDMMSG(fd, address + done * _HEADER.size, count - done, socket.MSG_DONTWAIT)
            if sent > 0:
                done += sent
            else:
                failed.append((done, ctypes.get_errno()))
                done += 1
        self._count = 0
        return failed
