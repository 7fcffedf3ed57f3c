"""HTTP to the API server: who it is and who we are is lightkube's to find out, and one failure is one exception.

Of lightkube only the configuration is used: kubeconfig files with certificates, tokens and exec plugins, the service
account of a pod, and its token when that is rotated. Requests are made here, since each needs a timeout, a watch too: a
connection that is half open must not pass for an API with no news.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2
import msgspec
from lightkube.config.client_adapter import Client, ConnectionParams, ExecAuth
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError as KubeconfigError
from yaml import YAMLError

from meshwatchd.model.decoding import FAILURES
from meshwatchd.model.errors import ConfigError
from meshwatchkube.exec_plugin import ExecPlugin
from meshwatchkube.requests import Request

SILENCE_S: Final = 90.0
"""A watch with bookmarks is never silent for longer; the API server sends one each minute."""

GONE, CONFLICT, NOT_FOUND, FORBIDDEN, UNREACHED = 410, 409, 404, 403, 0

_NONSENSE: Final = (LookupError, TypeError, ValueError)
"""What lightkube raises where an exec plugin prints no token: one that fails does so now and then without a status."""


class ApiError(Exception):
    """A request that has not done what it should.

    Attributes:
        status: of HTTP; 0 where there was no answer.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class Http:
    """A connection to one API server.

    Args:
        client: with base address, TLS and authentication.
        timeout_s: of connecting, and of each answer; an exec plugin of `client` has its own.
    """

    def __init__(self, client: httpx2.Client, timeout_s: float) -> None:
        self._client, self._timeout_s = client, timeout_s
        self._stream: socket.socket | None = None

    def send(self, request: Request) -> bytes:
        """Make a request; returns the body of its answer.

        Raises:
            ApiError: it failed, or took too long.
        """
        content = None if request.body is None else msgspec.json.encode(request.body)
        with _translated():
            answer = self._client.request(
                request.method,
                request.path,
                params=dict(request.parameters),
                content=content,
                headers={"Content-Type": request.content_type, "Accept": "application/json"},
                timeout=self._timeout_s,
            )
            _check(answer)
            return answer.content

    def lines(self, path: str, parameters: Mapping[str, str]) -> Iterator[str]:
        """The lines of an answer that goes on, until the API server ends it.

        Raises:
            ApiError: it failed, or was silent for too long.
        """
        timeout = httpx2.Timeout(self._timeout_s, read=SILENCE_S)
        with _translated(), self._client.stream("GET", path, params=dict(parameters), timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
            _check(answer)
            try:
                self._stream = answer.extensions["network_stream"].get_extra_info("socket")
                yield from answer.iter_lines()
            finally:
                self._stream = None

    def interrupt(self) -> None:
        """End an answer that goes on and that another thread waits for."""
        stream = self._stream
        if stream is not None:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End all connections; no other thread uses them any more."""
        self._client.close()


def connect(kubeconfig: str, timeout_s: float) -> Http:
    """A connection by a kubeconfig, or by the service account of this pod where that is empty; nothing is sent.

    Args:
        kubeconfig: a file.
        timeout_s: of connecting, of each answer, and of each run of an exec plugin.

    Raises:
        ConfigError: neither is there, or it cannot be used.
    """
    try:
        files = KubeConfig.from_file(Path(kubeconfig)) if kubeconfig else KubeConfig.from_service_account()
        single = files.get()
        if single is None:
            raise ConfigError(kubeconfig, "current-context", "is missing", "run: kubectl config use-context NAME")
        client = Client(single, ConnectionParams(timeout=httpx2.Timeout(timeout_s)))
        if isinstance(client.auth, ExecAuth) and single.user is not None and single.user.exec is not None:
            client.auth = ExecPlugin(single.user.exec, timeout_s)
        return Http(client, timeout_s)
    except (KubeconfigError, YAMLError, OSError, *FAILURES) as error:
        place = kubeconfig or "the service account"
        remedy = "see `kubectl config view`" if kubeconfig else "run it in a pod, or set api.kubeconfig"
        raise ConfigError(place, "", f"cannot be used: {error}", remedy) from error


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.StreamError, KubeconfigError, OSError, RuntimeError, *_NONSENSE) as error:
        raise ApiError(UNREACHED, f"{type(error).__name__}: {error}"[:300]) from error


def _check(answer: httpx2.Response) -> None:
    if answer.is_error:
        raise ApiError(answer.status_code, f"{answer.status_code} {_message(answer)}"[:300])


def _message(answer: httpx2.Response) -> str:
    """What the API server says; a proxy in front of it may say anything."""
    try:
        return str(msgspec.json.decode(answer.content, type=dict[str, object]).get("message", ""))
    except FAILURES:
        return answer.reason_phrase
