"""One varlink call to a socket inside a lab's node: JSON and a NUL byte each way (https://varlink.org/Method-Call).

A command-line client costs a Python interpreter for each question; six nodes asked twice a second would keep
both cores of a small machine busy and disturb what is watched.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from functools import partial

from netnslab.errors import LabError
from netnslab.inhabitant import Inhabitant

TIMEOUT_S = 15.0
_CHUNK_BYTES = 1 << 16

Parameters = Mapping[str, object]


class CallFailedError(LabError):
    """Nobody listens, or the answer is an error."""


def call(place: Inhabitant, path: str, method: str, parameters: Parameters | None = None) -> list[Parameters]:
    """Call a method and return the parameters of all its replies.

    Raises:
        CallFailedError: the socket cannot be reached, falls silent, or replies with an error.
    """
    try:
        with place.space.call(partial(_connect, path)) as connection:
            request = {"method": method, "parameters": dict(parameters or {}), "more": True}
            connection.sendall(json.dumps(request).encode() + b"\0")
            return list(_replies(connection))
    except OSError as error:
        raise CallFailedError(f"{method} at {path} in {place.name}: {error}") from error


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(TIMEOUT_S)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def _replies(connection: socket.socket) -> Iterator[Parameters]:
    data = b""
    while chunk := connection.recv(_CHUNK_BYTES):
        *complete, data = (data + chunk).split(b"\0")
        for reply in map(json.loads, complete):
            if "error" in reply:
                raise CallFailedError(f"{reply['error']}: {reply.get('parameters')}")
            yield reply.get("parameters", {})
            if not reply.get("continues"):
                return
    raise CallFailedError("the connection was closed before the last reply")
