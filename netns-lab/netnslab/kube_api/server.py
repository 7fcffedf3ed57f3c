"""The store behind HTTP/1.1: one thread for each connection, one store behind as many addresses as wanted.

Listening sockets are given, so that one process serves inside many network namespaces.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast

from netnslab.kube_api import discovery
from netnslab.kube_api.objects import ApiError, Json, Object, as_object
from netnslab.kube_api.patches import apply_patch
from netnslab.kube_api.request import Request, decode, path_of
from netnslab.kube_api.store import Store
from netnslab.kube_api.watching import BOOKMARK_S, watch
from netnslab.process import being_first

Gate = Callable[[Request], None]
"""Called before each request is answered, in the connection's own thread: it may raise an ApiError, wait, or count."""


def let_pass(request: Request) -> None:
    """The gate that is always open."""
    del request


class KubeApi:
    """Serves a store for as long as the context lasts.

    The threads run before ordinary processes, as a server does that stands on a machine of its own.

    Args:
        sockets: that listen; closed at the end.
        gate: see `Gate`.
        bookmark_s: between two bookmarks of a watch.
    """

    def __init__(
        self,
        store: Store,
        sockets: Iterable[socket.socket],
        *,
        gate: Gate = let_pass,
        bookmark_s: float = BOOKMARK_S,
    ) -> None:
        self._servers = [_Server(each, store, gate, bookmark_s) for each in sockets]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for server in self._servers:
            thread = threading.Thread(target=server.serve, name="netnslab-kube-api", daemon=True)
            thread.start()
            self._stack.callback(thread.join)
            self._stack.callback(server.end)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._stack.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket, store: Store, gate: Gate, bookmark_s: float) -> None:
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.store, self.gate, self.bookmark_s = store, gate, bookmark_s
        self.is_ended = threading.Event()

    def serve(self) -> None:
        with being_first():  # threads inherit it
            self.serve_forever(poll_interval=0.1)

    def end(self) -> None:
        self.is_ended.set()
        self.shutdown()
        self.socket.close()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """A client that has gone away is no error; anything else is printed, and cuts the client's connection."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - http.server calls them so

    def log_message(self, format: str, *values: object) -> None:  # noqa: A002 - so it is called in http.server
        """Nobody reads it; a gate sees all requests."""

    @property
    def _api(self) -> _Server:
        return cast("_Server", self.server)

    def _answer(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            path, store = path_of(self.path), self._api.store
            if path in discovery.HEALTH:
                self._send(200, b"ok", "text/plain")
                return
            if self.command == "GET" and (found := discovery.document(path, store.resources)) is not None:
                self._send_json(200, found)
                return
            media_type = self.headers.get("Content-Type") or ""
            request = decode(
                self.command,
                self.path,
                store.resources,
                # Options of a deletion change nothing here, and kubectl sends them as protobuf.
                body=None if self.command == "DELETE" else _decoded(raw, media_type),
                media_type=media_type,
                user_agent=self.headers.get("User-Agent") or "",
            )
            self._api.gate(request)
            if request.verb == "watch":
                self._stream(request)
            else:
                self._send_json(201 if request.verb == "create" else 200, perform(store, request))
        except ApiError as error:
            self._send_json(error.code, error.status())

    def _stream(self, request: Request) -> None:
        """Chunks, an event each (RFC 9112, section 7.1)."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for kind, item in watch(self._api.store, request, self._is_wanted, bookmark_s=self._api.bookmark_s):
                line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
                self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.close_connection = True

    def _is_wanted(self) -> bool:
        """Whether the server goes on and the client has not hung up; it says nothing else during a watch."""
        if self._api.is_ended.is_set():
            return False
        readable, _, _ = select.select([self.connection], [], [], 0)
        return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""

    def _send_json(self, code: int, body: Object) -> None:
        self._send(code, json.dumps(body).encode(), "application/json")

    def _send(self, code: int, body: bytes, media_type: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def perform(store: Store, request: Request) -> Object:
    """Whatever is no watch: the answer's body.

    Raises:
        ApiError: refused.
    """
    resource, name, namespace = request.resource, request.name, request.namespace
    is_dry, subresource = request.is_dry, request.subresource
    match request.verb:
        case "get":
            return store.get(resource, name, namespace)
        case "list":
            return _list(request, *store.list(resource, request.matches()))
        case "create":
            return store.create(resource, as_object(request.body), namespace)
        case "update":
            wanted = as_object(request.body)
            return store.edit(resource, name, namespace, lambda _: wanted, subresource=subresource, is_dry=is_dry)
        case "patch":

            def patched(before: Object) -> Object:
                return apply_patch(request.media_type, before, request.body)

            return store.edit(resource, name, namespace, patched, subresource=subresource, is_dry=is_dry)
        case _:
            store.delete(resource, name, namespace)
            return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _list(request: Request, items: list[Object], version: int) -> Object:
    """A list, or a page of it; what changes between two pages of one is in neither, or in both."""
    resource = request.resource
    begin, limit = request.number("continue", 0), request.number("limit", 0) or len(items)
    members: list[Json] = [*items[begin : begin + limit]]
    metadata: Object = {"resourceVersion": str(version)}
    if begin + limit < len(items):
        metadata |= {"continue": str(begin + limit), "remainingItemCount": len(items) - begin - limit}
    return {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata, "items": members}


def _decoded(raw: bytes, media_type: str) -> Json:
    if not raw:
        return None
    if "json" not in media_type:
        raise ApiError(415, f"only JSON is read here, not {media_type or 'what is sent without a Content-Type'}")
    try:
        return cast("Json", json.loads(raw))
    except ValueError as error:
        raise ApiError(400, f"the body is no JSON: {error}") from error
