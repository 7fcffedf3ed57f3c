"""Patches as clients send them, and what is refused."""

import json

import pytest

from netnslab.kube_api.objects import ApiError
from netnslab.kube_api.patches import apply_patch

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
OPERATIONS = "application/json-patch+json"


def _applied(media_type, before, patch):
    """After a patch that leaves what there was alone."""
    kept = json.dumps(before)
    after = apply_patch(media_type, before, patch)
    assert kept == json.dumps(before)
    return after


def test_a_merge_patch_replaces_lists_and_deletes_by_null():
    """RFC 7396: as `kubectl annotate` and `kubectl label` send it."""
    before = {"metadata": {"annotations": {"a": "1", "b": "2"}}, "spec": {"taints": [{"key": "x"}]}}
    patch = {"metadata": {"annotations": {"a": None, "c": "3"}}, "spec": {"taints": []}}
    after = {"metadata": {"annotations": {"b": "2", "c": "3"}}, "spec": {"taints": []}}

    assert after == _applied(MERGE, before, patch)


def test_a_strategic_patch_merges_conditions_by_type_and_replaces_taints():
    """A node's conditions are many writers' lines of one list; its taints are one value."""
    before = {
        "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "True"}]},
    }
    patch = {
        "spec": {"taints": [{"key": "y", "effect": "NoExecute"}]},
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "New"}],
            "conditions": [
                {"type": "Ready", "status": "False"},
                {"type": "New", "status": "True"},
                {"type": "Old", "$patch": "delete"},
            ],
        },
    }
    after = {
        "spec": {"taints": [{"key": "y", "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "New", "status": "True"}]},
    }

    assert after == _applied(STRATEGIC, before, patch)


def test_a_strategic_patch_may_replace_a_whole_map():
    """`$patch: replace` leaves nothing of what there was."""
    assert {"labels": {"new": "1"}} == _applied(
        STRATEGIC, {"labels": {"old": "1"}}, {"labels": {"$patch": "replace", "new": "1"}}
    )


def test_operations_are_done_in_turn_on_escaped_names():
    """RFC 6902 and 6901: Kilo's agent takes its annotations back by `remove`."""
    before = {"metadata": {"annotations": {"kilo.squat.ai/key": "k", "other": "1"}}, "list": [1, 2]}
    patch = [
        {"op": "test", "path": "/metadata/annotations/kilo.squat.ai~1key", "value": "k"},
        {"op": "remove", "path": "/metadata/annotations/kilo.squat.ai~1key"},
        {"op": "add", "path": "/list/1", "value": 5},
        {"op": "add", "path": "/list/-", "value": 9},
        {"op": "replace", "path": "/list/0", "value": 0},
        {"op": "move", "from": "/metadata/annotations/other", "path": "/metadata/moved"},
        {"op": "copy", "from": "/metadata/moved", "path": "/copied"},
    ]

    assert {"metadata": {"annotations": {}, "moved": "1"}, "list": [0, 5, 2, 9], "copied": "1"} == _applied(
        OPERATIONS, before, patch
    )


@pytest.mark.parametrize(
    ("code", "media_type", "patch"),
    [
        (415, "application/json", {}),
        (400, MERGE, "text"),
        (400, OPERATIONS, {"op": "remove", "path": "/a"}),
        (400, OPERATIONS, [{"op": "increment", "path": "/a"}]),
        (400, OPERATIONS, [{"op": "remove", "path": "a"}]),
        (422, OPERATIONS, [{"op": "remove", "path": "/b"}]),
        (422, OPERATIONS, [{"op": "replace", "path": "/b", "value": 1}]),
        (422, OPERATIONS, [{"op": "remove", "path": ""}]),
        (422, OPERATIONS, [{"op": "remove", "path": "/list/7"}]),
        (422, OPERATIONS, [{"op": "test", "path": "/a", "value": 2}]),
        (422, OPERATIONS, [{"op": "add", "path": "/b/c", "value": 1}]),
    ],
)
def test_what_cannot_be_applied_is_refused(code, media_type, patch):
    """With the code that a client tells a lost race from a mistake by."""
    with pytest.raises(ApiError) as refused:
        _applied(media_type, {"a": 1, "list": []}, patch)

    assert code == refused.value.code
