"""One watch: what there is, if that is wanted, and then each change, as lines of JSON.

    resourceVersion=7                      what comes after version 7
    resourceVersion= (or 0)                what there is, as ADDED events, and what comes
    sendInitialEvents=true                 the same, and a bookmark between the two that says that all has been sent

A version that the history has forgotten is an ERROR event that carries 410, after which the watch ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from netnslab.kube_api.objects import ApiError, Object, Resource
from netnslab.kube_api.request import Request
from netnslab.kube_api.store import Change, Store

BOOKMARK_S = 60.0
"""Between two bookmarks of a watch on which nothing happens, as in the API server."""
LOOK_S = 1.0
"""After so long without a change somebody looks whether the client is still there."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Event = tuple[str, Object]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and the object."""


def watch(
    store: Store, request: Request, is_wanted: Callable[[], bool], *, bookmark_s: float = BOOKMARK_S
) -> Iterator[Event]:
    """The events of a watch, as long as it is wanted, for `timeoutSeconds` of the request at most.

    Args:
        store: whose.
        request: with the verb watch.
        is_wanted: whether client and server are still there; asked once a second where nothing happens.
        bookmark_s: between two bookmarks.
    """
    try:
        yield from _watch(store, request, is_wanted, bookmark_s)
    except ApiError as error:
        yield "ERROR", error.status()


def _watch(store: Store, request: Request, is_wanted: Callable[[], bool], bookmark_s: float) -> Iterator[Event]:
    matches, resource = request.matches(), request.resource
    has_bookmarks, is_complete = request.is_set("allowWatchBookmarks"), request.is_set("sendInitialEvents")
    since = request.number("resourceVersion", 0)
    if is_complete or not since:
        items, since = store.list(resource, matches)
        yield from (("ADDED", item) for item in items)
    if is_complete and has_bookmarks:
        yield _bookmark(resource, since, is_end=True)
    now = time.monotonic()
    ends, next_bookmark = now + request.number("timeoutSeconds", 3600), now + bookmark_s
    while is_wanted() and (now := time.monotonic()) < ends:
        changes, since = store.changes(resource, since)
        for change in changes:
            if (event := _event(change, matches)) is not None:
                yield event
        if has_bookmarks and now >= next_bookmark:
            next_bookmark = now + bookmark_s
            yield _bookmark(resource, since)
        store.wait(since, min(LOOK_S, bookmark_s))


def _event(change: Change, matches: Callable[[Object], bool]) -> Event | None:
    """A change in the eyes of somebody who sees only what matches: what matches no more is deleted."""
    before = change.before if change.before is not None and matches(change.before) else None
    after = change.after if change.after is not None and matches(change.after) else None
    if after is not None:
        return ("ADDED" if before is None else "MODIFIED"), after
    if before is None:
        return None
    metadata = before["metadata"]
    assert isinstance(metadata, dict)
    return "DELETED", {**before, "metadata": {**metadata, "resourceVersion": str(change.version)}}


def _bookmark(resource: Resource, version: int, *, is_end: bool = False) -> Event:
    metadata: Object = {"resourceVersion": str(version), "creationTimestamp": None}
    if is_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return "BOOKMARK", {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
