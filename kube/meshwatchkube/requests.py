"""What each action is on the wire: method, path, kind of patch and body. Pure.

Whatever was read before it is changed goes with the version that was read, and the API refuses it with 409 Conflict
where the Node has changed since. Conditions are merged by their type by the API itself, and kubelets write that status
every few seconds, so they go without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from meshwatchd.model.decoding import Door
from meshwatchkube.actions import SetConditions, SetCordon, SetMark, SetTaint, Tell, Written
from meshwatchkube.cluster import CORDON_ANNOTATION, Condition, Taint, render_seconds

NODES = "api/v1/nodes"
EVENTS = "api/v1/namespaces/default/events"
"""An Event about an object of no namespace is in this one (k8s.io/kubernetes pkg/apis/core/validation/events.go)."""

JSON, MERGE_PATCH = "application/json", "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
ANSWER = Door("api answer", "look at what stands between this process and the API server")

COMPONENT = "meshwatchd-kube"
_MAX_MESSAGE = 1024
"""Of an Event's message (core/v1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `body` is encoded as JSON."""

    method: str
    path: str
    body: object = None
    content_type: str = JSON
    parameters: Mapping[str, str] = field(default_factory=dict)


def request_of(action: Written, unix_ns: int) -> Request:
    """The request that carries out an action at an instant of Unix time."""
    match action:
        case SetMark(mark=mark, version=version):
            change: dict[str, object] = {"metadata": {"resourceVersion": version, mark.field: {mark.key: mark.value}}}
            return _patch(mark.node, change, is_dry=action.is_dry)
        case SetTaint():
            change = {
                "metadata": {"resourceVersion": action.version},
                "spec": {"taints": [_taint(taint, unix_ns) for taint in action.taints] or None},
            }
            return _patch(action.node, change, is_dry=action.is_dry)
        case SetCordon():
            note = action.fault if action.is_cordoned else None
            change = {
                "metadata": {"resourceVersion": action.version, "annotations": {CORDON_ANNOTATION: note}},
                "spec": {"unschedulable": True if action.is_cordoned else None},
            }
            return _patch(action.node, change, is_dry=action.is_dry)
        case SetConditions():
            change = {"status": {"conditions": [_condition(each, unix_ns) for each in action.conditions]}}
            path = f"{NODES}/{action.node}/status"
            return Request(
                method="PATCH",
                path=path,
                body=change,
                content_type=STRATEGIC_MERGE_PATCH,
                parameters=_dry(action.is_dry),
            )
        case Tell():
            return Request(method="POST", path=EVENTS, body=_event(action, unix_ns))
        case _:
            assert_never(action)


def _patch(node: str, body: object, *, is_dry: bool) -> Request:
    return Request(
        method="PATCH",
        path=f"{NODES}/{node}",
        body=body,
        content_type=MERGE_PATCH,
        parameters=_dry(is_dry),
    )


def _dry(is_dry: bool) -> Mapping[str, str]:
    return {"dryRun": "All"} if is_dry else {}


def _taint(taint: Taint, unix_ns: int) -> Mapping[str, str]:
    """A taint as it was; one that evicts needs the instant from which tolerations count."""
    added = taint.time_added or (render_seconds(unix_ns) if taint.effect == "NoExecute" else None)
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": added}
    return {name: value for name, value in fields.items() if value}


def _condition(condition: Condition, unix_ns: int) -> Mapping[str, str]:
    moment = render_seconds(unix_ns)
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }


def _event(action: Tell, unix_ns: int) -> Mapping[str, object]:
    moment = render_seconds(unix_ns)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        # As client-go names them: no two of one Node begin in the same nanosecond.
        "metadata": {"name": f"{action.node}.{unix_ns:x}", "namespace": "default"},
        # kubectl looks for Events of a Node by its name in the place of the uid, as kubelets write them.
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": action.node, "uid": action.node},
        "reason": action.reason,
        "message": action.message[:_MAX_MESSAGE],
        "type": "Warning" if action.is_warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
