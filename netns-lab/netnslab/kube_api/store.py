"""Objects, their versions, and what has happened to them lately.

One counter is the version of everything, as etcd's revision is. An object is never changed in place, so it can be read
without a lock. The history holds the last changes; a watch that would begin before them is told 410.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from netnslab.kube_api.objects import ApiError, Object, Resource, name_of, namespace_of, part, text

HISTORY = 4096
"""Changes that are kept; etcd keeps those of five minutes."""
STATUS = "status"

Edit = Callable[[Object], Object]
"""An object as it is to be, from the one that there is, which stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What has become of one object at one version; None where there was or is none."""

    version: int
    resource: Resource
    before: Object | None
    after: Object | None


class Store:
    """All objects of an API, by kind, namespace and name; safe to be used by many threads.

    Args:
        resources: kinds that there are.
        history: changes that are kept for watches.
    """

    def __init__(self, resources: Iterable[Resource], *, history: int = HISTORY) -> None:
        self.resources = tuple(resources)
        self._objects: dict[Resource, dict[tuple[str, str], Object]] = {each: {} for each in self.resources}
        self._history: deque[Change] = deque(maxlen=history)
        self._version = 1
        self._changed = threading.Condition(threading.RLock())

    @property
    def version(self) -> int:
        """Of the last change."""
        return self._version

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """One object.

        Raises:
            ApiError: there is none.
        """
        with self._changed:
            found = self._objects[resource].get((namespace, name))
        if found is None:
            message = f'{_group_of(resource)} "{name}" not found'
            raise ApiError(404, message)
        return found

    def list(self, resource: Resource, matches: Callable[[Object], bool]) -> tuple[list[Object], int]:
        """The objects of a kind that match, by namespace and name, with the version at which that is true."""
        with self._changed:
            found = self._objects[resource]
            return [found[key] for key in sorted(found) if matches(found[key])], self._version

    def create(self, resource: Resource, item: Object, namespace: str = "") -> Object:
        """Add an object; `generateName` makes a name of its own.

        Raises:
            ApiError: there is one of that name, or it has none.
        """
        metadata = dict(part(item, "metadata"))
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        if not metadata.get("name"):
            raise ApiError(422, "metadata.name is missing")
        if resource.is_namespaced:
            metadata["namespace"] = namespace or str(metadata.get("namespace") or "default")
        metadata |= {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        with self._changed:
            if (namespace_of({"metadata": metadata}), str(metadata["name"])) in self._objects[resource]:
                message = f'{_group_of(resource)} "{metadata["name"]}" already exists'
                raise ApiError(409, message, reason="AlreadyExists")
            return self._put(resource, None, {**item, "metadata": metadata})

    def edit(
        self, resource: Resource, name: str, namespace: str, edit: Edit, *, subresource: str = "", is_dry: bool = False
    ) -> Object:
        """Replace an object by what is made of it; by the URL of its status, or of all else. A dry run only tells it.

        Raises:
            ApiError: there is none, or the new one carries the version of an earlier one.
        """
        with self._changed:
            before = self.get(resource, name, namespace)
            after = dict(edit(before))
            former, metadata = part(before, "metadata"), dict(part(after, "metadata"))
            if metadata.get("resourceVersion", "") not in ("", former["resourceVersion"]):
                message = (
                    f'Operation cannot be fulfilled on {_group_of(resource)} "{name}": the object has been modified'
                )
                raise ApiError(409, message)
            if (text(metadata, "name") or name) != name:
                raise ApiError(422, "metadata.name cannot be changed")
            after["metadata"] = metadata | {
                key: former[key] for key in ("name", "namespace", "uid", "creationTimestamp") if key in former
            }
            if STATUS in resource.subresources:
                after = _divided(before, after, is_status=subresource == STATUS)
            if _unversioned(after) == _unversioned(before):
                return before  # nothing is written, and nobody hears of it
            return after if is_dry else self._put(resource, before, after)

    def delete(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """Take an object away; returns it as it was.

        Raises:
            ApiError: there is none.
        """
        with self._changed:
            before = self.get(resource, name, namespace)
            del self._objects[resource][namespace, name]
            self._record(Change(version=self._version + 1, resource=resource, before=before, after=None))
            return before

    def changes(self, resource: Resource, since: int) -> tuple[Sequence[Change], int]:
        """What has happened to a kind after a version, oldest first, and the version up to which that is all.

        Raises:
            ApiError: 410, since the history does not go back so far.
        """
        with self._changed:
            if since < self._oldest():
                message = f"too old resource version: {since} ({self._oldest()})"
                raise ApiError(410, message)
            later = list(takewhile(lambda each: each.version > since, reversed(self._history)))
            return [each for each in reversed(later) if each.resource == resource], max(since, self._version)

    def wait(self, since: int, timeout_s: float) -> None:
        """Wait for anything later than a version."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > since, timeout_s)

    def _oldest(self) -> int:
        """The earliest version from which on everything is known."""
        return self._history[0].version - 1 if self._history else self._version

    def _put(self, resource: Resource, before: Object | None, after: Object) -> Object:
        version = self._version + 1
        metadata = {**part(after, "metadata"), "resourceVersion": str(version)}
        after = {**after, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        self._objects[resource][namespace_of(after), name_of(after)] = after
        self._record(Change(version=version, resource=resource, before=before, after=after))
        return after

    def _record(self, change: Change) -> None:
        self._version = change.version
        self._history.append(change)
        self._changed.notify_all()


def _divided(before: Object, after: Object, *, is_status: bool) -> Object:
    """An object in which either the status has changed, with labels and annotations, or all else."""
    if is_status:
        return {**before, "metadata": after["metadata"], **({STATUS: after[STATUS]} if STATUS in after else {})}
    kept = {STATUS: before[STATUS]} if STATUS in before else {}
    return {name: value for name, value in after.items() if name != STATUS} | kept


def _unversioned(item: Object) -> Object:
    metadata = {name: value for name, value in part(item, "metadata").items() if name != "resourceVersion"}
    return {**item, "metadata": metadata}


def _group_of(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural
