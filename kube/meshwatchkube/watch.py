"""The Nodes of the cluster, kept up to date by one list and a watch: requests grow with changes, not with nodes.

    list (in pages) -> resourceVersion -> watch with bookmarks -> ended by the server: watch again from the last version
                                                               -> 410 Gone: list again
                                                               -> cut, mute, or silent for too long: wait, watch again
                                                               -> refused: wait, list again

A watch tells nothing while nothing happens, which looks like a broken connection; bookmarks tell the two apart
(k8s.io/kubernetes, KEP-956). They also keep the version recent enough to go on from.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from meshwatchd.model.decoding import decode_json
from meshwatchd.model.errors import DecodeError
from meshwatchkube.cluster import Node
from meshwatchkube.http import GONE, UNREACHED, ApiError, Http
from meshwatchkube.pace import Backoff
from meshwatchkube.requests import ANSWER, NODES, Request

PAGE: Final = 500
"""As kubectl asks (chunk-size)."""
LASTS_S: Final = 300
"""An API server that is upgraded or moved is found again after so long at the latest."""


class _List(msgspec.Struct, frozen=True):
    class Meta(msgspec.Struct, frozen=True, rename="camel"):
        resource_version: str = ""
        continue_: str | None = msgspec.field(default=None, name="continue")

    metadata: Meta = Meta()
    items: tuple[Node, ...] | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _Failure(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


for each in (_List, _Event, _Failure):
    # Learned before there are threads: two that meet in msgspec while it learns a type have crashed it (0.22).
    msgspec.json.Decoder(each)


def list_nodes(http: Http, selector: Mapping[str, str] | None = None) -> tuple[dict[str, Node], str]:
    """All Nodes by name, and the version from which a watch can go on.

    Raises:
        ApiError: it failed.
        DecodeError: what is answered is no list of Nodes.
    """
    found: dict[str, Node] = {}
    parameters = {"limit": str(PAGE), **(selector or {})}
    while True:
        page = decode_json(http.send(Request(method="GET", path=NODES, parameters=parameters)), _List, ANSWER)
        found |= {node.name: node for node in page.items or ()}
        if not page.metadata.continue_:
            return found, page.metadata.resource_version
        parameters["continue"] = page.metadata.continue_


class NodeWatch:
    """A thread that watches Nodes until it is stopped.

    Args:
        http: used by this thread alone.
        backoff: of its own.
        clock: monotonic nanoseconds.
        only: the one node that is of interest; empty for all.
    """

    def __init__(self, http: Http, backoff: Backoff, clock: Callable[[], int], only: str = "") -> None:
        self.only = only
        self._http, self._backoff, self._clock = http, backoff, clock
        self._selector = {"fieldSelector": f"metadata.name={only}"} if only else {}
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._version, self._is_refused = "", False
        self._heard_ns: int | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Have it end soon."""
        self._stopped.set()
        self._http.interrupt()

    def picture(self, stale_after_ns: int) -> tuple[Mapping[str, Node], bool]:
        """All nodes, and whether the API has spoken lately enough for that to be what it has."""
        with self._lock:
            heard = self._heard_ns
            is_fresh = heard is not None and self._clock() - heard <= stale_after_ns
            return dict(self._nodes), is_fresh

    def learn(self, answer: bytes) -> None:
        """Take in a Node as the API has answered a write of this process: the watch may tell of it much later.

        Who did not know its own mark would give up a change that is made.
        """
        with contextlib.suppress(DecodeError), self._lock:
            node = decode_json(answer, Node, ANSWER)
            if node.name in self._nodes:
                self._nodes[node.name] = node

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            self._http.close()

    def _follow(self) -> None:
        while not self._stopped.is_set():
            is_known = bool(self._version)
            try:
                if not is_known:
                    self._list()
                self._watch()
            except (ApiError, DecodeError) as error:
                status = None if isinstance(error, DecodeError) else error.status
                if status != UNREACHED:
                    # Some versions are refused for ever, with whatever status: only a list gives another one.
                    self._is_refused |= bool(self._version)
                    self._version = ""
                if status == GONE and is_known:
                    continue
                if not self._stopped.is_set():
                    self._stopped.wait(self._backoff.failed(str(error), self._clock()) / 1e9)

    def _list(self) -> None:
        nodes, version = list_nodes(self._http, self._selector)
        with self._lock:
            self._nodes, self._version, self._heard_ns = nodes, version, self._clock()
        if not self._is_refused:
            self._backoff.worked()

    def _watch(self) -> None:
        parameters = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(LASTS_S),
            **self._selector,
        }
        is_mute = True
        for line in self._http.lines(NODES, parameters):
            if self._stopped.is_set():
                return
            if line:
                is_mute = False
                self._take(decode_json(line.encode(), _Event, ANSWER))
        if is_mute:
            # As of an API server that is stopping, or a proxy: asked again at once, it would be asked without end.
            raise ApiError(UNREACHED, "the watch ended without a word")

    def _take(self, event: _Event) -> None:
        if event.type == "ERROR":
            status = decode_json(event.object, _Failure, ANSWER)
            raise ApiError(status.code or UNREACHED, status.message)
        node = decode_json(event.object, Node, ANSWER)  # a bookmark is a Node of which only the version is set
        with self._lock:
            self._version, self._heard_ns = node.metadata.resource_version, self._clock()
            if event.type == "DELETED":
                self._nodes.pop(node.name, None)
            elif event.type != "BOOKMARK":
                self._nodes[node.name] = node
        self._is_refused = False
        self._backoff.worked()
