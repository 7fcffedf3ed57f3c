"""The client's end of the control socket: a call, its replies, and what to check when there are none."""

from __future__ import annotations

import grp
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from meshwatchd.adapters.control.varlink import (
    INTERFACE_NOT_FOUND,
    INVALID_PARAMETER,
    METHOD_NOT_FOUND,
    PERMISSION_DENIED,
    REPLIES,
    Reply,
    Splitter,
    decode_reply,
    encode_call,
)
from meshwatchd.cli.main import EXIT_UNREACHABLE
from meshwatchd.model.decoding import Kind, decode_json
from meshwatchd.model.errors import ControlError, DecodeError

EXIT_NOT_WATCHING = 4
"""The daemon runs and watches nothing: neither well nor broken."""
EXIT_NO_PERMISSION = 77
"""EX_NOPERM of sysexits.h."""

ANSWER_TIMEOUT_S = 15.0
"""Longer than the daemon waits for its engine: its own words are better than ours."""
_CHUNK_BYTES = 64 * 1024
_UNKNOWN = frozenset({INTERFACE_NOT_FOUND, METHOD_NOT_FOUND, INVALID_PARAMETER})
"""What a daemon of another version answers where it has no such command, or fewer options."""


class Client:
    """Calls methods of `io.meshwatch.Control`.

    Args:
        timeout_s: the longest silence before the daemon counts as wedged.
    """

    def __init__(self, path: Path, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def call(self, method: str, parameters: object = None) -> msgspec.Raw:
        """Call a method that replies once; returns the JSON of its reply's parameters.

        Raises:
            ControlError: no daemon, no permission, no answer, or an error reply; the code is the exit status.
        """
        return next(self.stream(method, parameters, more=False))

    def ask(self, method: str, kind: type[Kind], parameters: object = None) -> Kind:
        """The reply to a method of `io.meshwatch.Control`, named without its interface.

        Raises:
            ControlError: as for `call`.
            DecodeError: the reply is of another kind.
        """
        return decode_json(self.call(f"io.meshwatch.Control.{method}", parameters), kind, REPLIES)

    def version(self) -> object:
        """The daemon's version; raises as `ask` does."""
        return decode_json(self.call("org.varlink.service.GetInfo"), dict[str, object], REPLIES).get("version")

    def stream(
        self, method: str, parameters: object = None, *, more: bool = True, is_patient: bool = False
    ) -> Iterator[msgspec.Raw]:
        """Call a method and yield the parameters of each reply; `is_patient` lets the daemon be silent for ever.

        Raises:
            ControlError: as for `call`.
        """
        call = encode_call(method, parameters, more=more)
        with self._connect() as connection:
            try:
                connection.sendall(call)
                connection.settimeout(None if is_patient else self._timeout_s)
                for reply in self._replies(connection):
                    yield _check(reply)
                    if not reply.continues:
                        return
            except TimeoutError as error:
                raise ControlError(
                    EXIT_UNREACHABLE,
                    f"meshwatchd took the call and does not answer; look at: journalctl -u meshwatchd ({self._path})",
                ) from error
            except (ConnectionError, DecodeError) as error:
                raise self._lost(str(error)) from error
        raise self._lost("it closed the connection")

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Before connecting as well: where nobody takes calls off a full queue, connect(2) would wait for ever.
        connection.settimeout(self._timeout_s)
        try:
            connection.connect(str(self._path))
        except OSError as error:
            connection.close()
            raise self._unreachable(error) from error
        return connection

    def _replies(self, connection: socket.socket) -> Iterator[Reply]:
        splitter = Splitter()
        while data := connection.recv(_CHUNK_BYTES):
            for message in splitter.feed(data):
                yield decode_reply(message)

    def _unreachable(self, error: OSError) -> ControlError:
        path = self._path
        if isinstance(error, PermissionError):
            return ControlError(EXIT_NO_PERMISSION, f"you may not open {path}; use sudo{_or_join(path)}")
        if isinstance(error, FileNotFoundError):
            problem = f"there is no socket {path}; is meshwatchd running? look at: systemctl status meshwatchd"
            return ControlError(EXIT_UNREACHABLE, f"{problem} (another place: --socket or MESHWATCH_SOCKET)")
        if isinstance(error, BlockingIOError):
            return ControlError(
                EXIT_UNREACHABLE,
                f"meshwatchd takes no calls on {path}, and others wait already; look at: journalctl -u meshwatchd",
            )
        if isinstance(error, ConnectionRefusedError):
            # A daemon that is stopped at this moment has removed it.
            if path.exists() and not path.is_socket():
                return ControlError(
                    EXIT_UNREACHABLE, f"{path} is no socket; another place: --socket or MESHWATCH_SOCKET"
                )
            return ControlError(
                EXIT_UNREACHABLE, f"nobody listens on {path}; meshwatchd has died: systemctl status meshwatchd"
            )
        return ControlError(EXIT_UNREACHABLE, f"cannot reach meshwatchd on {path}: {error.strerror or error}")

    def _lost(self, why: str) -> ControlError:
        return ControlError(
            EXIT_UNREACHABLE, f"lost meshwatchd on {self._path}: {why}; look at: journalctl -u meshwatchd"
        )


def _or_join(path: Path) -> str:
    """The group whose members may open a socket, where it is not root's alone."""
    try:
        group = grp.getgrgid(path.stat().st_gid).gr_name
    except (OSError, KeyError):
        return ""
    return "" if group == "root" else f", or join the group: usermod -aG {group} YOU (as root), then log in again"


def _check(reply: Reply) -> msgspec.Raw:
    if not reply.error:
        return reply.parameters
    if reply.error == PERMISSION_DENIED:
        raise ControlError(EXIT_NO_PERMISSION, "only root may do that; use sudo, or --dry-run to look only")
    parameters = decode_json(reply.parameters, dict[str, object], REPLIES)
    if "reason" in parameters:
        raise ControlError(EXIT_UNREACHABLE, f"meshwatchd: {parameters['reason']}")
    details = ", ".join(f"{key} {value}" for key, value in parameters.items())
    if reply.error in _UNKNOWN:
        what = f"meshwatchd does not know what this meshwatchctl asks for ({details})"
        raise ControlError(EXIT_UNREACHABLE, f"{what}; is it of another version? meshwatchctl version shows both")
    raise ControlError(EXIT_UNREACHABLE, f"meshwatchd answered {reply.error} ({details})")
