"""The three kinds of patches that clients send.

A strategic merge patch is a merge patch in which some lists are merged by a key of their members. The types of
Kubernetes say which lists (`patchMergeKey`); those of nodes and pods are known here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

from netnslab.kube_api.objects import ApiError, Json, Object, as_object

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "volumes": "name",
}
"""Lists by name, with the member that identifies their members (`patchMergeKey`, api/core/v1/types.go). A node's taints
are replaced as a whole: clients send all of them."""
DIRECTIVE = "$patch"
ORDER = "$setElementOrder/"
"""The order of a merged list, which nobody here depends on."""


def apply_patch(media_type: str, before: Object, patch: Json) -> Object:
    """The object after a patch; `before` stays as it is.

    Raises:
        ApiError: no patch of this kind can be applied.
    """
    match media_type:
        case "application/merge-patch+json":
            return as_object(merge(before, patch))
        case "application/strategic-merge-patch+json":
            return as_object(merge_strategically(before, as_object(patch)))
        case "application/json-patch+json":
            return as_object(apply_operations(before, patch))
        case _:
            raise ApiError(415, f"{media_type or 'nothing'} is no kind of patch that is known here")


def merge(before: Json, patch: Json) -> Json:
    """RFC 7396: members are replaced one by one, null deletes."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


def merge_strategically(before: Json, patch: Object) -> Json:
    """The same, with lists merged by key and with directives ($patch: replace, $patch: delete)."""
    if patch.get(DIRECTIVE) == "replace":
        return {name: copy.deepcopy(value) for name, value in patch.items() if name != DIRECTIVE}
    merged = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if name.startswith(ORDER):
            continue
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge_strategically(merged.get(name), value)
        elif isinstance(value, list) and name in MERGE_KEYS:
            merged[name] = _merge_list(merged.get(name), value, MERGE_KEYS[name])
        else:
            merged[name] = copy.deepcopy(value)
    return merged


def _merge_list(before: Json, patch: Sequence[Json], key: str) -> list[Json]:
    members = {str(each.get(key)): each for each in _objects(before if isinstance(before, list) else ())}
    for each in _objects(patch):
        identity = str(each.get(key))
        if each.get(DIRECTIVE) == "delete":
            members.pop(identity, None)
        else:
            members[identity] = as_object(merge_strategically(members.get(identity), each))
    return list(members.values())


def _objects(values: Sequence[Json]) -> list[Object]:
    return [each for each in values if isinstance(each, dict)]


def apply_operations(before: Json, patch: Json) -> Json:
    """RFC 6902.

    Raises:
        ApiError: an operation cannot be done, so none is.
    """
    if not isinstance(patch, list):
        raise ApiError(400, "a JSON patch is a list of operations")
    document = copy.deepcopy(before)
    for operation in _objects(patch):
        kind, path = str(operation.get("op")), _pointer(operation.get("path"))
        match kind:
            case "test":
                if _find(document, path) != operation.get("value"):
                    raise ApiError(422, f"test of {operation.get('path')} failed")
            case "remove":
                document = _change(document, path, _remove)
            case "add" | "replace":
                document = _change(document, path, _put(operation.get("value"), replaces=kind == "replace"))
            case "move" | "copy":
                source = _pointer(operation.get("from"))
                value = copy.deepcopy(_find(document, source))
                if kind == "move":
                    document = _change(document, source, _remove)
                document = _change(document, path, _put(value, replaces=False))
            case _:
                raise ApiError(400, f"{kind} is no operation of a JSON patch")
    return document


Change = Callable[[Json, str], None]
"""Changes one member, named by the last step of a pointer, of what holds it."""


def _pointer(value: Json) -> list[str]:
    """RFC 6901."""
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise ApiError(400, f"{value} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in value.split("/")[1:]]


def _find(document: Json, path: Sequence[str]) -> Json:
    for step in path:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(step, len(document))]
        else:
            raise ApiError(422, f"there is no {'/'.join(path)}")
    return document


def _change(document: Json, path: Sequence[str], change: Change) -> Json:
    if not path:
        raise ApiError(422, "the whole object cannot be patched away")
    change(_find(document, path[:-1]), path[-1])
    return document


def _remove(holder: Json, step: str) -> None:
    if isinstance(holder, dict) and step in holder:
        del holder[step]
    elif isinstance(holder, list):
        del holder[_index(step, len(holder))]
    else:
        raise ApiError(422, f"there is no {step} to be removed")


def _put(value: Json, *, replaces: bool) -> Change:
    def put(holder: Json, step: str) -> None:
        if isinstance(holder, dict) and (step in holder or not replaces):
            holder[step] = copy.deepcopy(value)
        elif isinstance(holder, list) and replaces:
            holder[_index(step, len(holder))] = copy.deepcopy(value)
        elif isinstance(holder, list):
            holder.insert(len(holder) if step == "-" else _index(step, len(holder) + 1), copy.deepcopy(value))
        else:
            raise ApiError(422, f"there is no {step} to be written")

    return put


def _index(step: str, length: int) -> int:
    if not step.isdigit() or int(step) >= length:
        raise ApiError(422, f"there is no member {step} of {length}")
    return int(step)
