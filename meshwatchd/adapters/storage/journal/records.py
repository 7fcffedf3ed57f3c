"""One event as bytes and back.

A record begins with a byte for its kind and 4 bytes for the nanoseconds since the record before (all little-endian).
Ticks, answers and requests are nearly all there is, so they have fixed forms:

    TICK      nothing more
    HEARD     a tick with the nanoseconds since everything was heard (4)
    REPLY     session (2), sequence number (4), nanoseconds to the answer (4), number of banner and epoch (2)
    REQUEST   number of the sender and its flow (2), number of the banner (2)

Added to the kind is ASKED where the engine was asked for its deadline since the event before: being asked tidies up its
heap, and with it the order in which things due at one instant are looked at.

What they number, and every other event, is a msgpack array with its length (4) in front. So is what does not fit, such
as an answer after seconds. Banners, epochs and senders change rarely; each gets its number when it first comes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, get_args

import msgspec

from meshwatchd.model import events as ev
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.outputs import Output, SendProbe

TICK, REPLY, REQUEST, EVENT, OUTPUTS, BANNER, SENDER, HEARD = range(8)

ASKED: Final = 0x80

_HEAD: Final = struct.Struct("<BI")
_REPLY: Final = struct.Struct("<BIHIIH")
_REQUEST: Final = struct.Struct("<BIHH")
_HEARD: Final = struct.Struct("<BII")
_LONG: Final = struct.Struct("<BII")

MAX_NUMBERS: Final = 4096
"""Beyond that banners and senders are numbered anew: they are kept alive by being numbered."""

_MAX_GAP: Final = 0xFFFF_FFFF
_NUMBER_BITS: Final = 64
_BIG: Final = 1
"""Code of the extension for a number that has more bits than MessagePack has for one: what a node says of more pairs of
locations than twelve."""


class Input(NamedTuple):
    """An event and the instant at which the engine was given it.

    Attributes:
        is_asked: the engine was asked for its deadline since the event before.
        said: what it decided, probes left out.
    """

    at_ns: int
    event: ev.Event
    is_asked: bool
    said: tuple[Output, ...]


class RecordEncoder:
    """Turns events into records of one segment."""

    def __init__(self, began_ns: int) -> None:
        self._last_ns = began_ns
        self._encoder = msgspec.msgpack.Encoder()
        self._banners: dict[tuple[int, int], tuple[int, ev.Banner]] = {}
        self._senders: dict[tuple[object, ...], int] = {}

    def encode(
        self, event: ev.Event, now_ns: int, outputs: list[Output], into: bytearray, *, is_asked: bool = True
    ) -> None:
        """Append the record of an event and, where anything but probes came of it, of what was said."""
        kind, flag = type(event), ASKED if is_asked else 0
        since = now_ns - self._last_ns
        if kind is ev.ReplyReceived or kind is ev.RequestReceived or kind is ev.Tick:
            try:
                into += self._short(event, now_ns, flag, into)
            except struct.error:
                self._long(EVENT | flag, self._bridge(since, into), event, into)
        else:
            self._long(EVENT | flag, self._bridge(since, into), event, into)
        self._last_ns = now_ns
        for output in outputs:
            if type(output) is not SendProbe:
                self._long(OUTPUTS, 0, [each for each in outputs if type(each) is not SendProbe], into)
                break

    def _short(self, event: ev.Event, now_ns: int, flag: int, into: bytearray) -> bytes:
        """The fixed form; raises struct.error for what does not fit in it."""
        since = now_ns - self._last_ns
        if isinstance(event, ev.Tick):
            if event.heard_ns:
                return _HEARD.pack(HEARD | flag, since, now_ns - event.heard_ns)
            return _HEAD.pack(TICK | flag, since)
        if isinstance(event, ev.ReplyReceived):
            banner = self._banner(event.banner, event.peer_epoch, into)
            return _REPLY.pack(REPLY | flag, since, event.session, event.seq, event.rtt_ns, banner)
        if isinstance(event, ev.RequestReceived):
            if event.coordination is not None or event.size_bytes:
                raise struct.error
            sender = (event.peer, event.layer, event.path, event.flow, event.is_fresh_epoch, event.is_confirm)
            number = self._senders.get(sender)
            if number is None:
                number = self._sender(sender, into)
            return _REQUEST.pack(REQUEST | flag, since, number, self._banner(event.banner, 0, into))
        raise struct.error

    def _bridge(self, since: int, into: bytearray) -> int:
        """A gap that 4 bytes cannot hold is told in steps; returns what is left of it."""
        while since > _MAX_GAP:
            self._long(OUTPUTS, _MAX_GAP, [], into)
            since -= _MAX_GAP
        return since

    def _banner(self, banner: ev.Banner, epoch: int, into: bytearray) -> int:
        # By identity: adapters hand out the same object while nothing changes, and hashing one costs more than that.
        known = self._banners.get((id(banner), epoch))
        if known is not None:
            return known[0]
        if len(self._banners) >= MAX_NUMBERS:
            self._banners.clear()
        number = len(self._banners)
        self._banners[id(banner), epoch] = (number, banner)
        self._long(BANNER, 0, (number, epoch, banner), into)
        return number

    def _sender(self, sender: tuple[object, ...], into: bytearray) -> int:
        if len(self._senders) >= MAX_NUMBERS:
            self._senders.clear()
        number = self._senders[sender] = len(self._senders)
        self._long(SENDER, 0, (number, sender), into)
        return number

    def _long(self, kind: int, since: int, content: object, into: bytearray) -> None:
        try:
            payload = self._encoder.encode(content)
        except OverflowError:
            payload = self._encoder.encode(_portable(msgspec.to_builtins(content)))
        into += _LONG.pack(kind, since, len(payload))
        into += payload


def _portable(content: object) -> object:
    """The same with an extension in the place of each number beyond 64 bits."""
    match content:
        case int() if content.bit_length() > _NUMBER_BITS:
            return msgspec.msgpack.Ext(_BIG, content.to_bytes(-(-content.bit_length() // 8), "big"))
        case dict():
            return {name: _portable(value) for name, value in content.items()}
        case list() | tuple():
            return [_portable(value) for value in content]
    return content


def _read_extension(code: int, data: memoryview) -> int:
    if code != _BIG:
        raise ValueError(f"extension {code}")
    return int.from_bytes(data, "big")


def decode(content: bytes, began_ns: int) -> Iterator[Input]:
    """The inputs of a segment, in order; a record that was cut off by a crash is the end of it.

    Raises:
        One of `model.decoding.FAILURES`: it is no journal, or one of another version.
    """
    return _Decoder(began_ns).decode(content)


class _Decoder:
    def __init__(self, began_ns: int) -> None:
        self._at_ns = began_ns
        self._banners: dict[int, tuple[int, ev.Banner]] = {}
        self._senders: dict[int, dict[str, Any]] = {}

    def decode(self, content: bytes) -> Iterator[Input]:
        waiting: tuple[int, ev.Event, bool] | None = None
        for head, since, fields in _records(content):
            self._at_ns += since
            kind = head & ~ASKED
            if kind == BANNER:
                number, epoch, banner = fields
                self._banners[number] = epoch, msgspec.convert(banner, ev.Banner)
            elif kind == SENDER:
                self._learn_sender(*fields)
            elif kind == OUTPUTS:
                if waiting is not None:
                    yield Input(*waiting, tuple(_output(said) for said in fields))
                waiting = None
            else:
                if waiting is not None:
                    yield Input(*waiting, ())
                waiting = self._at_ns, self._event(kind, fields), bool(head & ASKED)
        if waiting is not None:
            yield Input(*waiting, ())

    def _learn_sender(self, number: int, sender: list[Any]) -> None:
        peer, layer, path, flow, is_fresh, is_confirm = sender
        self._senders[number] = {
            "peer": NodeName(peer),
            "layer": Layer(layer),
            "path": path,
            "flow": FlowClass(flow),
            "is_fresh_epoch": is_fresh,
            "is_confirm": is_confirm,
        }

    def _event(self, kind: int, fields: Any) -> ev.Event:
        if kind == TICK:
            return ev.Tick()
        if kind == HEARD:
            return ev.Tick(heard_ns=self._at_ns - fields[0])
        if kind == REPLY:
            session, seq, rtt_ns, number = fields
            epoch, banner = self._banners[number]
            return ev.ReplyReceived(session=session, seq=seq, rtt_ns=rtt_ns, peer_epoch=epoch, banner=banner)
        if kind == REQUEST:
            sender, number = fields
            return ev.RequestReceived(**self._senders[sender], banner=self._banners[number][1])
        event: ev.Event = msgspec.convert(fields, ev.Event)
        return event


_FIXED: Final = {TICK: _HEAD, HEARD: _HEARD, REPLY: _REPLY, REQUEST: _REQUEST}


def _records(content: bytes) -> Iterator[tuple[int, int, Any]]:
    """Kind, nanoseconds and the rest of each record that is complete."""
    position, end = 0, len(content)
    while position < end:
        form = _FIXED.get(content[position] & ~ASKED, _LONG)
        if position + form.size > end:
            return
        kind, since, *rest = form.unpack_from(content, position)
        position += form.size
        if form is _LONG:
            if kind & ~ASKED > SENDER:
                raise ValueError(f"byte {position}: kind {kind}")
            if position + rest[0] > end:
                return
            payload = memoryview(content)[position : position + rest[0]]
            position += rest[0]
            yield kind, since, msgspec.msgpack.decode(payload, ext_hook=_read_extension)
        else:
            yield kind, since, rest


_OUTPUTS: Final[dict[str, type[Output]]] = {kind.__name__: kind for kind in get_args(Output)}


def _output(said: dict[str, Any]) -> Output:
    """Facts and commands name themselves in fields of different names."""
    return msgspec.convert(said, _OUTPUTS[said.get("fact") or said["command"]])
