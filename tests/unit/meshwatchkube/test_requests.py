"""What goes over the wire for each action."""

from __future__ import annotations

from typing import Any, cast

from meshwatchkube.actions import SetConditions, SetCordon, SetMark, SetTaint, Tell, Written
from meshwatchkube.cluster import Condition, Taint
from meshwatchkube.leaders import Mark
from meshwatchkube.requests import EVENTS, MERGE_PATCH, STRATEGIC_MERGE_PATCH, request_of

AT = 1795629600_000_000_000


def _body(action: Written) -> dict[str, Any]:
    return cast("dict[str, Any]", request_of(action, AT).body)


def test_a_mark_goes_with_the_version_that_was_seen():
    """So that a Node that has changed since is a conflict."""
    mark = Mark(node="b2", field="labels", key="submariner.io/gateway", value=None)
    request = request_of(SetMark(mark=mark, version="7"), AT)
    assert ("PATCH", "api/v1/nodes/b2", MERGE_PATCH) == (request.method, request.path, request.content_type)
    assert {"metadata": {"resourceVersion": "7", "labels": {"submariner.io/gateway": None}}} == request.body
    assert {} == request.parameters
    assert {"dryRun": "All"} == request_of(SetMark(mark=mark, version="7", is_dry=True), AT).parameters


def test_taints_are_replaced_as_a_whole():
    """The version guards those of others; one that evicts says since when."""
    taints = (Taint(key="a", effect="NoSchedule", time_added="t"), Taint(key="b", effect="NoExecute", value="v"))
    body = _body(SetTaint(node="b3", version="7", taints=taints))
    assert {
        "metadata": {"resourceVersion": "7"},
        "spec": {
            "taints": [
                {"key": "a", "effect": "NoSchedule", "timeAdded": "t"},
                {"key": "b", "value": "v", "effect": "NoExecute", "timeAdded": "2026-11-25T18:00:00Z"},
            ]
        },
    } == body
    assert {"taints": None} == _body(SetTaint(node="b3", version="7", taints=()))["spec"]


def test_a_cordon_carries_its_owner():
    """Without which it would be somebody else's."""
    body = _body(SetCordon(node="b3", version="7", is_cordoned=True, fault="f"))
    assert ({"meshwatchd.io/cordoned": "f"}, {"unschedulable": True}) == (body["metadata"]["annotations"], body["spec"])
    body = _body(SetCordon(node="b3", version="7", is_cordoned=False))
    assert ({"meshwatchd.io/cordoned": None}, {"unschedulable": None}) == (
        body["metadata"]["annotations"],
        body["spec"],
    )


def test_conditions_are_merged_by_the_api():
    """Kubelets write the others at the same time."""
    condition = Condition(type="MeshDegraded", status="True", reason="R", message="M")
    action = SetConditions(node="b3", conditions=(condition,))
    request = request_of(action, AT)
    assert ("api/v1/nodes/b3/status", STRATEGIC_MERGE_PATCH) == (request.path, request.content_type)
    (sent,) = _body(action)["status"]["conditions"]
    assert ("True", "2026-11-25T18:00:00Z") == (sent["status"], sent["lastTransitionTime"])


def test_an_event_is_found_by_kubectl_describe_node():
    """By the name in the place of the uid; long words are cut."""
    action = Tell(node="b3", reason="R", message="m" * 2000, is_warning=True)
    request, body = request_of(action, AT), _body(action)
    assert ("POST", EVENTS) == (request.method, request.path)
    assert ("b3", "b3", "Warning", 1024) == (
        body["involvedObject"]["name"],
        body["involvedObject"]["uid"],
        body["type"],
        len(body["message"]),
    )
