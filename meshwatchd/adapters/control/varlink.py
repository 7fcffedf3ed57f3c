"""Varlink messages: JSON and a NUL byte.

Source: https://varlink.org/Service and https://varlink.org/Method-Call.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from meshwatchd.model.decoding import Door, decode_json, refusals
from meshwatchd.model.errors import DecodeError

MAX_MESSAGE_BYTES = 64 * 1024
"""Of a request. Replies are as long as they need to be: their reader asked for them."""

Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What Varlink's `int` holds, and what can be told to the engine; JSON has no such limit."""

INTERFACE_NOT_FOUND = "org.varlink.service.InterfaceNotFound"
METHOD_NOT_FOUND = "org.varlink.service.MethodNotFound"
INVALID_PARAMETER = "org.varlink.service.InvalidParameter"
EXPECTED_MORE = "org.varlink.service.ExpectedMore"
PERMISSION_DENIED = "org.varlink.service.PermissionDenied"

CALLS = Door("control socket", "a program that is no meshwatchctl of this version writes to it")
REPLIES = Door(
    "meshwatchd's answer", "after an upgrade: systemctl restart meshwatchd (meshwatchctl version shows both)"
)


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A method call.

    Attributes:
        parameters: the JSON text of an object, decoded when the method is known.
        oneway: no reply is wanted.
        more: several replies are welcome.
    """

    method: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    oneway: bool = False
    more: bool = False
    upgrade: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply, or one of several.

    Attributes:
        error: full name of the error; `parameters` then are the error's.
        continues: more replies to the same call follow.
    """

    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    error: str = ""
    continues: bool = False


class VarlinkError(Exception):
    """An error that is the reply to a call."""

    def __init__(self, name: str, **parameters: object) -> None:
        self.name = name
        self.parameters = parameters
        super().__init__(name)


def encode_call(method: str, parameters: object = None, *, more: bool = False) -> bytes:
    """A call with its closing NUL."""
    return _encode(Call(method=method, parameters=_raw(parameters), more=more))


def encode_reply(parameters: object = None, *, continues: bool = False) -> bytes:
    """A reply with its closing NUL."""
    return _encode(Reply(parameters=_raw(parameters), continues=continues))


def encode_error(error: VarlinkError) -> bytes:
    """An error reply with its closing NUL."""
    return _encode(Reply(parameters=_raw(error.parameters), error=error.name))


def decode_call(message: bytes) -> Call:
    """Read a call without its NUL.

    Raises:
        DecodeError: no JSON, or no call.
    """
    return decode_json(message, Call, CALLS)


def decode_reply(message: bytes) -> Reply:
    """Read a reply without its NUL.

    Raises:
        DecodeError: no JSON, or no reply.
    """
    return decode_json(message, Reply, REPLIES)


class Splitter:
    """Cuts a stream of bytes into messages of at most `max_bytes`, or of any length where that is None."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that these bytes complete, without their NUL.

        Raises:
            DecodeError: a message is longer than allowed.
        """
        self._rest += data
        *messages, rest = bytes(self._rest).split(b"\0")
        self._rest = bytearray(rest)
        if self._max_bytes is not None and any(len(part) > self._max_bytes for part in (*messages, rest)):
            raise refusals.note(DecodeError("control socket", f"a message is longer than {self._max_bytes} bytes"))
        return messages


def _raw(parameters: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({} if parameters is None else parameters))


def _encode(message: Call | Reply) -> bytes:
    return msgspec.json.encode(message) + b"\0"
