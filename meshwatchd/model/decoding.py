"""The door: bytes that this process has not written itself are decoded behind it, wherever they come from.

    file, socket, HTTP, netlink, UAPI, frame --> Door: decoder --> value
                                                   |
                                                   +--> DecodeError, counted by source, the first of each reported

Decoders fail in as many ways as there are decoders: of a byte that is no UTF-8, of brackets nested too deeply, of a
number with 400 digits. Behind the door each of them is a DecodeError, which callers expect. What is not in FAILURES (a
failed assertion, a signal) is a fault of this program and passes.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from types import TracebackType
from typing import Final, TypeVar

import msgspec

from meshwatchd.model.errors import DecodeError

FAILURES: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
    struct.error,
)
"""What decoders raise on bytes that are not what they claim to be; UnicodeError and binascii.Error are ValueErrors."""

MAX_SOURCES: Final = 256
"""Files of wg-quick are sources of their own; a node with more of them has the rest counted together."""

MAX_REASON_CHARACTERS: Final = 200
"""Some decoders quote what they were given, and it may be long."""

Kind = TypeVar("Kind")


class Refusals:
    """What the door has refused in this process.

    Attributes:
        counts: refused inputs by source.
        report: called with the first refusal of each source; a process that has a log sets it.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.report: Callable[[DecodeError], object] = lambda _error: None

    def note(self, error: DecodeError) -> DecodeError:
        """Count a refusal, once however many doors it passes; returns it, to be raised."""
        if error.is_noted:
            return error
        error.is_noted = True
        source = error.source if error.source in self.counts or len(self.counts) < MAX_SOURCES else "other"
        self.counts[source] += 1
        if self.counts[source] == 1:
            self.report(error)
        return error

    def added_to(self, counters: Mapping[str, int]) -> dict[str, int]:
        """Counters of the status, with what this process has refused: the engine and its agent count alike."""
        named = {f"refused {source}": count for source, count in self.counts.items()}
        return {**counters, **{name: counters.get(name, 0) + count for name, count in named.items()}}


refusals: Final = Refusals()
"""This process's; one for all doors, as decoders are plain functions."""


class Door(ContextDecorator):
    """Turns whatever decoding fails with into one DecodeError; for a `with` block, or around a function.

    Args:
        source: where the bytes came from; ours to choose, never part of the bytes.
        remedy: what an operator can do about bytes that are refused.

    Raises:
        DecodeError: on leaving, in place of an error of FAILURES.
    """

    def __init__(self, source: str, remedy: str = "") -> None:
        self._source, self._remedy = source, remedy

    def __enter__(self) -> None:
        """Nothing to prepare: a door keeps no state, and one serves all threads."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FAILURES):
            text = (str(error) or type(error).__name__)[:MAX_REASON_CHARACTERS]
            refused = DecodeError(self._source, f"not understood ({text})", self._remedy)
            refusals.note(refused)
            raise refused from error
        if isinstance(error, DecodeError):
            error.remedy = error.remedy or self._remedy
            refusals.note(error)


def decode_json(data: bytes | msgspec.Raw, kind: type[Kind], door: Door) -> Kind:
    """JSON as a value of that type, which can be passed on to another process.

    JSON has numbers of any length; those beyond 64 bits could not be told to the engine, and are refused here.

    Raises:
        DecodeError: it is no JSON of that shape.
    """
    with door:
        return passable(msgspec.json.decode(data, type=kind), door)


def passable(value: Kind, door: Door) -> Kind:
    """A value that frames can carry to the other process.

    Raises:
        DecodeError: a number in it is beyond 64 bits.
    """
    with door:
        _ENCODER.encode(value)
        return value


def decode_frame(data: bytes, decoder: msgspec.msgpack.Decoder[Kind], door: Door) -> Kind:
    """MessagePack as what its decoder promises.

    Raises:
        DecodeError: it is none.
    """
    with door:
        return decoder.decode(data)


_ENCODER: Final = msgspec.msgpack.Encoder()
